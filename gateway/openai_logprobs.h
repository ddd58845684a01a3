// Log-probabilities as OpenAI's chat completions and responses write them, and as vLLM does.
#ifndef BATON_GATEWAY_OPENAI_LOGPROBS_H_
#define BATON_GATEWAY_OPENAI_LOGPROBS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/output_token.h"
#include "tokenizer/tokenizer.h"

namespace baton::gateway {

// JSON has no infinities, which a token without any probability has.
std::string LogprobText(float logprob);
// What a token writes, as a JSON string.
std::string TokenTextOf(const tokenizer::Tokenizer& tokenizer, int32_t id);
// A JSON list with an object for each token: its text, bytes, log-probability, and the likeliest tokens.
std::string LogprobEntries(const tokenizer::Tokenizer& tokenizer, const std::vector<OutputToken>& tokens);

// vLLM's JSON object for one place, by the ids of its tokens: the one that is there, and then the likely ones, best
// first; a token that is both comes once. `rank` is that of the token; without a value, it is not known.
std::string VllmLogprobs(const tokenizer::Tokenizer& tokenizer, const TopLogprob& token, std::optional<int32_t> rank,
                         absl::Span<const TopLogprob> likely);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_OPENAI_LOGPROBS_H_
