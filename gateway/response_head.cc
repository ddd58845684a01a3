#include "gateway/response_head.h"

#include <boost/beast/http/status.hpp>

#include "absl/strings/str_cat.h"
#include "telemetry/http_text.h"

namespace baton::gateway {

std::string ResponseHead(const HttpResponse& response, unsigned http_version) {
  namespace http = boost::beast::http;
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  std::string head = absl::StrCat("HTTP/1.", http_version % 10, " ", response.status, " ",
                                  absl::string_view(reason.data(), reason.size()), "\r\nDate: ", telemetry::HttpDate(),
                                  "\r\nContent-Type: ", response.content_type,
                                  "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
  for (const auto& [name, value] : response.headers) absl::StrAppend(&head, name, ": ", value, "\r\n");
  return head;
}

}  // namespace baton::gateway
