#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "common/check.h"
#include "common/det_math.h"
#include "engine/philox.h"

namespace baton::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kInPrompt = 1u << 31;
constexpr size_t kVocabLanes = 16;
// How far below the largest logit each further round of sorting reaches, in units of the temperature. Most draws need
// only the first rounds.
constexpr std::array<float, 6> kBandEdges = {1, 2, 4, 8, 16, kMaxLogitGap};

DetFloat4 Load4(const float* p) {
  DetFloat4 v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

template <typename T>
T FoldLanes(std::array<T, kVocabLanes> lanes) {
  for (size_t width = kVocabLanes / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
  }
  return lanes[0];
}

float Largest(absl::Span<const float> logits) {
  DetFloat4 lanes[4];
  for (DetFloat4& lane : lanes) lane = DetFloat4{} - kInfinity;
  size_t i = 0;
  for (; i + kVocabLanes <= logits.size(); i += kVocabLanes) {
    for (size_t k = 0; k < 4; ++k) {
      const DetFloat4 x = Load4(&logits[i + 4 * k]);
      lanes[k] = x > lanes[k] ? x : lanes[k];
    }
  }
  float largest = -kInfinity;
  for (const DetFloat4& lane : lanes) {
    for (int k = 0; k < 4; ++k) largest = std::max(largest, lane[k]);
  }
  for (; i < logits.size(); ++i) largest = logits[i] > largest ? logits[i] : largest;
  return largest;
}

struct Softmax {
  float largest = 0;
  float per_temperature = 1;
  float floor = 0;

  float Weight(float logit) const { return logit >= floor ? DetExp((logit - largest) * per_temperature) : 0.0f; }
};

// Sum of the weights of the whole row, with the same operations in each lane as in Softmax::Weight.
double TotalWeight(const Softmax& softmax, absl::Span<const float> logits) {
  std::array<double, kVocabLanes> lanes{};
  size_t i = 0;
  for (; i + kVocabLanes <= logits.size(); i += kVocabLanes) {
    for (size_t k = 0; k < kVocabLanes; k += 4) {
      const DetFloat4 x = Load4(&logits[i + k]);
      const DetInt4 kept = x >= softmax.floor;
      if ((kept[0] | kept[1] | kept[2] | kept[3]) == 0) continue;
      const DetFloat4 gap = (x - softmax.largest) * softmax.per_temperature;
      const DetFloat4 zero{};
      const DetFloat4 weight = DetExp4(kept ? gap : zero);
      for (int j = 0; j < 4; ++j) {
        if (kept[j] != 0) lanes[k + static_cast<size_t>(j)] += static_cast<double>(weight[j]);
      }
    }
  }
  for (; i < logits.size(); ++i) lanes[i % kVocabLanes] += static_cast<double>(softmax.Weight(logits[i]));
  return FoldLanes(lanes);
}

// Sorting these ascending sorts by logit descending, then id ascending. No NaN.
uint64_t SortKey(float logit, size_t id) {
  const uint32_t bits = internal::DetBits<uint32_t>(logit + 0.0f);  // -0 becomes +0: they are equal
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(~ascending) << 32 | id;
}

size_t IdOf(uint64_t key) { return key & 0xffffffffu; }

// Sorts keys whose lower halves ascend already. `scratch` is at least as long.
void SortKeys(absl::Span<uint64_t> keys, absl::Span<uint64_t> scratch) {
  constexpr size_t kRadixThreshold = 512;
  if (keys.size() < kRadixThreshold) {
    std::sort(keys.begin(), keys.end());
    return;
  }
  // Four stable passes of one byte, the least significant first.
  for (int shift = 32; shift < 64; shift += 8) {
    std::array<size_t, 257> begin{};
    for (uint64_t key : keys) ++begin[(key >> shift & 0xff) + 1];
    for (size_t digit = 0; digit < 256; ++digit) begin[digit + 1] += begin[digit];
    for (uint64_t key : keys) scratch[begin[key >> shift & 0xff]++] = key;
    std::copy_n(scratch.begin(), keys.size(), keys.begin());
  }
}

std::vector<TopLogprob> MostLikely(absl::Span<const float> logits, size_t count, double log_total) {
  std::vector<TopLogprob> top;
  for (size_t id = 0; id < logits.size() && count > 0; ++id) {
    const float logit = logits[id];
    if (!(logit > -kInfinity) || (top.size() == count && !(logit > top.back().logprob))) continue;
    if (top.size() == count) top.pop_back();
    const auto place = std::upper_bound(top.begin(), top.end(), logit,
                                        [](float value, const TopLogprob& t) { return value > t.logprob; });
    top.insert(place, {static_cast<int32_t>(id), logit});
  }
  for (TopLogprob& t : top) t.logprob = static_cast<float>(t.logprob - log_total);
  return top;
}

// Logarithm of the sum of exp(logit); nullopt where no logit is finite.
std::optional<double> LogTotal(absl::Span<const float> logits) {
  const float largest = Largest(logits);
  if (!std::isfinite(largest)) return std::nullopt;
  const double total = TotalWeight({.largest = largest, .floor = largest - kMaxLogitGap}, logits);
  return static_cast<double>(largest) + DetLog(total);
}

float LogprobOf(int32_t token, absl::Span<const float> logits, double log_total) {
  return static_cast<float>(logits[static_cast<size_t>(token)] - log_total);
}

int32_t RankOf(int32_t token, absl::Span<const float> logits) {
  const size_t own = static_cast<size_t>(token);
  const float logit = logits[own];
  int32_t rank = 1;
  for (size_t id = 0; id < own; ++id) rank += logits[id] >= logit ? 1 : 0;
  for (size_t id = own + 1; id < logits.size(); ++id) rank += logits[id] > logit ? 1 : 0;
  return rank;
}

void MaskTokens(absl::Span<const int32_t> ids, absl::Span<float> logits) {
  for (int32_t id : ids) logits[static_cast<size_t>(id)] = -kInfinity;
}

void KeepAllowed(const AllowedTokens& allowed, absl::Span<float> logits) {
  for (size_t word = 0; word < allowed.words.size(); ++word) {
    const size_t begin = word * 64;
    uint64_t banned = ~allowed.words[word];
    if (begin + 64 > logits.size()) banned &= (uint64_t{1} << (logits.size() - begin)) - 1;
    if (banned == ~uint64_t{0}) {
      std::fill_n(logits.begin() + static_cast<ptrdiff_t>(begin), 64, -kInfinity);
      continue;
    }
    for (; banned != 0; banned &= banned - 1) {
      logits[begin + static_cast<size_t>(std::countr_zero(banned))] = -kInfinity;
    }
  }
}

int32_t FirstAllowed(const AllowedTokens& allowed) {
  size_t word = 0;
  while (allowed.words[word] == 0) ++word;
  return static_cast<int32_t>(word * 64 + static_cast<size_t>(std::countr_zero(allowed.words[word])));
}

}  // namespace

