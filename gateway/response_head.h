// The beginning of a response of HTTP/1.1.
#ifndef BATON_GATEWAY_RESPONSE_HEAD_H_
#define BATON_GATEWAY_RESPONSE_HEAD_H_

#include <string>

#include "gateway/http_types.h"

namespace baton::gateway {

// The status line and the header, without the lines that say how long the body is and whether the connection goes on,
// and without the empty line. `http_version` is 10 or 11.
std::string ResponseHead(const HttpResponse& response, unsigned http_version);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_RESPONSE_HEAD_H_
