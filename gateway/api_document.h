// The OpenAPI document of this port, for tools that read what an API has.
#ifndef BATON_GATEWAY_API_DOCUMENT_H_
#define BATON_GATEWAY_API_DOCUMENT_H_

#include <string_view>

#include "gateway/http_server.h"

namespace baton::gateway {

bool IsApiDocumentPath(std::string_view path);

void AddApiDocumentRoute(HttpServer& server);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_DOCUMENT_H_
