#include "cli/model_facts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/model_loading.h"
#include "cli/options.h"
#include "common/status.h"
#include "engine/cpu_model.h"
#include "router/served_model.h"

namespace baton::cli {
namespace {

using engine::Numerics;
using engine::Weights;

// Checkpoints that are quantized in other ways than GGUF's pack several parameters into one integer.
bool IsInteger(const std::string& type) {
  return type == "I64" || type == "I32" || type == "I16" || type == "U64" || type == "U32" || type == "U16" ||
         type == "U8" || type == "BOOL";
}

// Counts only the tensors that Baton computes with, where it runs the file: a directory may hold a tied head a second
// time.
std::optional<int64_t> CountParameters(const ModelFacts& facts) {
  int64_t count = 0;
  if (facts.file != nullptr) {
    for (const modelfile::TensorView& tensor : facts.file->tensors()) count += tensor.rows * tensor.cols;
    return count;
  }
  for (const modelfile::StoredTensor& tensor : facts.description.tensors) {
    if (IsInteger(tensor.type)) return std::nullopt;
    count += tensor.elements();
  }
  return count;
}

// What a router and a worker would refuse when they load the file.
absl::Status CheckServable(const LoadedModelFile& loaded) {
  BATON_RETURN_IF_ERROR(engine::CheckCpuModel(*loaded.file));
  return router::ServedModel::Create(loaded.name, *loaded.file).status();
}

MemoryNeeds NeedsOf(const modelfile::ModelFile& file, const KvLayout& layout) {
  const int64_t context = file.config().context_length;
  const int64_t context_blocks = layout.groups().MostBlocks(context, kDecodingWorkerChunkTokens);
  return {.kv_dtype = layout.dtype,
          .token_bytes = static_cast<int64_t>(layout.token_bytes()),
          .token_bytes_beyond_window = static_cast<int64_t>(layout.token_bytes_beyond_window()),
          .context_bytes = context_blocks * static_cast<int64_t>(layout.block_bytes())};
}

MemoryNeeds::Fit FitInto(int64_t memory_bytes, const MemoryNeeds& needs, const KvLayout& layout) {
  const int64_t left = std::max<int64_t>(memory_bytes - needs.weight_bytes, 0);
  const auto blocks = static_cast<int64_t>(layout.BlocksIn(static_cast<uint64_t>(left)));
  const auto block_bytes = static_cast<int64_t>(layout.block_bytes());
  return {.kv_bytes = blocks * block_bytes,
          .tokens = blocks / layout.groups().count() * kBlockTokens,
          .full_contexts = blocks * block_bytes / needs.context_bytes};
}

}  // namespace

std::vector<MemoryNeeds> ListMemoryNeeds(const modelfile::ModelFile& file, std::optional<int64_t> memory_bytes) {
  std::vector<MemoryNeeds> all;
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFp32}) {
    for (const Weights weights : {Weights::kAuto, Weights::kInt8, Weights::kInt4}) {
      // Rounding takes effect on float matrices only, and fp32 keeps what is rounded in as many bytes.
      if (weights != Weights::kAuto && (numerics == Numerics::kFp32 || !engine::IsRounded(file, weights))) continue;
      for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kInt8, KvDtype::kF32}) {
        if (!engine::ChooseKvDtype(numerics, dtype).ok()) continue;
        const KvLayout layout = engine::KvLayoutOf(file.config(), dtype);
        MemoryNeeds needs = NeedsOf(file, layout);
        needs.numerics = numerics;
        needs.weights = weights;
        needs.weight_bytes = engine::PackedWeightBytes(file, numerics, weights);
        if (memory_bytes.has_value()) needs.fit = FitInto(*memory_bytes, needs, layout);
        all.push_back(needs);
      }
    }
  }
  return all;
}

absl::StatusOr<ModelFacts> GatherModelFacts(const std::string& model, std::optional<int64_t> memory_bytes) {
  ModelFacts facts;
  BATON_ASSIGN_OR_RETURN(LoadedModelFile loaded, ResolveModelFile(model));
  facts.name = loaded.name;
  BATON_ASSIGN_OR_RETURN(facts.description, modelfile::DescribeModelFile(loaded.path));
  // The line on stdout names the model already.
  const auto reason = [&loaded](const absl::Status& status) {
    return std::string(absl::StripPrefix(status.message(), absl::StrCat(loaded.path, ": ")));
  };
  absl::StatusOr<std::unique_ptr<modelfile::ModelFile>> file = modelfile::OpenModelFile(loaded.path);
  if (file.ok()) {
    loaded.file = *std::move(file);
    facts.reason = reason(CheckServable(loaded));
    if (facts.reason.empty()) facts.memory = ListMemoryNeeds(*loaded.file, memory_bytes);
    facts.file = std::move(loaded.file);
  } else if (absl::IsUnimplemented(file.status())) {
    facts.reason = reason(file.status());
  } else {
    return std::move(file).status();
  }
  facts.parameters = CountParameters(facts);
  return facts;
}

}  // namespace baton::cli
