// How Anthropic's API says tools, calls and results.
#ifndef BATON_GATEWAY_TOOLS_ANTHROPIC_TOOLS_H_
#define BATON_GATEWAY_TOOLS_ANTHROPIC_TOOLS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gateway/field_reader.h"
#include "gateway/tools/tool_request.h"
#include "nlohmann/json.hpp"
#include "tokenizer/chat_template.h"

namespace baton::gateway {

// Blocks of text as clients of the API write them: with marks of where a prefix ends that they want cached, which the
// prefix cache does not need.
const TextParts& AnthropicText();

// tools and tool_choice of `object`, whose text is `body`. Errors name the field at fault.
absl::StatusOr<ToolRequest> ReadAnthropicTools(const nlohmann::json& object, std::string_view body);

// Appends the messages that one stands for whose content is a list of blocks, with the text of that list: texts, calls
// of an assistant, and results of a user, each of which is a message of its own. `role` is "user" or "assistant".
struct AnthropicBlocks {
  const std::string& role;
  const nlohmann::json& blocks;
  std::string_view text;
  const std::string& field;
};
absl::Status AppendAnthropicBlocks(const AnthropicBlocks& content, CallNames& names,
                                   std::vector<tokenizer::ChatMessage>& chat);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_ANTHROPIC_TOOLS_H_
