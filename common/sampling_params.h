// How a request chooses its tokens. Plain data that the router checks once and both workers obey.
#ifndef BATON_COMMON_SAMPLING_PARAMS_H_
#define BATON_COMMON_SAMPLING_PARAMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/output_grammar.h"

namespace baton {

// What is added to the logit of one token.
struct TokenBias {
  int32_t token = 0;
  float bias = 0.0f;

  friend bool operator==(const TokenBias&, const TokenBias&) = default;
};

// What the embedding of a prompt is made of: the hidden states of its tokens behind the last layer's norm.
enum class Pooling : uint8_t { kNone = 0, kLast = 1, kMean = 2 };

struct SamplingParams {
  // 0 is greedy: the largest logit, the smallest id among equals.
  float temperature = 0.0f;
  // 0 keeps all.
  int32_t top_k = 0;
  // In (0, 1]; 1 keeps all.
  float top_p = 1.0f;
  // In [0, 1]; keeps tokens of at least min_p times the largest probability.
  float min_p = 0.0f;
  // > 0; divides positive and multiplies negative logits of tokens in prompt or output.
  float repetition_penalty = 1.0f;
  // In [-2, 2]; frequency is subtracted per occurrence in the output, presence once.
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  uint64_t seed = 0;
  // Upper bound on output tokens, >= 1.
  int32_t max_tokens = 128;
  // End-of-sequence and stop tokens are not sampled before this many outputs.
  int32_t min_tokens = 0;
  // End-of-sequence tokens of the model do not end the request.
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids;
  // -1: no log-probabilities. n >= 0: those of the chosen token and of the n most likely tokens.
  int32_t logprobs = -1;
  // Likewise of the prompt's tokens, each given those before it. Every row of such a prompt is computed.
  int32_t prompt_logprobs = -1;
  // Output 0, which is the only one, brings the prompt's embedding. Excludes prompt_logprobs; the mean of a prompt
  // takes all its rows.
  Pooling pooling = Pooling::kNone;
  // In order of token, each token once, at most kMaxLogitBiases. Each bias is in [-kMaxLogitBias, kMaxLogitBias] and is
  // added before anything else looks at the logits, but for the log-probabilities.
  std::vector<TokenBias> logit_bias = {};
  // Tokens that it does not allow are never chosen, and it alone says when the output may end: without ignore_eos and
  // min_tokens. Its text has at most kMaxGrammarBytes.
  OutputGrammar grammar = {};

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// INVALID_ARGUMENT naming the first field out of range; NaN is out of every range. `vocab_size` bounds token ids.
// The text of a grammar is not looked into.
absl::Status ValidateSamplingParams(const SamplingParams& params, int32_t vocab_size);

}  // namespace baton

#endif  // BATON_COMMON_SAMPLING_PARAMS_H_
