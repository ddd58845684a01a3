#include "gateway/http_session.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "gateway/http_exchange.h"
#include "telemetry/http_text.h"
#include "telemetry/request_target.h"

namespace baton::gateway {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using telemetry::HttpDate;
using telemetry::IsBadHttp;
using telemetry::ToStdView;

// A client may send this much, and has this long, before a connection is closed that has had its last response. Closing
// at once would take the response away from a client that still sends.
constexpr size_t kMaxLingerBytes = size_t{1} << 20;
constexpr int64_t kLingerMs = 1'000;
// What a client may send during an exchange before it has the response.
constexpr size_t kMaxPipelinedBytes = size_t{64} << 10;
// What has come of the bodies that are being read, of all connections.
constexpr size_t kMaxBodyBytesOfAll = size_t{128} << 20;
// What the system may hold of a response that its client does not read.
constexpr int kSocketSendBytes = 128 << 10;
constexpr size_t kReadBytes = 4096;
constexpr std::string_view kLastChunk = "0\r\n\r\n";

using Parser = http::request_parser<http::string_body>;

std::string LowerCase(beast::string_view text) { return absl::AsciiStrToLower({text.data(), text.size()}); }

// The status line and the header, without the empty line.
std::string HeadText(const HttpResponse& response, unsigned http_version) {
  const beast::string_view reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  std::string head = absl::StrCat("HTTP/1.", http_version % 10, " ", response.status, " ",
                                  absl::string_view(reason.data(), reason.size()), "\r\nDate: ", HttpDate(),
                                  "\r\nContent-Type: ", response.content_type,
                                  "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
  for (const auto& [name, value] : response.headers) absl::StrAppend(&head, name, ": ", value, "\r\n");
  return head;
}

class Session final : public HttpSession, public ExchangeOwner, public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, HttpShared& shared, std::function<void(HttpSession&)> on_closed)
      : socket_(std::move(socket)), timer_(*shared.io), shared_(shared), on_closed_(std::move(on_closed)) {}

  void Start() override;
  void Close(const absl::Status& why) override;
  uint64_t waiting_since() const override { return waiting_since_; }

  bool IsIn(uint64_t number) const override { return in_exchange_ && number == exchange_number_; }
  void OnResponse(HttpResponse response) override { WriteResponse(std::move(response)); }
  void OnStream(HttpResponse head, std::shared_ptr<BodySource> source) override;
  void OnWake() override { Pump(); }
  void OnAbort() override { Close(absl::AbortedError("the exchange was aborted")); }
  void OnNoAnswer() override { WriteResponse(Refusal(500, "the server has lost the request")); }
  void SetOnDone(std::function<void(const absl::Status&)> on_done) override { on_done_ = std::move(on_done); }

 private:
  void AwaitRequest();
  void ReadAhead();
  void ReadHeader();
  void OnHeader(error_code error, size_t header_bytes);
  // What is wrong with the header, for which the request is refused without a look at its body.
  std::optional<HttpResponse> CheckHeader();
  std::optional<HttpResponse> FindRoute();
  // What its header says of the body, before that is read. False: the request has been refused.
  bool AgreesToBody();
  void ReadBody();
  void OnBody(error_code error);
  // Counts what has come of the body.
  void CountBody(size_t bytes) { shared_.body_bytes += bytes - std::exchange(counted_body_bytes_, bytes); }
  void BeginExchange();
  HttpRequest TakeRequest();

  HttpResponse Refusal(int status, std::string message) const;
  HttpResponse TooLarge() const {
    return Refusal(413, absl::StrCat("a body has at most ", shared_.options.max_body_bytes, " bytes"));
  }
  // Another request soon may find more.
  HttpResponse Unavailable(std::string why) const {
    HttpResponse refusal = Refusal(503, std::move(why));
    refusal.headers.emplace_back("Retry-After", "1");
    return refusal;
  }
  // Writes the last response of this connection.
  void Refuse(HttpResponse response);
  void WriteResponse(HttpResponse response);
  void Pump();
  void Write(std::string text, void (Session::*then)());
  void OnPieceWritten();
  void EndResponse();
  void Linger();
  void Discard(size_t discarded_bytes);

  void ExpireAfter(int64_t ms);
  void ExpireNever() { expires_ = kNever; }
  void ArmTimer();
  void OnTimer();
  void Wait() { waiting_since_ = ++shared_.waits; }
  bool closed() const { return on_closed_ == nullptr; }

