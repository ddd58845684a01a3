// Reads the bodies of Anthropic's /v1/messages and /v1/messages/count_tokens. Nothing is silently ignored: a field that
// is not known, or not built, is refused by its name. docs/anthropic.md has the table of all fields.
#ifndef BATON_GATEWAY_ANTHROPIC_REQUEST_H_
#define BATON_GATEWAY_ANTHROPIC_REQUEST_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "gateway/tools/tool_call_parser.h"
#include "gateway/tools/tool_style.h"
#include "router/generation.h"

namespace baton::gateway {

// All paths of the API begin with this one.
inline constexpr char kMessagesPath[] = "/v1/messages";

struct AnthropicRequest {
  // Without id, times and trace.
  router::GenerationRequest generation;
  bool stream = false;
  // How the calls in the answer are found.
  ToolReading tools;
};

struct AnthropicCount {
  std::string model;
  router::ChatPrompt prompt;
};

// The errors are for clients, as those of RequestReader.
absl::StatusOr<AnthropicRequest> ReadAnthropicRequest(std::string_view body, const ToolStyle& style = {});
absl::StatusOr<AnthropicCount> ReadAnthropicCount(std::string_view body, const ToolStyle& style = {});

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_ANTHROPIC_REQUEST_H_
