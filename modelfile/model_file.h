// A model on disk: its configuration, its tensors as views of mapped memory, and its tokenizer.
// Every length, offset and count that a file states is checked against the file and a named limit before use.
#ifndef BATON_MODELFILE_MODEL_FILE_H_
#define BATON_MODELFILE_MODEL_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/digest.h"
#include "modelfile/model_config.h"
#include "modelfile/tensor_view.h"
#include "modelfile/tokenizer_spec.h"

namespace baton::modelfile {

// How the model's makers want it sampled. A value that is not set is left to the server.
struct SamplingDefaults {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
};

// Immutable after Open; thread-safe.
class ModelFile {
 public:
  virtual ~ModelFile() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const TokenizerSpec& tokenizer() const = 0;
  // The values are not checked against any range. GGUF files have none.
  virtual const SamplingDefaults& sampling_defaults() const;
  virtual const std::vector<TensorView>& tensors() const = 0;
  // Looks a tensor up by GGUF's name ("blk.0.attn_q.weight"); null when absent.
  virtual const TensorView* Find(std::string_view name) const = 0;
  // Covers every tensor's name, type, shape, bytes and scales in the order of names, and is part of the fingerprint.
  // The first call reads the whole file; later and concurrent calls get its result.
  virtual Digest128 WeightsDigest() const = 0;
};

// Opens a GGUF v3 file or a Hugging Face directory (hf_directory.h). Weights are memory-mapped: no file may be
// shortened while it is open. NOT_FOUND when there is none, INVALID_ARGUMENT with one line that says what is damaged
// and where, UNIMPLEMENTED for an architecture, a variant of it or a tensor type that Baton does not run,
// PERMISSION_DENIED and UNAVAILABLE as the system says. TokenizerSpec::model is empty for a file without a tokenizer.
// Tensor names are checked here, their shapes by the engine. The tensor data of a GGUF file has the file's alignment
// (32 bytes by default, at least 8), that of a directory has none.
absl::StatusOr<std::unique_ptr<ModelFile>> OpenModelFile(const std::string& path);

// Reads a GGUF file from bytes that the caller keeps alive, for tests and fuzzers. Alignment is relative to `data`.
absl::StatusOr<std::unique_ptr<ModelFile>> ParseGguf(const uint8_t* data, size_t bytes);

// The digest that WeightsDigest gives of these tensors.
Digest128 DigestOfTensors(const std::vector<TensorView>& tensors);

// MODEL of the command line: the path of a GGUF file or of a Hugging Face directory, or a name from the model store
// ($BATON_MODEL_STORE, else $XDG_DATA_HOME/baton/models, else ~/.local/share/baton/models), where NAME.gguf or the
// directory NAME lies. NOT_FOUND says how to fetch it, if Baton can. A MODEL with a slash or the ending ".gguf" is a
// path; any other is looked for in the store first.
absl::StatusOr<std::string> ResolveModel(std::string_view model);

inline constexpr std::string_view kDefaultModel = "smollm2-135m-instruct";

// The models that `baton pull` puts into the store; scripts/fetch_model.sh knows where they are.
inline constexpr std::array<std::string_view, 2> kFetchableModels = {kDefaultModel, "gemma-3-270m"};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_MODEL_FILE_H_
