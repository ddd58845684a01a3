#include "gateway/api_of_path.h"

#include "absl/strings/match.h"
#include "common/status.h"
#include "gateway/anthropic_request.h"
#include "gateway/anthropic_response.h"
#include "gateway/openai_response.h"

namespace baton::gateway {

bool IsAnthropicPath(std::string_view path) { return absl::StartsWith(ToAbsl(path), kMessagesPath); }

ErrorMaker ErrorMakerOf(std::string_view path) { return IsAnthropicPath(path) ? AnthropicError : OpenAiError; }

HttpResponse MakeRefusal(std::string_view path, int http_status, const std::string& message) {
  return IsAnthropicPath(path) ? AnthropicRefusal(http_status, message) : OpenAiRefusal(http_status, message);
}

}  // namespace baton::gateway
