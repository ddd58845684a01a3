#include "engine/cpu_model.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/status.h"
#include "engine/kernels/dispatch.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/model/fingerprint.h"
#include "engine/model/transformer_runner.h"

namespace baton::engine {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kMaxRows = 1 << 16;

Isa IsaOf(const kernels::KernelTable& table) {
  if (&table == &kernels::kScalarKernels) return Isa::kScalar;
  return &table == &kernels::kAvx2Kernels ? Isa::kAvx2 : Isa::kAvx512Vnni;
}

// The fastest table of the instruction set; null when this machine has none.
const kernels::KernelTable* FindTable(Isa isa) {
  const kernels::KernelTable* found = nullptr;
  for (const kernels::KernelTable* table : kernels::SupportedKernels()) {
    if (isa == Isa::kAuto || IsaOf(*table) == isa) found = table;
  }
  return found;
}

}  // namespace

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kAuto:
      return "auto";
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512Vnni:
      return "avx512-vnni";
  }
  return "unknown";
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas;
  for (const kernels::KernelTable* table : kernels::SupportedKernels()) {
    if (isas.empty() || isas.back() != IsaOf(*table)) isas.push_back(IsaOf(*table));
  }
  return isas;
}

std::string_view WeightsName(Weights weights) {
  switch (weights) {
    case Weights::kAuto:
      return "auto";
    case Weights::kInt8:
      return "int8";
    case Weights::kInt4:
      return "int4";
  }
  return "unknown";
}

modelfile::TensorType PackedType(const modelfile::TensorView& matrix, Weights weights) {
  if (weights == Weights::kAuto || modelfile::TensorBlockElements(matrix.type) > 1) return matrix.type;
  const bool is_outer = matrix.name == "token_embd.weight" || matrix.name == "output.weight";
  return weights == Weights::kInt8 || is_outer ? modelfile::TensorType::kQ8_0 : modelfile::TensorType::kQ4_1;
}

bool IsRounded(const modelfile::ModelFile& file, Weights weights) {
  return std::any_of(file.tensors().begin(), file.tensors().end(), [weights](const modelfile::TensorView& tensor) {
    return tensor.rows > 1 && PackedType(tensor, weights) != tensor.type;
  });
}

int64_t PackedWeightBytes(const modelfile::ModelFile& file, Numerics numerics, Weights weights) {
  size_t bytes = 0;
  for (const modelfile::TensorView& tensor : file.tensors()) {
    if (tensor.rows == 1) continue;
    const kernels::WeightFormat format = PackedFormat(tensor, numerics, weights);
    bytes += kernels::ShapeOf(format, static_cast<int>(tensor.rows), static_cast<int>(tensor.cols)).bytes();
  }
  return static_cast<int64_t>(bytes);
}

int KernelThreads(int threads) {
  if (threads > 0) return threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

absl::StatusOr<KvDtype> ChooseKvDtype(Numerics numerics, std::optional<KvDtype> asked) {
  const bool is_exact = numerics == Numerics::kExact;
  const KvDtype chosen = asked.value_or(is_exact ? KvDtype::kBf16 : KvDtype::kF32);
  if (is_exact ? chosen == KvDtype::kBf16 || chosen == KvDtype::kInt8 : chosen == KvDtype::kF32) return chosen;
  return absl::InvalidArgumentError(absl::StrFormat("%s does not go with numerics %s, which take %s",
                                                    ToAbsl(KvDtypeName(chosen)), is_exact ? "exact" : "fp32",
                                                    is_exact ? "bf16 or int8" : "f32"));
}

KvLayout KvLayoutOf(const modelfile::ModelConfig& config, KvDtype dtype) {
  KvLayout layout{.layers = config.layers,
                  .kv_heads = config.kv_heads,
                  .head_dim = config.head_dim,
                  .dtype = dtype,
                  .inner_format = 1};
  if (config.sliding_layers.empty()) return layout;
  layout.window = config.sliding_window;
  layout.sliding_layers = config.sliding_layers;
  return layout;
}

absl::StatusOr<std::unique_ptr<ModelRunner>> LoadCpuModel(const modelfile::ModelFile& file,
                                                          const CpuModelOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrFormat("threads is %d: 0 to %d", options.threads, kMaxThreads));
  }
  if (options.max_rows < 1 || options.max_rows > kMaxRows) {
    return absl::InvalidArgumentError(absl::StrFormat("max_rows is %d: 1 to %d", options.max_rows, kMaxRows));
  }
  BATON_ASSIGN_OR_RETURN(const KvDtype kv_dtype, ChooseKvDtype(options.numerics, options.kv_dtype));
  const kernels::KernelTable* const table = FindTable(options.isa);
  if (table == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrFormat("this processor has no %s", absl::string_view(ToAbsl(IsaName(options.isa)))));
  }
  const auto caller = options.gate == nullptr ? kernels::PoolCaller::kComputes : kernels::PoolCaller::kWaits;
  auto pool = std::make_unique<kernels::ThreadPool>(KernelThreads(options.threads), caller);
  BATON_ASSIGN_OR_RETURN(TransformerWeights weights, LoadTransformerWeights(file, options, *pool));
  auto runner =
      std::make_unique<TransformerRunner>(std::move(weights), kv_dtype, *table, std::move(pool), options.max_rows);
  runner->set_gate(options.gate);
  runner->set_fingerprint(
      MakeFingerprint({.digest = file.WeightsDigest(),
                       .rounded_to = IsRounded(file, options.weights) ? WeightsName(options.weights) : ""},
                      runner->kv_layout(), options.numerics, ProbeNumerics(options.numerics, kv_dtype, *table)));
  return runner;
}

}  // namespace baton::engine
