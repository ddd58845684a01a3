// Reads requests of HTTP/1.1 from what a connection brings. Only request_parser.cc includes Beast's parser, which takes
// long to compile.
#ifndef BATON_GATEWAY_REQUEST_PARSER_H_
#define BATON_GATEWAY_REQUEST_PARSER_H_

#include <boost/beast/core/flat_buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "gateway/http_types.h"

namespace baton::gateway {

// What cannot be served, whatever the API is.
struct HttpRefusal {
  int status = 400;
  std::string why;
};

// Used by the server's thread.
class RequestParser {
 public:
  enum class Progress : uint8_t { kNeedsMore, kDone, kRefused };

  explicit RequestParser(size_t max_body_bytes);
  ~RequestParser();

  // For the next request; what is said of the former one goes.
  void Begin();
  // Takes the header, and later the body, from the front of `buffer`, as far as they have come.
  Progress ReadHeader(boost::beast::flat_buffer& buffer);
  Progress ReadBody(boost::beast::flat_buffer& buffer);
  // After kRefused.
  HttpRefusal& refusal() { return refusal_; }

  // After the header. The body is there once ReadBody is done.
  HttpRequest& request() { return request_; }
  const HttpRequest& request() const { return request_; }
  // Leaves method and path.
  HttpRequest TakeRequest();
  // The host that is asked, with its port: of the target, or of the Host header. nullopt: HTTP/1.0 need not name one.
  const std::optional<std::string>& authority() const { return authority_; }
  unsigned http_version() const { return http_version_; }
  bool is_head() const { return request_.method == "HEAD"; }
  // A body has still to come, for which the client may want to be asked.
  bool awaits_body() const;
  bool awaits_continue() const { return awaits_continue_; }
  // Whether the client wants to send another request, and where it begins is known.
  bool can_go_on() const;
  // How many bytes of the body have come.
  size_t body_bytes() const;

 private:
  struct Parser;

  Progress Refuse(int status, std::string why);
  Progress RefuseTooLarge();
  Progress CheckHeader();
  // Beast reads a body in any other coding as none, so that what follows the header would be the next request. False:
  // the request is refused.
  bool CheckTransferCoding();

  const size_t max_body_bytes_;
  std::unique_ptr<Parser> parser_;
  size_t header_bytes_ = 0;
  HttpRefusal refusal_;
  HttpRequest request_;
  std::optional<std::string> authority_;
  unsigned http_version_ = 11;
  bool awaits_continue_ = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_REQUEST_PARSER_H_