int32_t ArgMax(absl::Span<const float> logits) {
  const float largest = Largest(logits);
  size_t i = 0;
  for (; i + kVocabLanes <= logits.size(); i += kVocabLanes) {
    DetInt4 found{};
    for (size_t k = 0; k < kVocabLanes; k += 4) found |= Load4(&logits[i + k]) == largest;
    if ((found[0] | found[1] | found[2] | found[3]) != 0) break;
  }
  for (; i < logits.size(); ++i) {
    if (logits[i] == largest) return static_cast<int32_t>(i);
  }
  return 0;
}

PromptLogprob ScoreToken(int32_t token, int32_t top, absl::Span<const float> logits) {
  const std::optional<double> log_total = LogTotal(logits);
  if (!log_total.has_value()) return {};
  return {.logprob = LogprobOf(token, logits, *log_total),
          .rank = RankOf(token, logits),
          .top = MostLikely(logits, static_cast<size_t>(top), *log_total)};
}

bool LogitsDecide(const SamplingParams& params, const SamplingContext& context) {
  return params.logprobs < 0 && params.logit_bias.empty() && context.allowed.empty() &&
         params.repetition_penalty == 1.0f && params.frequency_penalty == 0.0f && params.presence_penalty == 0.0f &&
         context.position() >= params.min_tokens;
}

Sampler::Sampler(int32_t vocab_size) {
  seen_.resize(static_cast<size_t>(vocab_size));
  sorted_.reserve(static_cast<size_t>(vocab_size));
  scratch_.resize(static_cast<size_t>(vocab_size));
}

OutputToken Sampler::Sample(const SamplingParams& params, const SamplingContext& context, absl::Span<float> logits) {
  BATON_CHECK(logits.size() == seen_.size()) << logits.size();
  BATON_CHECK(context.unknown_outputs == 0 || LogitsDecide(params, context)) << "outputs that matter are not known";
  const uint32_t position = static_cast<uint32_t>(context.position());
  OutputToken sampled{.index = static_cast<int32_t>(position)};
  if (context.allowed.only >= 0 && params.logprobs < 0) {
    sampled.token = context.allowed.only;
    return sampled;
  }
  if (params.logprobs >= 0) raw_.assign(logits.begin(), logits.end());
  for (const TokenBias& each : params.logit_bias) logits[static_cast<size_t>(each.token)] += each.bias;
  if (position < static_cast<uint32_t>(params.min_tokens)) {
    if (!params.ignore_eos) MaskTokens(context.eos_ids, logits);
    MaskTokens(params.stop_token_ids, logits);
  }
  KeepAllowed(context.allowed, logits);
  ApplyPenalties(params, context, logits);
  sampled.token = params.temperature < kGreedyTemperature
                      ? ArgMax(logits)
                      : Draw(params, UniformDraw(params.seed, {.position = position}), logits);
  if (!context.allowed.Has(sampled.token)) sampled.token = FirstAllowed(context.allowed);
  if (params.logprobs >= 0) AddLogprobs(params.logprobs, sampled);
  return sampled;
}

