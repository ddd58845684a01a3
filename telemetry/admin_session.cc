#include "telemetry/admin_session.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "telemetry/event_buffer.h"
#include "telemetry/http_text.h"
#include "telemetry/request_target.h"

namespace baton::telemetry {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

// A client may send this much, and has this long, before a connection is closed that has had its last response. Closing
// at once would take the response away from a client that still sends.
constexpr size_t kMaxLingerBytes = size_t{256} << 10;
constexpr int64_t kLingerMs = 1'000;
// What a viewer has to read within the time-out.
constexpr size_t kEventPieceBytes = size_t{128} << 10;
// A viewer of events has nothing to say.
constexpr size_t kMaxViewerBytes = size_t{16} << 10;
// What the system may hold of an event stream besides its EventBuffer.
constexpr int kEventSocketBytes = 256 << 10;
constexpr size_t kReadBytes = 4096;

AdminResponse Refusal(http::status status, std::string why) {
  return {.status = static_cast<int>(status), .body = std::move(why) + "\n"};
}

class Session final : public AdminSession, public std::enable_shared_from_this<Session> {
 public:
  Session(asio::ip::tcp::socket socket, AdminShared& shared, std::function<void(AdminSession&)> on_closed)
      : stream_(std::move(socket)), shared_(shared), on_closed_(std::move(on_closed)) {}

  void Start() override { AwaitRequest(); }
  void Close() override;
  uint64_t waiting_since() const override { return waiting_since_; }

 private:
  using Request = http::request<http::empty_body>;
  using Response = http::response<http::string_body>;

  void AwaitRequest();
  void ReadHeader();
  void OnHeader(error_code error, size_t header_bytes);
  void OnRequest(const Request& request);
  // Empty when the request may go to its route; otherwise the answer to it.
  std::optional<AdminResponse> Check(const Request& request, const std::optional<RequestTarget>& target);
  std::optional<AdminResponse> CheckHost(const Request& request, const std::optional<RequestTarget>& target);
  // Writes the last response of this connection.
  void Refuse(AdminResponse response);
  void WriteResponse(AdminResponse response, const std::string& content_security_policy);
  void OnWritten(error_code error);
  void Linger();
  void Discard(size_t discarded_bytes);
  void ServeEvents(const AdminRoute& route);
  void WatchViewer(size_t read_bytes);
  void PumpEvents();
  void WriteEvents(size_t sent_bytes);

  void ExpireAfter(int64_t ms) { stream_.expires_after(std::chrono::milliseconds(ms)); }
  void Wait() { waiting_since_ = ++shared_.waits; }

  beast::tcp_stream stream_;
  AdminShared& shared_;
  std::function<void(AdminSession&)> on_closed_;
  uint64_t waiting_since_ = 0;

  // Holds what has come of the next requests, at most one header beyond the one that is read.
  beast::flat_buffer buffer_{2 * kMaxAdminHeaderBytes};
  std::optional<http::request_parser<http::empty_body>> parser_;
  Response response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  // They belong to the request that is answered.
  unsigned http_version_ = 11;
  bool is_head_ = false;
  bool keeps_alive_ = false;

  std::shared_ptr<EventBuffer> events_;
  std::string event_text_;
  bool is_writing_events_ = false;
  std::array<char, kReadBytes> discarded_{};
};

void Session::Close() {
  if (on_closed_ == nullptr) return;
  if (events_ != nullptr) {
    events_->Break();
    shared_.event_streams.fetch_sub(1, std::memory_order_relaxed);
  }
  stream_.close();
  // The server may drop its reference.
  const std::shared_ptr<Session> self = shared_from_this();
  std::exchange(on_closed_, nullptr)(*this);
}

void Session::AwaitRequest() {
  Wait();
  parser_.emplace();
  parser_->header_limit(kMaxAdminHeaderBytes);
  if (buffer_.size() > 0) return ReadHeader();
  ExpireAfter(shared_.options.idle_timeout_ms);
  stream_.async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](error_code error, size_t bytes) {
    if (error) return self->Close();
    self->buffer_.commit(bytes);
    self->ReadHeader();
  });
}

void Session::ReadHeader() {
  ExpireAfter(shared_.options.header_timeout_ms);
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](error_code error, size_t header_bytes) { self->OnHeader(error, header_bytes); });
}

