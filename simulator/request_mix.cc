#include "simulator/request_mix.h"

#include <algorithm>
#include <utility>

namespace baton::simulator {
namespace {

constexpr int kBases = 2;
constexpr int32_t kMaxPrompt = 200;
constexpr int32_t kMaxOutput = 40;
// The longest output of some requests, so that decode outgrows its pool.
constexpr int32_t kMaxLongOutput = 120;
constexpr size_t kRecentPrompts = 6;

}  // namespace

RequestMix::RequestMix(Simulation& sim) : sim_(sim) {
  for (int base = 0; base < kBases; ++base) {
    std::vector<int32_t>& tokens = bases_.emplace_back();
    for (int32_t i = 0; i < kMaxPrompt; ++i) tokens.push_back(static_cast<int32_t>(sim.Between(0, 62)));
  }
}

std::vector<int32_t> RequestMix::DrawPrompt(const MixOptions& options) {
  int64_t least = 1;
  int64_t most = sim_.Chance(50) ? kMaxPrompt : 40;
  if (options.flows) most = sim_.Chance(10) ? kMaxPrompt : 24;
  if (options.small_worker_tokens > 0) most = std::min<int64_t>(most, options.small_worker_tokens - kMaxOutput - 32);
  if (options.small_worker_tokens > 0 && sim_.Chance(options.flows ? 30 : 15)) {
    least = options.small_worker_tokens + 1;
    most = kMaxPrompt;
  }
  return DrawPrompt(least, most);
}

std::vector<int32_t> RequestMix::DrawPrompt(int64_t least, int64_t most) {
  const size_t length = static_cast<size_t>(sim_.Between(least, most));
  const size_t shared = sim_.Chance(50) ? static_cast<size_t>(sim_.Between(0, static_cast<int64_t>(length))) : 0;
  const std::vector<int32_t>& base = bases_[static_cast<size_t>(sim_.Between(0, kBases - 1))];
  std::vector<int32_t> prompt(base.begin(), base.begin() + static_cast<ptrdiff_t>(shared));
  while (prompt.size() < length) prompt.push_back(static_cast<int32_t>(sim_.Between(0, 62)));
  return prompt;
}

SamplingParams RequestMix::DrawSampling(const MixOptions& options, int32_t prompt_tokens) {
  SamplingParams sampling;
  const bool may_be_long = options.small_worker_tokens == 0 || prompt_tokens > options.small_worker_tokens;
  const bool is_large = options.flows && prompt_tokens > kMaxPrompt / 2;
  const int32_t most =
      may_be_long && sim_.Chance(is_large ? 60 : options.long_outputs_percent) ? kMaxLongOutput : kMaxOutput;
  sampling.max_tokens = sim_.Chance(options.flows ? 20 : 6) ? 1 : static_cast<int32_t>(sim_.Between(2, most));
  sampling.ignore_eos = sim_.Chance(50);
  sampling.seed = sim_.random.Next64();
  if (sim_.Chance(60)) sampling.temperature = 0.5f + static_cast<float>(sim_.Between(0, 10)) * 0.1f;
  if (sim_.Chance(20)) sampling.top_k = 8;
  if (sim_.Chance(10)) sampling.repetition_penalty = 1.2f;
  if (sim_.Chance(10)) sampling.stop_token_ids = {static_cast<int32_t>(sim_.Between(0, 62))};
  if (sim_.Chance(10)) sampling.logprobs = 2;
  // Decided by the seed's bits, so that the runs that were found before stay what they were in all else.
  if (sampling.seed % 8 == 0) {
    sampling.grammar = {.kind = GrammarKind::kRegex, .text = std::string(sampling.seed >> 8 & 15, '.')};
    sampling.ignore_eos = false;
  }
  if (sampling.seed % 8 == 1) {
    const int32_t banned = static_cast<int32_t>(sampling.seed >> 8 & 31);
    sampling.logit_bias = {{.token = banned, .bias = -100}, {.token = banned + 7, .bias = 2.5f}};
  }
  if (sampling.seed % 8 == 2) sampling.prompt_logprobs = static_cast<int32_t>(sampling.seed >> 8 & 3);
  if (sampling.seed % 32 == 3) {
    sampling.pooling = (sampling.seed >> 8 & 1) == 0 ? Pooling::kLast : Pooling::kMean;
    sampling.max_tokens = 1;
    sampling.min_tokens = 0;
  }
  return sampling;
}

std::shared_ptr<const router::JobSpec> RequestMix::DrawSpec(const MixOptions& options, TimeNs submitted) {
  router::JobSpec spec;
  spec.id = sim_.random.NextId();
  const bool repeats = options.repeats_percent > 0 && sim_.Chance(options.repeats_percent) && !recent_.empty();
  spec.prompt = repeats ? recent_[sim_.random.Below(recent_.size())] : DrawPrompt(options);
  if (options.repeats_percent > 0) recent_.push_back(spec.prompt);
  if (recent_.size() > kRecentPrompts) recent_.pop_front();
  spec.sampling = DrawSampling(options, static_cast<int32_t>(spec.prompt.size()));
  if (sim_.Chance(25)) spec.tenant = "other";
  if (!options.flows && sim_.Chance(20)) spec.deadline = submitted + sim_.MsBetween(5, 400);
  spec.want_kv_digest = sim_.Chance(30);
  return std::make_shared<const router::JobSpec>(std::move(spec));
}

std::shared_ptr<const router::JobSpec> RequestMix::DrawLargest(const MixOptions& options) {
  router::JobSpec spec;
  spec.id = sim_.random.NextId();
  const bool small = options.small_worker_tokens > 0;
  const int64_t most = small ? options.small_worker_tokens - kMaxOutput - 32 : kMaxPrompt;
  spec.prompt = DrawPrompt(most * 3 / 4, most);
  spec.sampling = {.max_tokens = small ? kMaxOutput : kMaxLongOutput / 2, .ignore_eos = true};
  return std::make_shared<const router::JobSpec>(std::move(spec));
}

}  // namespace baton::simulator