  tcp::socket socket_;
  asio::steady_timer timer_;
  HttpShared& shared_;
  std::function<void(HttpSession&)> on_closed_;
  uint64_t waiting_since_ = 0;
  // When the timer fires it looks whether the time of expiry has moved away, so that moving it costs nothing.
  TimeNs expires_ = kNever;
  TimeNs timer_fires_ = kNever;

  // Holds what has come of the next requests.
  beast::flat_buffer buffer_{2 * kMaxHttpHeaderBytes + kMaxPipelinedBytes};
  bool reads_ahead_ = false;
  bool awaits_request_ = false;
  bool lingers_ = false;
  std::optional<Parser> parser_;
  size_t counted_body_bytes_ = 0;

  // They belong to the request that is answered.
  unsigned http_version_ = 11;
  bool is_head_ = false;
  bool keeps_alive_ = false;
  std::string path_;
  std::string query_;
  const HttpHandler* handler_ = nullptr;
  bool in_exchange_ = false;
  uint64_t exchange_number_ = 0;
  std::function<void(const absl::Status&)> on_done_;
  std::shared_ptr<BodySource> source_;
  bool source_is_last_ = false;
  bool is_writing_ = false;
  std::string written_;
  std::array<char, kReadBytes> discarded_{};
};

void Session::Start() {
  error_code ignored;
  socket_.set_option(asio::socket_base::send_buffer_size(kSocketSendBytes), ignored);
  AwaitRequest();
}

void Session::Close(const absl::Status& why) {
  if (closed()) return;
  CountBody(0);
  source_.reset();
  ExpireNever();
  timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
  // The server may drop its reference.
  const std::shared_ptr<Session> self = shared_from_this();
  std::exchange(on_closed_, nullptr)(*this);
  if (!std::exchange(in_exchange_, false)) return;
  shared_.exchanges.fetch_sub(1, std::memory_order_relaxed);
  if (const auto on_done = std::exchange(on_done_, nullptr)) on_done(why);
}

void Session::AwaitRequest() {
  Wait();
  parser_.emplace();
  parser_->header_limit(kMaxHttpHeaderBytes);
  parser_->body_limit(shared_.options.max_body_bytes);
  if (buffer_.size() > 0) return ReadHeader();
  ExpireAfter(shared_.options.idle_timeout_ms);
  awaits_request_ = true;
  ReadAhead();
}

// The one read between requests and during an exchange. It learns that the client has left.
void Session::ReadAhead() {
  if (reads_ahead_ || buffer_.size() >= kMaxPipelinedBytes) return;
  reads_ahead_ = true;
  socket_.async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](error_code error, size_t bytes) {
    self->reads_ahead_ = false;
    if (self->closed()) return;
    const bool was_stopped = error == asio::error::operation_aborted && self->awaits_request_;
    if (error && !was_stopped) return self->Close(absl::CancelledError("the client has left"));
    if (self->lingers_) return self->Discard(bytes);
    self->buffer_.commit(bytes);
    if (std::exchange(self->awaits_request_, false)) return self->ReadHeader();
    self->ReadAhead();
  });
}

void Session::ReadHeader() {
  // A read ahead owns the buffer until it is over, which it need not be soon.
  if (reads_ahead_) {
    awaits_request_ = true;
    error_code ignored;
    socket_.cancel(ignored);
    return;
  }
  ExpireAfter(shared_.options.header_timeout_ms);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](error_code error, size_t header_bytes) { self->OnHeader(error, header_bytes); });
}

void Session::OnHeader(error_code error, size_t header_bytes) {
  if (closed()) return;
  waiting_since_ = 0;
  // Until the request says otherwise.
  is_head_ = false;
  keeps_alive_ = false;
  http_version_ = 11;
  path_.clear();
  // Beast itself limits the request line and the fields, each by itself.
  if (!error && header_bytes > kMaxHttpHeaderBytes) error = http::error::header_limit;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Refuse(Refusal(431, absl::StrCat("the header has more than ", kMaxHttpHeaderBytes, " bytes")));
  }
  if (error == http::error::body_limit) return Refuse(TooLarge());
  if (error == http::error::bad_version) return Refuse(Refusal(505, "this server speaks HTTP/1.0 and HTTP/1.1"));
  if (IsBadHttp(error)) return Refuse(Refusal(400, "this is no HTTP request"));
  if (error) return Close(absl::OkStatus());
  shared_.requests.fetch_add(1, std::memory_order_relaxed);
  if (std::optional<HttpResponse> refusal = CheckHeader()) {
    // A body that nobody wants is not worth reading, and a client whose header is wrong may send anything next.
    keeps_alive_ = parser_->is_done() && parser_->get().keep_alive() && refusal->status != 400;
    return WriteResponse(*std::move(refusal));
  }
  if (parser_->is_done()) return BeginExchange();
  ExpireAfter(shared_.options.body_timeout_ms);
  if (AgreesToBody()) ReadBody();
}

