#include "bench/engine/attention_bench.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "bench/engine/model_cost.h"
#include "common/clock.h"
#include "common/kv_layout.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/kernels/dispatch.h"
#include "engine/kernels/kernel_table.h"
#include "engine/kernels/thread_pool.h"

namespace baton::bench {
namespace {

namespace kernels = engine::kernels;
using kernels::AlignedBuffer;

// 1.0 as bf16. The same bytes are ordinary values when they are read as f32, or as int8 and scales.
constexpr uint16_t kOne = 0x3f80;

const kernels::KernelTable& FindKernels(engine::Isa isa) {
  const std::string_view prefix = isa == engine::Isa::kScalar ? "scalar"
                                  : isa == engine::Isa::kAvx2 ? "avx2"
                                  : isa == engine::Isa::kAuto ? ""
                                                              : "avx512";
  const kernels::KernelTable* found = kernels::SupportedKernels().front();
  for (const kernels::KernelTable* table : kernels::SupportedKernels()) {
    if (std::string_view(table->name).starts_with(prefix)) found = table;
  }
  return *found;
}

// KV of `streams` sequences of one layer, their query rows, and what each thread needs to attend.
class Layer {
 public:
  Layer(const modelfile::ModelConfig& config, const AttentionOptions& options, int streams)
      : config_(config),
        table_(FindKernels(options.isa)),
        context_(options.context_tokens),
        streams_(streams),
        blocks_each_(BlocksForTokens(context_)),
        layout_{.layers = 1, .kv_heads = config.kv_heads, .head_dim = config.head_dim, .dtype = options.kv_dtype},
        query_element_(options.kv_dtype == KvDtype::kF32 ? sizeof(float) : sizeof(uint16_t)),
        heads_per_kv_(config.heads / config.kv_heads),
        kv_(static_cast<size_t>(streams) * blocks_each_ * layout_.block_bytes()),
        query_(static_cast<size_t>(kernels::kMaxQueryRows) * heads_per_kv_ * config.head_dim * query_element_),
        pool_(options.threads) {
    std::fill_n(kv_.as<uint16_t>(), kv_.bytes() / sizeof(uint16_t), kOne);
    std::fill_n(query_.as<uint16_t>(), query_.bytes() / sizeof(uint16_t), kOne);
    for (int i = 0; i < streams * blocks_each_; ++i) blocks_.push_back(i);
    const size_t out_bytes = query_.bytes() / query_element_ * sizeof(float);
    for (int t = 0; t < options.threads; ++t) {
      scratch_.emplace_back(kernels::AttentionScratchBytes(heads_per_kv_, config.head_dim));
      out_.emplace_back(out_bytes);
    }
  }

  size_t kv_bytes() const { return kv_.bytes(); }

  // Seconds that run(item, thread) takes for all items, which are dealt to the threads in turn.
  double Time(int items, absl::FunctionRef<void(int item, int thread)> run) {
    const TimeNs begin = MonotonicClock().Now();
    pool_.Run([&](int thread) {
      for (int item = thread; item < items; item += pool_.size()) run(item, thread);
    });
    return static_cast<double>(MonotonicClock().Now() - begin) / kNsPerSecond;
  }

  // Attends with `rows` query rows of a stream, from `first_position` on, for one KV head.
  void Attend(int stream, int kv_head, int first_position, int rows, int thread) {
    const size_t head_elements = static_cast<size_t>(heads_per_kv_) * config_.head_dim;
    kernels::AttentionCall call{};
    call.query_rows = rows;
    call.first_position = first_position;
    call.heads_per_kv = heads_per_kv_;
    call.head_dim = config_.head_dim;
    call.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim)));
    call.query = query_.data();
    call.query_stride = head_elements * query_element_;
    call.keys = kv_.data() + layout_.head_part_bytes() * kv_head;
    call.values = call.keys + layout_.head_part_bytes() * config_.kv_heads;
    call.block_stride = layout_.block_bytes();
    call.blocks = blocks_.data() + static_cast<size_t>(stream) * blocks_each_;
    call.out = out_[thread].as<float>();
    call.out_stride = head_elements;
    call.scratch = scratch_[thread].data();
    kernels::AttentionOver(layout_.dtype, table_)(call);
  }

  double DecodeSeconds() {
    return Time(streams_ * config_.kv_heads, [this](int item, int thread) {
      Attend(item / config_.kv_heads, item % config_.kv_heads, context_ - 1, 1, thread);
    });
  }

  double PrefillSeconds() {
    const int tiles = context_ / kernels::kMaxQueryRows;
    return Time(tiles * config_.kv_heads, [this](int item, int thread) {
      Attend(0, item % config_.kv_heads, item / config_.kv_heads * kernels::kMaxQueryRows, kernels::kMaxQueryRows,
             thread);
    });
  }

 private:
  const modelfile::ModelConfig& config_;
  const kernels::KernelTable& table_;
  const int context_;
  const int streams_;
  const int blocks_each_;
  const KvLayout layout_;
  const size_t query_element_;
  const int heads_per_kv_;
  const AlignedBuffer kv_;
  const AlignedBuffer query_;
  std::vector<BlockId> blocks_;
  std::vector<AlignedBuffer> scratch_;
  std::vector<AlignedBuffer> out_;
  kernels::ThreadPool pool_;
};

}  // namespace

std::vector<Figure> BenchAttention(const modelfile::ModelConfig& config, const AttentionOptions& options,
                                   const MachineLimits& limits) {
  Layer decode_layer(config, options, options.streams);
  Layer prefill_layer(config, options, 1);
  const double context = options.context_tokens;
  const double macs = context * (context + 1) * config.heads * config.head_dim;
  std::vector<double> decode_rates, prefill_rates;
  for (int round = 0; round < options.rounds; ++round) {
    decode_rates.push_back(static_cast<double>(decode_layer.kv_bytes()) / decode_layer.DecodeSeconds() / 1e9);
    prefill_rates.push_back(macs / prefill_layer.PrefillSeconds() / 1e9);
  }
  Figure decode{.part = "attention",
                .name = absl::StrCat("decode, ", options.streams, " rows over ", options.context_tokens),
                .parameters = {{"streams", options.streams}, {"context_tokens", options.context_tokens}},
                .unit = "GB/s",
                .limit = limits.read_bytes_per_s / 1e9,
                .bound = "memory"};
  SetRates(std::move(decode_rates), decode);
  Figure prefill{.part = "attention",
                 .name = absl::StrCat("prefill of ", options.context_tokens),
                 .parameters = {{"prompt_tokens", options.context_tokens}},
                 .unit = "GMAC/s",
                 .limit = FloatMacsPerSecond(limits) / 1e9,
                 .bound = "compute"};
  SetRates(std::move(prefill_rates), prefill);
  return {decode, prefill};
}

}  // namespace baton::bench
