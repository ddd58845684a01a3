// What `generate --json` and `--jsonl` print.
#ifndef BATON_CLI_GENERATION_JSON_H_
#define BATON_CLI_GENERATION_JSON_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "cli/generation_client.h"
#include "nlohmann/json.hpp"

namespace baton::cli {

// How some tokens are written, by their ids.
using TokenTexts = std::map<int32_t, std::string>;

// As clients read it.
const char* ReasonName(v1::FinishReason reason);

// The tokens that have log-probabilities, and those that are likely in their place.
std::set<int32_t> IdsWithLogprobs(const Generation& generation);

// All of it. The texts of tokens may be bytes that are no UTF-8; all other text is UTF-8, since the router has replaced
// whatever invalid bytes the model wrote.
nlohmann::ordered_json GenerationJson(const Generation& generation, const TokenTexts& texts);
// One message. `are_several`: choices, so the message names its own.
nlohmann::ordered_json OutputJson(const v1::Output& output, bool are_several);
// What comes at the end.
nlohmann::ordered_json FinishedJson(const v1::Finished& finished);

}  // namespace baton::cli

#endif  // BATON_CLI_GENERATION_JSON_H_