std::optional<HttpResponse> Session::CheckHeader() {
  const Parser::value_type& request = parser_->get();
  if (request.version() != 10 && request.version() != 11) {
    return Refusal(505, "this server speaks HTTP/1.0 and HTTP/1.1");
  }
  http_version_ = request.version();
  is_head_ = request.method() == http::verb::head;
  if (std::optional<HttpResponse> refusal = FindRoute()) return refusal;
  if (request.version() == 11 && request.count(http::field::host) != 1) {
    return Refusal(400, "a request of HTTP/1.1 has one Host header");
  }
  if (!shared_.accepts.load(std::memory_order_relaxed)) {
    return Unavailable("this server ends: send the request to another one");
  }
  return std::nullopt;
}

std::optional<HttpResponse> Session::FindRoute() {
  const Parser::value_type& request = parser_->get();
  const std::optional<telemetry::RequestTarget> target = telemetry::ParseRequestTarget(ToStdView(request.target()));
  if (!target.has_value()) return Refusal(400, "the target is no path");
  path_ = std::string(target->request.path);
  query_ = std::string(target->request.query);
  const auto path = shared_.routes.find(target->request.path);
  if (path == shared_.routes.end()) return Refusal(404, "nothing is served here");
  const auto method = path->second.find(is_head_ ? "GET" : ToStdView(request.method_string()));
  if (method != path->second.end()) {
    handler_ = &method->second;
    return std::nullopt;
  }
  std::string allowed;
  for (const auto& [name, handler] : path->second) absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", name);
  HttpResponse refusal = Refusal(405, absl::StrCat("this is served by ", allowed));
  refusal.headers.emplace_back("Allow", allowed);
  return refusal;
}

bool Session::AgreesToBody() {
  const beast::string_view expected = parser_->get()[http::field::expect];
  if (expected.empty()) return true;
  if (LowerCase(expected) != "100-continue") {
    Refuse(Refusal(417, "only 100-continue can be expected"));
    return false;
  }
  // A client that sends already needs no leave.
  if (buffer_.size() > 0) return true;
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  error_code ignored;
  socket_.write_some(asio::buffer(kContinue), ignored);
  return true;
}

void Session::ReadBody() {
  http::async_read_some(socket_, buffer_, *parser_,
                        [self = shared_from_this()](error_code error, size_t) { self->OnBody(error); });
}

void Session::OnBody(error_code error) {
  if (closed()) return;
  if (error == http::error::body_limit) return Refuse(TooLarge());
  if (IsBadHttp(error)) return Refuse(Refusal(400, "the body is broken"));
  if (error) return Close(absl::OkStatus());
  CountBody(parser_->get().body().size());
  if (parser_->is_done()) return BeginExchange();
  if (shared_.body_bytes <= kMaxBodyBytesOfAll) return ReadBody();
  Refuse(Unavailable("too many requests are being read: try again"));
}

HttpRequest Session::TakeRequest() {
  Parser::value_type& message = parser_->get();
  HttpRequest request;
  request.method = std::string(ToStdView(message.method_string()));
  request.path = path_;
  request.query = query_;
  for (const auto& field : message) {
    request.headers.emplace_back(LowerCase(field.name_string()), std::string(ToStdView(field.value())));
  }
  request.body = std::move(message.body());
  return request;
}

void Session::BeginExchange() {
  CountBody(0);
  keeps_alive_ = parser_->get().keep_alive();
  in_exchange_ = true;
  ++exchange_number_;
  shared_.exchanges.fetch_add(1, std::memory_order_relaxed);
  ExpireNever();
  ReadAhead();
  (*handler_)(MakeHttpExchange(TakeRequest(), shared_.io, weak_from_this(), exchange_number_));
}

HttpResponse Session::Refusal(int status, std::string message) const {
  if (shared_.options.make_refusal) return shared_.options.make_refusal(path_, status, std::move(message));
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(message) + "\n"};
}

void Session::Refuse(HttpResponse response) {
  CountBody(0);
  keeps_alive_ = false;
  WriteResponse(std::move(response));
}

