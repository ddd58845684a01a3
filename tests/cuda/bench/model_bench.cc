#include "tests/cuda/bench/model_bench.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/random.h"
#include "common/status.h"
#include "engine/cuda/weight_rows.h"
#include "tests/cuda/bench/yardsticks.h"

namespace baton::engine::cuda {
namespace {

// Of keys and values, so that a device has as much to switch as with a real model's.
constexpr float kLeastKv = 0x1p-2f;

// Appends the slices of sequences whose blocks follow each other.
std::vector<SequenceSlice> SlicesOf(int sequences, int rows, int position, int32_t blocks_each,
                                    const std::vector<BlockId>& blocks) {
  std::vector<SequenceSlice> slices;
  for (int i = 0; i < sequences; ++i) {
    slices.push_back({.first_row = i * rows,
                      .row_count = rows,
                      .first_position = position,
                      .blocks = absl::MakeConstSpan(blocks).subspan(static_cast<size_t>(i) * blocks_each, blocks_each),
                      .group_stride = blocks_each,
                      .row_class = rows == 1 ? RowClass::kDecode : RowClass::kPrefill,
                      .output_rows = OutputRows::kLast,
                      .first_output = i});
  }
  return slices;
}

// The figure of steps that do `work`, in the figure's unit times seconds, for so many tokens.
void SetSteps(const std::vector<double>& seconds, double work, int tokens, bench::Figure& figure) {
  std::vector<double> rates;
  for (const double one : seconds) rates.push_back(work / one);
  bench::SetRates(std::move(rates), figure);
  const double step = work / figure.value;
  figure.parameters.update({{"step_ms", 1e3 * step}, {"tokens_per_s", tokens / step}});
}

}  // namespace

ModelWork WorkOf(const modelfile::ModelFile& file) {
  const modelfile::ModelConfig& c = file.config();
  ModelWork work;
  for (const modelfile::TensorView& tensor : file.tensors()) {
    if (tensor.rows == 1 || tensor.name == "token_embd.weight") continue;
    const size_t row_bytes = BytesOfRow(FormatFor(tensor.type), tensor.cols).total();
    work.weight_bytes += tensor.rows * static_cast<int64_t>(row_bytes);
    (tensor.name == "output.weight" ? work.head_macs : work.layer_macs) += tensor.rows * tensor.cols;
  }
  const int64_t layers = c.layers;
  work.kv_token_bytes = layers * 2 * c.kv_heads * c.head_dim * static_cast<int64_t>(sizeof(Bf16));
  work.attention_macs = layers * 2 * c.heads * c.head_dim;
  return work;
}

int64_t DecodeBytes(const ModelWork& work, int batch, int context) {
  return work.weight_bytes + int64_t{batch} * (context + 1) * work.kv_token_bytes;
}

double PrefillFlops(const ModelWork& work, int tokens) {
  const double pairs = 0.5 * tokens * (tokens + 1.0);
  return 2.0 * (static_cast<double>(tokens) * static_cast<double>(work.layer_macs) +
                static_cast<double>(work.head_macs) + pairs * static_cast<double>(work.attention_macs));
}

absl::StatusOr<ModelBench> ModelBench::Load(const BenchShape& shape, BenchWeights weights,
                                            std::shared_ptr<const Device> device) {
  const auto file = MakeRandomModel(shape.model, weights);
  ModelBench bench(shape, weights);
  bench.work_ = WorkOf(*file);
  const int most_batch = *std::max_element(shape.batches.begin(), shape.batches.end());
  const CudaModelOptions options{.max_rows = std::max(shape.prompts.back(), most_batch), .max_slices = most_batch};
  BATON_ASSIGN_OR_RETURN(bench.runner_, CudaRunner::Load(*file, options, std::move(device)));
  BATON_RETURN_IF_ERROR(bench.MakePool());
  return bench;
}

int32_t ModelBench::BlocksOf(int batch) const { return batch * BlocksForTokens(shape_.context + 1); }

absl::Status ModelBench::MakePool() {
  std::vector<int> batches = shape_.batches;
  std::sort(batches.rbegin(), batches.rend());
  const int32_t of_prompt = BlocksForTokens(shape_.prompts.back());
  absl::Status status;
  for (size_t i = 0; i < batches.size() && pool_ == nullptr; ++i) {
    absl::StatusOr<std::unique_ptr<KvPool>> pool = runner_->MakeKvPool(std::max(BlocksOf(batches[i]), of_prompt), {});
    status = pool.status();
    if (pool.ok()) pool_ = *std::move(pool);
  }
  BATON_RETURN_IF_ERROR(status);
  runner_->SetKvPool(*pool_);
  const MemoryRange& memory = pool_->memory();
  return FillRandomly(runner_->device(), reinterpret_cast<CUdeviceptr>(memory.base), memory.bytes, kLeastKv);
}

absl::Status ModelBench::CheckBlocks(int32_t wanted) const {
  if (wanted <= pool_->block_count()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the device's memory has room for %d KV blocks, and %d are needed", pool_->block_count(), wanted));
}

std::vector<double> ModelBench::Run(int sequences, int rows, int position, int rounds) {
  SeededRandom random(1);
  std::vector<int32_t> tokens;
  for (int i = 0; i < sequences * rows; ++i) {
    tokens.push_back(static_cast<int32_t>(random.Below(static_cast<uint64_t>(shape_.model.vocab))));
  }
  const int32_t blocks_each = BlocksForTokens(position + rows);
  std::vector<BlockId> blocks;
  for (BlockId i = 0; i < sequences * blocks_each; ++i) blocks.push_back(i);
  const std::vector<SequenceSlice> slices = SlicesOf(sequences, rows, position, blocks_each, blocks);
  const SamplingParams greedy;
  const std::vector<TokenChoice> choices(static_cast<size_t>(sequences), {.sampling = &greedy});
  std::vector<OutputToken> chosen(static_cast<size_t>(sequences));
  const StepBatch batch{.tokens = tokens, .slices = slices, .output_count = sequences, .choices = choices};
  return SecondsOf(rounds, [&] { runner_->Run(batch, {.tokens = absl::MakeSpan(chosen)}); });
}

bench::Figure ModelBench::NewFigure(const char* part, const std::string& name) const {
  bench::Figure figure{.part = part, .name = absl::StrCat(ToAbsl(BenchWeightsName(weights_)), ", ", name)};
  figure.parameters["weights"] = BenchWeightsName(weights_);
  return figure;
}

absl::StatusOr<bench::Figure> ModelBench::Decode(int batch, double limit) {
  BATON_RETURN_IF_ERROR(CheckBlocks(BlocksOf(batch)));
  const int64_t bytes = DecodeBytes(work_, batch, shape_.context);
  bench::Figure figure = NewFigure("decode", absl::StrFormat("batch %d behind %d tokens", batch, shape_.context));
  figure.parameters.update({{"batch", batch}, {"context", shape_.context}, {"bytes", bytes}});
  SetSteps(Run(batch, 1, shape_.context, shape_.rounds), static_cast<double>(bytes) / 1e9, batch, figure);
  figure.unit = "GB/s";
  figure.limit = limit;
  figure.bound = "memory";
  return figure;
}

absl::StatusOr<bench::Figure> ModelBench::Prefill(int tokens, double limit) {
  BATON_RETURN_IF_ERROR(CheckBlocks(BlocksForTokens(tokens)));
  bench::Figure figure = NewFigure("prefill", absl::StrFormat("%d tokens", tokens));
  figure.parameters["tokens"] = tokens;
  SetSteps(Run(1, tokens, 0, shape_.prompt_rounds), PrefillFlops(work_, tokens) / 1e12, tokens, figure);
  figure.unit = "TFLOP/s";
  figure.limit = limit;
  figure.bound = "cublaslt";
  return figure;
}

bench::Figure ModelBench::Digest(double limit) const {
  const int32_t blocks = std::min(BlocksForTokens(shape_.prompts.back()), pool_->block_count());
  const size_t bytes = static_cast<size_t>(blocks) * pool_->block_bytes();
  std::vector<BlockId> all(static_cast<size_t>(blocks));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<double> seconds = SecondsOf(shape_.rounds, [&] { static_cast<void>(pool_->Digests(all)); });
  std::vector<double> rates;
  for (const double one : seconds) rates.push_back(static_cast<double>(bytes) / one / 1e9);
  bench::Figure figure{.part = "digest", .name = absl::StrFormat("%d KV blocks", blocks), .unit = "GB/s"};
  figure.limit = limit;
  figure.bound = "memory";
  bench::SetRates(std::move(rates), figure);
  const double block_us = static_cast<double>(pool_->block_bytes()) / figure.value / 1e3;
  figure.parameters = {{"blocks", blocks}, {"block_bytes", pool_->block_bytes()}, {"block_us", block_us}};
  return figure;
}

}  // namespace baton::engine::cuda
