#include "gateway/request_parser.h"

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "telemetry/http_text.h"
#include "telemetry/request_target.h"

namespace baton::gateway {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using telemetry::ToStdView;

constexpr char kVersions[] = "this server speaks HTTP/1.0 and HTTP/1.1";

std::string LowerCase(beast::string_view text) { return absl::AsciiStrToLower({text.data(), text.size()}); }

}  // namespace

struct RequestParser::Parser : http::request_parser<http::string_body> {};

RequestParser::RequestParser(size_t max_body_bytes) : max_body_bytes_(max_body_bytes) { Begin(); }

RequestParser::~RequestParser() = default;

void RequestParser::Begin() {
  parser_ = std::make_unique<Parser>();
  parser_->header_limit(kMaxHttpHeaderBytes);
  parser_->body_limit(max_body_bytes_);
  header_bytes_ = 0;
  refusal_ = {};
  request_ = {};
  authority_.reset();
  http_version_ = 11;
  awaits_continue_ = false;
}

bool RequestParser::awaits_body() const { return !parser_->is_done(); }

bool RequestParser::can_go_on() const { return parser_->is_done() && parser_->get().keep_alive(); }

size_t RequestParser::body_bytes() const { return parser_->get().body().size(); }

HttpRequest RequestParser::TakeRequest() {
  HttpRequest taken = std::exchange(request_, {});
  request_.method = taken.method;
  request_.path = taken.path;
  return taken;
}

RequestParser::Progress RequestParser::Refuse(int status, std::string why) {
  refusal_ = {.status = status, .why = std::move(why)};
  return Progress::kRefused;
}

RequestParser::Progress RequestParser::RefuseTooLarge() {
  return Refuse(413, absl::StrCat("a body has at most ", max_body_bytes_, " bytes"));
}

RequestParser::Progress RequestParser::ReadHeader(beast::flat_buffer& buffer) {
  error_code error;
  while (!parser_->is_header_done() && !error) {
    const size_t used = parser_->put(buffer.data(), error);
    buffer.consume(used);
    header_bytes_ += used;
  }
  // Beast itself limits the request line and the fields, each by itself.
  if (error == http::error::header_limit || header_bytes_ > kMaxHttpHeaderBytes) {
    return Refuse(431, absl::StrCat("the header has more than ", kMaxHttpHeaderBytes, " bytes"));
  }
  if (error == http::error::need_more) return Progress::kNeedsMore;
  if (error == http::error::body_limit) {
    // By its path the refusal has the form of an API.
    if (const auto target = telemetry::ParseRequestTarget(ToStdView(parser_->get().target()))) {
      request_.path = std::string(target->request.path);
    }
    return RefuseTooLarge();
  }
  if (error == http::error::bad_version) return Refuse(505, kVersions);
  if (error) return Refuse(400, "this is no HTTP request");
  return CheckHeader();
}

RequestParser::Progress RequestParser::CheckHeader() {
  const auto& message = parser_->get();
  if (message.version() != 10 && message.version() != 11) return Refuse(505, kVersions);
  http_version_ = message.version();
  request_.method = std::string(ToStdView(message.method_string()));
  const std::optional<telemetry::RequestTarget> target = telemetry::ParseRequestTarget(ToStdView(message.target()));
  if (!target.has_value()) return Refuse(400, "the target is no path");
  request_.path = std::string(target->request.path);
  request_.query = std::string(target->request.query);
  for (const auto& field : message) {
    request_.headers.emplace_back(LowerCase(field.name_string()), std::string(ToStdView(field.value())));
  }
  if (!CheckTransferCoding()) return Progress::kRefused;
  const auto hosts = request_.HeaderValues("host");
  if (hosts.size() > 1 || (hosts.empty() && http_version_ == 11)) {
    return Refuse(400, "a request of HTTP/1.1 has one Host header");
  }
  if (!hosts.empty()) authority_ = std::string(hosts.front());
  if (!target->authority.empty()) authority_ = std::string(target->authority);
  const std::string expected = LowerCase(message[http::field::expect]);
  if (!awaits_body() || expected.empty()) return Progress::kDone;
  if (expected != "100-continue") return Refuse(417, "only 100-continue can be expected");
  awaits_continue_ = true;
  return Progress::kDone;
}

bool RequestParser::CheckTransferCoding() {
  const auto codings = request_.HeaderValues("transfer-encoding");
  if (codings.empty()) return true;
  if (http_version_ == 10) {
    Refuse(400, "HTTP/1.0 knows no transfer codings");
    return false;
  }
  if (codings.size() == 1 && absl::EqualsIgnoreCase(ToAbsl(codings.front()), "chunked")) return true;
  Refuse(501, "a body comes as it is, or in chunks alone");
  return false;
}

RequestParser::Progress RequestParser::ReadBody(beast::flat_buffer& buffer) {
  while (!parser_->is_done()) {
    if (buffer.size() == 0) return Progress::kNeedsMore;
    error_code error;
    buffer.consume(parser_->put(buffer.data(), error));
    if (error == http::error::need_more) return Progress::kNeedsMore;
    if (error == http::error::body_limit) return RefuseTooLarge();
    if (error) return Refuse(400, "the body is broken");
  }
  request_.body = std::move(parser_->get().body());
  return Progress::kDone;
}

}  // namespace baton::gateway