void Sampler::AddLogprobs(int32_t count, OutputToken& sampled) const {
  const std::optional<double> log_total = LogTotal(raw_);
  if (!log_total.has_value()) return;
  sampled.logprob = LogprobOf(sampled.token, raw_, *log_total);
  sampled.top = MostLikely(raw_, static_cast<size_t>(count), *log_total);
}

void Sampler::ApplyPenalties(const SamplingParams& params, const SamplingContext& context, absl::Span<float> logits) {
  const bool on_outputs = params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f;
  if (params.repetition_penalty == 1.0f && !on_outputs) return;
  for (int32_t id : context.prompt) seen_[static_cast<size_t>(id)] |= kInPrompt;
  for (int32_t id : context.outputs) ++seen_[static_cast<size_t>(id)];
  const auto apply = [&](int32_t id) {
    uint32_t& seen = seen_[static_cast<size_t>(id)];
    if (seen == 0) return;  // done already
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    const uint32_t count = seen & ~kInPrompt;
    logit = logit - params.frequency_penalty * static_cast<float>(count);
    if (count > 0) logit = logit - params.presence_penalty;
    seen = 0;
  };
  std::for_each(context.prompt.begin(), context.prompt.end(), apply);
  std::for_each(context.outputs.begin(), context.outputs.end(), apply);
}

int32_t Sampler::Draw(const SamplingParams& params, float u, absl::Span<const float> logits) {
  const float largest = Largest(logits);
  if (!std::isfinite(largest)) return ArgMax(logits);
  const Softmax softmax = {.largest = largest,
                           .per_temperature = 1.0f / params.temperature,
                           .floor = largest - kMaxLogitGap * params.temperature};
  sorted_.clear();
  bands_ = 0;
  // Weight of the token at a rank; negative beyond the last.
  const auto weight_at = [&](size_t rank) {
    while (rank >= sorted_.size()) {
      if (!SortNextBand(largest, params.temperature, logits)) return -1.0f;
    }
    return softmax.Weight(logits[IdOf(sorted_[rank])]);
  };
  size_t kept = logits.size();
  double total = 0;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < kept) {
    kept = static_cast<size_t>(params.top_k);
    for (size_t rank = 0; rank < kept; ++rank) total += std::max(weight_at(rank), 0.0f);
  } else if (params.top_p < 1.0f || params.min_p == 0.0f) {
    total = TotalWeight(softmax, logits);
  }
  if (params.top_p < 1.0f || params.min_p > 0.0f) {
    const double enough = params.top_p < 1.0f ? params.top_p * total : std::numeric_limits<double>::infinity();
    const size_t limit = kept;
    total = 0;
    for (kept = 0; kept < limit && total < enough; ++kept) {
      const float weight = weight_at(kept);
      if (weight < params.min_p || weight < 0) break;
      total += weight;
    }
  }
  const double target = u * total;
  double running = 0;
  for (size_t rank = 0; rank < kept; ++rank) {
    const float weight = weight_at(rank);
    if (weight < 0) break;
    running += weight;
    if (running > target) return static_cast<int32_t>(IdOf(sorted_[rank]));
  }
  return static_cast<int32_t>(IdOf(sorted_.back()));
}

bool Sampler::SortNextBand(float largest, float temperature, absl::Span<const float> logits) {
  if (bands_ == kBandEdges.size()) return false;
  const float high = bands_ == 0 ? kInfinity : largest - kBandEdges[bands_ - 1] * temperature;
  const float low = largest - kBandEdges[bands_] * temperature;
  ++bands_;
  const size_t begin = sorted_.size();
  size_t id = 0;
  for (; id + kVocabLanes <= logits.size(); id += kVocabLanes) {
    DetInt4 found{};
    for (size_t k = 0; k < kVocabLanes; k += 4) found |= Load4(&logits[id + k]) >= low;
    if ((found[0] | found[1] | found[2] | found[3]) == 0) continue;
    for (size_t k = id; k < id + kVocabLanes; ++k) {
      if (logits[k] >= low && logits[k] < high) sorted_.push_back(SortKey(logits[k], k));
    }
  }
  for (; id < logits.size(); ++id) {
    if (logits[id] >= low && logits[id] < high) sorted_.push_back(SortKey(logits[id], id));
  }
  SortKeys(absl::MakeSpan(sorted_).subspan(begin), absl::MakeSpan(scratch_));
  return true;
}

}  // namespace baton::engine