void Session::OnHeader(error_code error, size_t header_bytes) {
  if (on_closed_ == nullptr) return;
  // Beast itself limits the request line and the fields, each by itself.
  if (!error && header_bytes > kMaxAdminHeaderBytes) error = http::error::header_limit;
  if (!error) return OnRequest(parser_->get());
  is_head_ = false;
  http_version_ = 11;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Refuse(Refusal(http::status::request_header_fields_too_large,
                          absl::StrCat("the header has more than ", kMaxAdminHeaderBytes, " bytes")));
  }
  if (error == http::error::bad_version) {
    return Refuse(Refusal(http::status::http_version_not_supported, "this server speaks HTTP/1.0 and HTTP/1.1"));
  }
  if (IsBadHttp(error)) return Refuse(Refusal(http::status::bad_request, "this is no HTTP request"));
  Close();
}

std::optional<AdminResponse> Session::CheckHost(const Request& request, const std::optional<RequestTarget>& target) {
  const size_t count = request.count(http::field::host);
  if (count > 1 || (count == 0 && request.version() >= 11)) {
    return Refusal(http::status::bad_request, "the request needs one Host header");
  }
  HostVerdict verdict = HostVerdict::kAllowed;
  if (target.has_value() && !target->authority.empty()) {
    verdict = shared_.hosts.Check(target->authority);
  } else if (count == 1) {
    verdict = shared_.hosts.Check(ToStdView(request[http::field::host]));
  }
  if (verdict == HostVerdict::kMalformed) return Refusal(http::status::bad_request, "the Host header is malformed");
  if (verdict == HostVerdict::kRefused) {
    return Refusal(http::status::misdirected_request,
                   "this name is not among those that --admin-hosts allows; an IP address always is");
  }
  return std::nullopt;
}

std::optional<AdminResponse> Session::Check(const Request& request, const std::optional<RequestTarget>& target) {
  if (request.version() != 10 && request.version() != 11) {
    return Refusal(http::status::http_version_not_supported, "this server speaks HTTP/1.0 and HTTP/1.1");
  }
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    AdminResponse response = Refusal(http::status::method_not_allowed, "only GET and HEAD are served");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return response;
  }
  if (std::optional<AdminResponse> refusal = CheckHost(request, target)) return refusal;
  if (!target.has_value()) return Refusal(http::status::bad_request, "the target is no path");
  return std::nullopt;
}

void Session::OnRequest(const Request& request) {
  waiting_since_ = 0;
  shared_.requests.fetch_add(1, std::memory_order_relaxed);
  http_version_ = request.version() == 10 ? 10 : 11;
  is_head_ = request.method() == http::verb::head;
  keeps_alive_ = request.keep_alive();
  const bool has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
  const std::optional<RequestTarget> target = ParseRequestTarget(ToStdView(request.target()));
  if (std::optional<AdminResponse> refusal = Check(request, target)) {
    // What follows the header is then unknown, or not worth reading.
    keeps_alive_ = keeps_alive_ && !has_body && request.version() == http_version_;
    return WriteResponse(*std::move(refusal), kStrictContentSecurityPolicy);
  }
  if (has_body) return Refuse(Refusal(http::status::payload_too_large, "a request has no body here"));
  const auto found = shared_.routes.find(target->request.path);
  if (found == shared_.routes.end()) {
    return WriteResponse(Refusal(http::status::not_found, "nothing is served here"), kStrictContentSecurityPolicy);
  }
  const AdminRoute& route = found->second;
  if (route.stream_handler != nullptr) return ServeEvents(route);
  WriteResponse(route.handler(target->request), route.content_security_policy);
}

void Session::Refuse(AdminResponse response) {
  keeps_alive_ = false;
  WriteResponse(std::move(response), kStrictContentSecurityPolicy);
}

void Session::WriteResponse(AdminResponse response, const std::string& content_security_policy) {
  waiting_since_ = 0;
  response_ = Response(http::int_to_status(static_cast<unsigned>(response.status)), http_version_);
  response_.set(http::field::date, HttpDate());
  response_.set(http::field::content_type, response.content_type);
  response_.set(http::field::cache_control, "no-store");
  response_.set("X-Content-Type-Options", "nosniff");
  response_.set("Content-Security-Policy", content_security_policy);
  response_.set("Referrer-Policy", "no-referrer");
  response_.set("Cross-Origin-Resource-Policy", "same-origin");
  for (const auto& [name, value] : response.headers) response_.set(name, value);
  response_.keep_alive(keeps_alive_);
  response_.content_length(response.body.size());
  if (!is_head_) response_.body() = std::move(response.body);
  serializer_.emplace(response_);
  ExpireAfter(shared_.options.write_timeout_ms);
  const auto on_written = [self = shared_from_this()](error_code error, size_t) { self->OnWritten(error); };
  if (is_head_) {
    http::async_write_header(stream_, *serializer_, on_written);
  } else {
    http::async_write(stream_, *serializer_, on_written);
  }
}

