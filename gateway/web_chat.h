// The web chat at "/": a page that speaks OpenAI's API with the server that it comes from.
#ifndef BATON_GATEWAY_WEB_CHAT_H_
#define BATON_GATEWAY_WEB_CHAT_H_

#include <string_view>

#include "gateway/http_server.h"

namespace baton::gateway {

bool IsWebChatPath(std::string_view path);

void AddWebChatRoutes(HttpServer& server);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_WEB_CHAT_H_
