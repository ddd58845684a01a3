// `/set` of `baton chat`: the sampling parameters by their names.
#ifndef BATON_CLI_CHAT_SETTINGS_H_
#define BATON_CLI_CHAT_SETTINGS_H_

#include <string>

#include "absl/status/status.h"
#include "baton/v1/generation.pb.h"

namespace baton::cli {

// The value that gives a setting back to the server.
inline constexpr char kDefaultSetting[] = "default";

// Sets a field of `sampling`; a hyphen in the name counts as an underscore. INVALID_ARGUMENT in one line for an unknown
// name, a value of another kind and one that is out of range, and `sampling` stays as it was.
absl::Status SetSampling(const std::string& name, const std::string& value, v1::SamplingParams& sampling);

// One line for each setting.
std::string ShowSampling(const v1::SamplingParams& sampling);

// How many tokens an answer may have.
int MaxAnswerTokens(const v1::SamplingParams& sampling);

}  // namespace baton::cli

#endif  // BATON_CLI_CHAT_SETTINGS_H_
