// What the model thinks of one token of a prompt, given those before it.
#ifndef BATON_COMMON_PROMPT_LOGPROB_H_
#define BATON_COMMON_PROMPT_LOGPROB_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/output_token.h"

namespace baton {

// Both numbers are of the model's own distribution, as those of an output are. The first token of a prompt has none.
struct PromptLogprob {
  float logprob = 0;
  // 1 for the likeliest token; among equals the smaller id is the likelier one.
  int32_t rank = 0;
  // The most likely tokens in its place, best first.
  std::vector<TopLogprob> top = {};

  friend bool operator==(const PromptLogprob&, const PromptLogprob&) = default;
};

// The memory that those of a prompt take, with `top` likely tokens in each place.
inline constexpr size_t PromptLogprobBytes(size_t prompt_tokens, size_t top) {
  return prompt_tokens * (sizeof(PromptLogprob) + top * sizeof(TopLogprob));
}

}  // namespace baton

#endif  // BATON_COMMON_PROMPT_LOGPROB_H_