void Session::OnWritten(error_code error) {
  if (error || on_closed_ == nullptr) return Close();
  if (keeps_alive_) return AwaitRequest();
  Linger();
}

void Session::Linger() {
  Wait();
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  ExpireAfter(kLingerMs);
  Discard(0);
}

void Session::Discard(size_t discarded_bytes) {
  if (discarded_bytes > kMaxLingerBytes) return Close();
  stream_.async_read_some(asio::buffer(discarded_),
                          [self = shared_from_this(), discarded_bytes](error_code error, size_t bytes) {
                            if (error) return self->Close();
                            self->Discard(discarded_bytes + bytes);
                          });
}

void Session::ServeEvents(const AdminRoute& route) {
  if (shared_.event_streams.load(std::memory_order_relaxed) >= shared_.options.max_event_streams) {
    AdminResponse refusal = Refusal(http::status::service_unavailable,
                                    absl::StrCat("at most ", shared_.options.max_event_streams, " viewers are served"));
    refusal.headers.emplace_back("Retry-After", "5");
    return WriteResponse(std::move(refusal), kStrictContentSecurityPolicy);
  }
  keeps_alive_ = false;
  event_text_ = absl::StrCat("HTTP/1.1 200 OK\r\nDate: ", HttpDate(),
                             "\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
                             "X-Content-Type-Options: nosniff\r\nContent-Security-Policy: ",
                             kStrictContentSecurityPolicy,
                             "\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"
                             "Connection: close\r\n\r\n");
  if (is_head_) {
    ExpireAfter(shared_.options.write_timeout_ms);
    asio::async_write(stream_, asio::buffer(event_text_),
                      [self = shared_from_this()](error_code error, size_t) { self->OnWritten(error); });
    return;
  }
  error_code ignored;
  stream_.socket().set_option(asio::socket_base::send_buffer_size(kEventSocketBytes), ignored);
  const auto wake = [executor = stream_.get_executor(), weak = weak_from_this()] {
    asio::post(executor, [weak] {
      if (const std::shared_ptr<Session> self = weak.lock()) self->PumpEvents();
    });
  };
  events_ = std::make_shared<EventBuffer>(shared_.options.max_unread_event_bytes, wake);
  shared_.event_streams.fetch_add(1, std::memory_order_relaxed);
  stream_.expires_never();
  WatchViewer(0);
  route.stream_handler(events_);
  is_writing_events_ = true;
  ExpireAfter(shared_.options.write_timeout_ms);
  asio::async_write(stream_, asio::buffer(event_text_), [self = shared_from_this()](error_code error, size_t) {
    self->is_writing_events_ = false;
    if (error) return self->Close();
    self->PumpEvents();
  });
}

void Session::WatchViewer(size_t read_bytes) {
  if (read_bytes > kMaxViewerBytes) return Close();
  stream_.async_read_some(asio::buffer(discarded_),
                          [self = shared_from_this(), read_bytes](error_code error, size_t bytes) {
                            if (error) return self->Close();
                            self->WatchViewer(read_bytes + bytes);
                          });
}

void Session::PumpEvents() {
  if (on_closed_ == nullptr) return;
  const EventBuffer::State state = events_->state();
  if (state == EventBuffer::State::kBroken) return Close();
  if (is_writing_events_) return;
  event_text_ = events_->Take();
  if (event_text_.empty()) {
    if (state == EventBuffer::State::kEnding) Close();
    return;
  }
  is_writing_events_ = true;
  WriteEvents(0);
}

// A history has megabytes, for which a slow line needs longer than the time-out: each piece has its own.
void Session::WriteEvents(size_t sent_bytes) {
  const size_t piece_bytes = std::min(event_text_.size() - sent_bytes, kEventPieceBytes);
  ExpireAfter(shared_.options.write_timeout_ms);
  asio::async_write(stream_, asio::buffer(event_text_.data() + sent_bytes, piece_bytes),
                    [self = shared_from_this(), sent_bytes](error_code error, size_t bytes) {
                      if (error) return self->Close();
                      self->shared_.event_bytes.fetch_add(bytes, std::memory_order_relaxed);
                      if (sent_bytes + bytes < self->event_text_.size()) return self->WriteEvents(sent_bytes + bytes);
                      self->is_writing_events_ = false;
                      self->events_->Sent(self->event_text_.size());
                      self->PumpEvents();
                    });
}

}  // namespace

std::shared_ptr<AdminSession> MakeAdminSession(boost::asio::ip::tcp::socket socket, AdminShared& shared,
                                               std::function<void(AdminSession&)> on_closed) {
  return std::make_shared<Session>(std::move(socket), shared, std::move(on_closed));
}

}  // namespace baton::telemetry
