#include "engine/cpu_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/status.h"
#include "common/usable_cores.h"
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

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas;
  for (const kernels::KernelTable* table : kernels::SupportedKernels()) {
    if (isas.empty() || isas.back() != IsaOf(*table)) isas.push_back(IsaOf(*table));
  }
  return isas;
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

absl::Status CheckCpuModel(const modelfile::ModelFile& file) { return CheckTransformerWeights(file); }

int KernelThreads(int threads) {
  if (threads > 0) return threads;
  return std::min(CountUsableCores(), kMaxThreads);
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
