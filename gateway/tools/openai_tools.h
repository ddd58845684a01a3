// How OpenAI's two APIs say tools, calls and results.
#ifndef BATON_GATEWAY_TOOLS_OPENAI_TOOLS_H_
#define BATON_GATEWAY_TOOLS_OPENAI_TOOLS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gateway/tools/tool_request.h"
#include "nlohmann/json.hpp"
#include "tokenizer/chat_template.h"

namespace baton::gateway {

// What each API calls what it has of a tool beside its type: chats in a member of its own, responses beside the type.
enum class OpenAiToolForm : uint8_t { kChat, kResponses };

// tools, tool_choice and parallel_tool_calls of `object`, whose text is `body`. Errors name the field at fault.
absl::StatusOr<ToolRequest> ReadOpenAiTools(OpenAiToolForm form, const nlohmann::json& object, std::string_view body);

// The tool_calls of a chat's message.
absl::StatusOr<std::vector<tokenizer::ChatToolCall>> ReadOpenAiCalls(const nlohmann::json& calls,
                                                                     const std::string& field);
// An item function_call of responses.
absl::StatusOr<tokenizer::ChatToolCall> ReadFunctionCallItem(const nlohmann::json& item, const std::string& field);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_OPENAI_TOOLS_H_