void Session::WriteResponse(HttpResponse response) {
  keeps_alive_ = keeps_alive_ && shared_.accepts.load(std::memory_order_relaxed);
  std::string text = HeadText(response, http_version_);
  absl::StrAppend(&text, "Content-Length: ", response.body.size(),
                  "\r\nConnection: ", keeps_alive_ ? "keep-alive" : "close", "\r\n\r\n");
  if (!is_head_) text += response.body;
  Write(std::move(text), &Session::EndResponse);
}

void Session::OnStream(HttpResponse head, std::shared_ptr<BodySource> source) {
  // HTTP/1.0 knows no chunks: there the end of the connection ends the body.
  keeps_alive_ = keeps_alive_ && http_version_ == 11 && shared_.accepts.load(std::memory_order_relaxed);
  written_ = HeadText(head, http_version_);
  absl::StrAppend(&written_, http_version_ == 11 ? "Transfer-Encoding: chunked\r\n" : "",
                  "Connection: ", keeps_alive_ ? "keep-alive" : "close", "\r\n\r\n");
  if (is_head_) return Write(std::exchange(written_, {}), &Session::EndResponse);
  source_ = std::move(source);
  Pump();
}

// Writes what the source has, after the head where that is not written yet.
void Session::Pump() {
  if (closed() || is_writing_ || source_ == nullptr) return;
  BodySource::Piece piece = source_->Next();
  source_is_last_ = piece.is_last;
  std::string text = std::exchange(written_, {});
  if (!piece.text.empty() && http_version_ == 11) {
    absl::StrAppend(&text, absl::Hex(piece.text.size()), "\r\n", piece.text, "\r\n");
  } else {
    text += piece.text;
  }
  if (piece.is_last && http_version_ == 11) text += kLastChunk;
  if (piece.is_last) source_.reset();
  if (text.empty() && !piece.is_last) return;
  Write(std::move(text), &Session::OnPieceWritten);
}

void Session::OnPieceWritten() {
  if (source_is_last_) return EndResponse();
  ExpireNever();
  Pump();
}

void Session::Write(std::string text, void (Session::*then)()) {
  is_writing_ = true;
  written_ = std::move(text);
  ExpireAfter(shared_.options.write_timeout_ms);
  asio::async_write(socket_, asio::buffer(written_), [self = shared_from_this(), then](error_code error, size_t) {
    self->is_writing_ = false;
    self->written_.clear();
    if (error) return self->Close(absl::CancelledError("the client has left"));
    if (!self->closed()) (self.get()->*then)();
  });
}

void Session::EndResponse() {
  if (std::exchange(in_exchange_, false)) {
    shared_.exchanges.fetch_sub(1, std::memory_order_relaxed);
    if (const auto on_done = std::exchange(on_done_, nullptr)) on_done(absl::OkStatus());
  }
  if (closed()) return;
  if (keeps_alive_) return AwaitRequest();
  Linger();
}

void Session::Linger() {
  Wait();
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  ExpireAfter(kLingerMs);
  lingers_ = true;
  if (!reads_ahead_) Discard(0);
}

void Session::Discard(size_t discarded_bytes) {
  if (discarded_bytes > kMaxLingerBytes) return Close(absl::OkStatus());
  socket_.async_read_some(asio::buffer(discarded_),
                          [self = shared_from_this(), discarded_bytes](error_code error, size_t bytes) {
                            if (error) return self->Close(absl::OkStatus());
                            if (!self->closed()) self->Discard(discarded_bytes + bytes);
                          });
}

void Session::ExpireAfter(int64_t ms) {
  expires_ = After(MonotonicClock().Now(), ms);
  if (expires_ < timer_fires_) ArmTimer();
}

void Session::ArmTimer() {
  timer_fires_ = expires_;
  timer_.expires_after(std::chrono::nanoseconds(expires_ - MonotonicClock().Now()));
  timer_.async_wait([weak = weak_from_this()](error_code error) {
    const std::shared_ptr<Session> self = weak.lock();
    if (!error && self != nullptr) self->OnTimer();
  });
}

void Session::OnTimer() {
  timer_fires_ = kNever;
  if (closed() || expires_ == kNever) return;
  if (MonotonicClock().Now() < expires_) return ArmTimer();
  Close(in_exchange_ ? absl::DeadlineExceededError("the client does not read") : absl::OkStatus());
}

}  // namespace

std::shared_ptr<HttpSession> MakeHttpSession(tcp::socket socket, HttpShared& shared,
                                             std::function<void(HttpSession&)> on_closed) {
  return std::make_shared<Session>(std::move(socket), shared, std::move(on_closed));
}

}  // namespace baton::gateway
