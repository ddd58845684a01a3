// One output token of a job, the same word for it from the sampler to the client's adapter.
#ifndef BATON_COMMON_OUTPUT_TOKEN_H_
#define BATON_COMMON_OUTPUT_TOKEN_H_

#include <cstdint>
#include <vector>

namespace baton {

// Why an output ended; kNone for a token that others follow.
enum class FinishReason : uint8_t { kNone = 0, kStop = 1, kLength = 2 };

struct TopLogprob {
  int32_t token = 0;
  float logprob = 0;

  friend bool operator==(const TopLogprob&, const TopLogprob&) = default;
};

struct OutputToken {
  // Position in the output, from 0.
  int32_t index = 0;
  int32_t token = 0;
  // Set on the last token of the output. The finish never travels apart from its token, so no receiver can hold one
  // without the other.
  FinishReason finish = FinishReason::kNone;
  // The router's word to the client: this output, or one before it, is of workers whose fingerprint is not that of the
  // workers which gave output 0.
  bool other_numerics = false;
  // Both are set when the request asks for log-probabilities: the chosen token's under the model's own distribution
  // (before temperature and penalties), and those of the most likely tokens, best first.
  float logprob = 0;
  std::vector<TopLogprob> top = {};
  // [hidden size], of the prompt, where the request asks for it. At most kMaxEmbeddingValues.
  std::vector<float> embedding = {};

  bool is_last() const { return finish != FinishReason::kNone; }
  friend bool operator==(const OutputToken&, const OutputToken&) = default;
};

}  // namespace baton

#endif  // BATON_COMMON_OUTPUT_TOKEN_H_
