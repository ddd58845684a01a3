// What `baton inspect` says about a model, as data: what its files hold, whether Baton serves it, and what serving it
// takes.
#ifndef BATON_CLI_MODEL_FACTS_H_
#define BATON_CLI_MODEL_FACTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv_layout.h"
#include "engine/model_options.h"
#include "modelfile/model_description.h"
#include "modelfile/model_file.h"

namespace baton::cli {

// The memory of one worker that computes in one of the ways that the flags allow.
struct MemoryNeeds {
  engine::Numerics numerics = engine::Numerics::kExact;
  engine::Weights weights = engine::Weights::kAuto;
  KvDtype kv_dtype = KvDtype::kBf16;
  int64_t weight_bytes = 0;
  // Of KV, for a token that every layer sees, and for one that only full layers see. Equal when no layer slides.
  int64_t token_bytes = 0;
  int64_t token_bytes_beyond_window = 0;
  // Of KV, the most that a sequence of context_length tokens holds in a worker that decodes.
  int64_t context_bytes = 0;

  // What a memory holds beside the weights. Both counts are 0 when it does not hold the weights.
  struct Fit {
    int64_t kv_bytes = 0;
    // In sequences within the window: longer ones take less for a token.
    int64_t tokens = 0;
    int64_t full_contexts = 0;
  };
  // Only when a memory is asked about.
  std::optional<Fit> fit;
};

struct ModelFacts {
  std::string name;
  modelfile::ModelDescription description;
  // Null when Baton does not run the architecture, a variant of it or a type of its tensors.
  std::unique_ptr<modelfile::ModelFile> file;
  // Why Baton does not serve the model. Empty: it does.
  std::string reason;
  // None where a number in the file may stand for several parameters.
  std::optional<int64_t> parameters;
  // Empty when Baton does not serve the model.
  std::vector<MemoryNeeds> memory;
};

// Describes MODEL, also one that Baton does not serve. Errors are those of ResolveModel and of damaged files.
absl::StatusOr<ModelFacts> GatherModelFacts(const std::string& model, std::optional<int64_t> memory_bytes);

// Every way in which a worker may compute the model. Requires a file that engine::CheckCpuModel accepts.
std::vector<MemoryNeeds> ListMemoryNeeds(const modelfile::ModelFile& file, std::optional<int64_t> memory_bytes);

}  // namespace baton::cli

#endif  // BATON_CLI_MODEL_FACTS_H_
