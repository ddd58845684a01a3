// Chooses the next token from a row of logits. It is a pure function of logits, tokens so far, parameters and seed, so
// it gives the same token wherever and whenever it runs.
//
// In this order:
//   1. Log-probabilities, when asked for, are taken of the logits as the model gave them.
//   2. logit_bias is added to the logits of its tokens.
//   3. Before min_tokens outputs: end-of-sequence tokens (unless ignore_eos) and stop tokens become -infinity. What a
//      grammar does not allow becomes -infinity too. Where it allows just one token, this one is chosen.
//   4. Repetition penalty of every token in prompt or output: a positive logit is divided by it, another multiplied.
//   5. Frequency penalty times occurrences in the output, then presence penalty once, are subtracted.
//   6. Temperature below kGreedyTemperature: the largest logit, the smallest id among equals, and no further step.
//   7. Order: logit descending, then id ascending. Weight: exp((logit - largest) / temperature); 0 for tokens more than
//      kMaxLogitGap below. Together these weigh less than one step of the draw, so they are not even sorted.
//   8. top_k keeps the first k. top_p then keeps the shortest beginning with at least top_p of the weight left. min_p
//      keeps tokens of at least min_p times the largest weight.
//   9. u = UniformDraw(seed, output position); the first token at which the running weight exceeds u * (weight kept).
// Weights are added in double: serially in that order, but for the total of the whole vocabulary, which is 16 sums (id
// mod 16) folded 8-4-2-1. NaN counts as -infinity. If nothing has a finite logit, the greedy answer holds, or the first
// token that the grammar allows.
#ifndef BATON_ENGINE_SAMPLER_H_
#define BATON_ENGINE_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/output_token.h"
#include "common/prompt_logprob.h"
#include "common/sampling_params.h"
#include "engine/token_constraint.h"

namespace baton::engine {

inline constexpr float kGreedyTemperature = 1e-5f;
// In units of the temperature: exp(-30) < 1e-13, and 2^18 such tokens weigh less than 2^-24.
inline constexpr float kMaxLogitGap = 30.0f;

struct SamplingContext {
  absl::Span<const int32_t> prompt = {};
  absl::Span<const int32_t> outputs = {};
  // Outputs behind these that are chosen and not known yet. There are none where more than their number matters: where
  // LogitsDecide is not true.
  int32_t unknown_outputs = 0;
  // End-of-sequence tokens of the model.
  absl::Span<const int32_t> eos_ids = {};
  AllowedTokens allowed = {};

  // The place among the outputs of the token that is sampled.
  int32_t position() const { return static_cast<int32_t>(outputs.size()) + unknown_outputs; }
};

// Whether steps 6 to 9 alone choose the token: nothing changes the logits or wants to see them. It stays so for the
// outputs that follow.
bool LogitsDecide(const SamplingParams& params, const SamplingContext& context);

// What the logits, as the model gave them, say of a token that is known, with the `top` most likely tokens: the numbers
// are those that Sampler::Sample gives for a token that it chooses. All are 0 where no logit is finite.
PromptLogprob ScoreToken(int32_t token, int32_t top, absl::Span<const float> logits);

// Smallest index of the largest value, NaN skipped; 0 when all are NaN.
int32_t ArgMax(absl::Span<const float> logits);

// Holds scratch only. Used by one thread.
class Sampler {
 public:
  explicit Sampler(int32_t vocab_size);
  // Copying would lose the reserved capacity.
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  Sampler(Sampler&&) = default;

  // Output token context.position(), without a finish, which only the engine knows. `logits`: [vocab_size]; overwritten
  // by steps 2 to 5. All token ids are in the vocabulary. Allocates nothing when no log-probabilities are asked for.
  OutputToken Sample(const SamplingParams& params, const SamplingContext& context, absl::Span<float> logits);

 private:
  void ApplyPenalties(const SamplingParams& params, const SamplingContext& context, absl::Span<float> logits);
  int32_t Draw(const SamplingParams& params, float u, absl::Span<const float> logits);
  // Appends the next lower band of logits to sorted_. False when there is none.
  bool SortNextBand(float largest, float temperature, absl::Span<const float> logits);
  void AddLogprobs(int32_t count, OutputToken& sampled) const;

  // For each token: whether it is in the prompt (top bit), and how often in the outputs. All 0 between calls.
  std::vector<uint32_t> seen_;
  // The tokens of the row at hand in order, as far down as the draw needed them, and the number of bands sorted.
  std::vector<uint64_t> sorted_;
  size_t bands_ = 0;
  std::vector<uint64_t> scratch_;
  // The logits as the model gave them.
  std::vector<float> raw_;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_SAMPLER_H_
