// Log-probabilities as OpenAI's chat completions and responses write them.
#ifndef BATON_GATEWAY_OPENAI_LOGPROBS_H_
#define BATON_GATEWAY_OPENAI_LOGPROBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/output_token.h"
#include "tokenizer/tokenizer.h"

namespace baton::gateway {

// JSON has no infinities, which a token without any probability has.
std::string LogprobText(float logprob);
// What a token writes, as a JSON string.
std::string TokenTextOf(const tokenizer::Tokenizer& tokenizer, int32_t id);
// A JSON list with an object for each token: its text, bytes, log-probability, and the likeliest tokens.
std::string LogprobEntries(const tokenizer::Tokenizer& tokenizer, const std::vector<OutputToken>& tokens);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_OPENAI_LOGPROBS_H_
