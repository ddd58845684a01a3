// Which API a path belongs to, for what is said before a request has reached its API's service.
#ifndef BATON_GATEWAY_API_OF_PATH_H_
#define BATON_GATEWAY_API_OF_PATH_H_

#include <string>
#include <string_view>

#include "gateway/answer_writer.h"
#include "gateway/http_types.h"

namespace baton::gateway {

// Whether the path is one of Anthropic's API; all others are OpenAI's.
bool IsAnthropicPath(std::string_view path);

// Errors in the form of the path's API: those of a status, and what HTTP itself refuses.
ErrorMaker ErrorMakerOf(std::string_view path);
HttpResponse MakeRefusal(std::string_view path, int http_status, const std::string& message);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_OF_PATH_H_
