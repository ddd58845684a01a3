#include "gateway/http_session.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/system/error_code.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/expiry_timer.h"
#include "gateway/http_exchange.h"
#include "gateway/request_parser.h"
#include "gateway/response_head.h"

namespace baton::gateway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Progress = RequestParser::Progress;

// A client may send this much, and has this long, before a connection is closed that has had its last response. Closing
// at once would take the response away from a client that still sends.
constexpr size_t kMaxLingerBytes = size_t{1} << 20;
constexpr int64_t kLingerMs = 1'000;
// What a client may send during an exchange before it has the response.
constexpr size_t kMaxPipelinedBytes = size_t{64} << 10;
// What has come of the bodies that are being read, of all connections.
constexpr size_t kMaxBodyBytesOfAll = size_t{128} << 20;
constexpr size_t kReadBytes = 8192;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kLastChunk = "0\r\n\r\n";

enum class Phase : uint8_t { kHandshake, kIdle, kHeader, kBody, kExchange, kLingering };

class Session final : public HttpSession, public ExchangeOwner, public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<HttpStream> stream, HttpShared& shared, std::function<void(HttpSession&)> on_closed)
      : stream_(std::move(stream)),
        shared_(shared),
        on_closed_(std::move(on_closed)),
        timer_(std::make_shared<ExpiryTimer>(*shared.io, [this] { OnExpired(); })),
        parser_(shared.options.max_body_bytes) {}

  void Start() override;
  void Close(const absl::Status& why) override;
  uint64_t waiting_since() const override { return waiting_since_; }

  bool IsIn(uint64_t number) const override { return in_exchange_ && number == exchange_number_; }
  void OnResponse(HttpResponse response) override { WriteResponse(std::move(response)); }
  void OnStream(HttpResponse head, std::shared_ptr<BodySource> source) override;
  void OnWake() override { Pump(); }
  void OnAbort() override { Close(absl::AbortedError("the exchange was aborted")); }
  void OnNoAnswer() override { WriteResponse(Refusal({500, "the server has lost the request"})); }
  void SetOnDone(std::function<void(const absl::Status&)> on_done) override { on_done_ = std::move(on_done); }

 private:
  void OnHandshake(error_code error);
  // Reads some of what the client says, unless that is being done already.
  void Read();
  void OnRead(error_code error, size_t bytes);

  void AwaitRequest();
  void BeginHeader();
  void ReadHeader();
  // Why the request is refused for its header, without a look at its body.
  std::optional<HttpResponse> CheckRequest();
  std::optional<HttpResponse> CheckHost();
  std::optional<HttpResponse> FindRoute();
  void BeginBody();
  void ReadBody();
  // Counts what has come of the body.
  void CountBody(size_t bytes) { shared_.body_bytes += bytes - std::exchange(counted_body_bytes_, bytes); }
  void BeginExchange();

  HttpResponse Refusal(HttpRefusal refusal) const;
  // Another request soon may find more.
  HttpResponse Unavailable(std::string why) const;
  // Writes the last response of this connection.
  void Refuse(HttpResponse response);
  void WriteResponse(HttpResponse response);
  void Pump();
  void Write(std::string text, void (Session::*then)());
  void OnPieceWritten();
  void EndResponse();
  void Linger();

  void OnExpired();
  void Wait() { waiting_since_ = ++shared_.waits; }
  bool closed() const { return on_closed_ == nullptr; }

  const std::shared_ptr<HttpStream> stream_;
  HttpShared& shared_;
  std::function<void(HttpSession&)> on_closed_;
  const std::shared_ptr<ExpiryTimer> timer_;
  uint64_t waiting_since_ = 0;

  Phase phase_ = Phase::kHandshake;
  std::array<char, kReadBytes> read_{};
  bool is_reading_ = false;
  // What has come and is not parsed yet.
  boost::beast::flat_buffer buffer_;
  RequestParser parser_;
  size_t counted_body_bytes_ = 0;
  size_t lingered_bytes_ = 0;

  // They belong to the request that is answered.
  bool keeps_alive_ = false;
  const HttpHandler* handler_ = nullptr;
  bool in_exchange_ = false;
  uint64_t exchange_number_ = 0;
  std::function<void(const absl::Status&)> on_done_;
  std::shared_ptr<BodySource> source_;
  bool source_is_last_ = false;
  bool is_writing_ = false;
  std::string written_;
};

void Session::Start() {
  Wait();
  timer_->ExpireAfter(shared_.options.handshake_timeout_ms);
  stream_->Handshake([self = shared_from_this()](error_code error, size_t) { self->OnHandshake(error); });
}

void Session::OnHandshake(error_code error) {
  if (closed()) return;
  if (!error) return AwaitRequest();
  if (error == boost::system::errc::wrong_protocol_type) {
    return Refuse(Refusal({400, "this port speaks TLS: ask it by https"}));
  }
  // TLS has a word of its own for the client, which closing at once might take away.
  Linger();
}

void Session::Close(const absl::Status& why) {
  if (closed()) return;
  CountBody(0);
  source_.reset();
  timer_->Cancel();
  stream_->Close(/*in_order=*/!in_exchange_ && !is_writing_);
  // The server may drop its reference.
  const std::shared_ptr<Session> self = shared_from_this();
  std::exchange(on_closed_, nullptr)(*this);
  if (!std::exchange(in_exchange_, false)) return;
  shared_.exchanges.fetch_sub(1, std::memory_order_relaxed);
  if (const auto on_done = std::exchange(on_done_, nullptr)) on_done(why);
}

void Session::Read() {
  if (std::exchange(is_reading_, true)) return;
  stream_->ReadSome(asio::buffer(read_),
                    [self = shared_from_this()](error_code error, size_t bytes) { self->OnRead(error, bytes); });
}

void Session::OnRead(error_code error, size_t bytes) {
  is_reading_ = false;
  if (closed()) return;
  if (error) return Close(absl::CancelledError("the client has left"));
  if (phase_ == Phase::kLingering) {
    lingered_bytes_ += bytes;
    return lingered_bytes_ > kMaxLingerBytes ? Close(absl::OkStatus()) : Read();
  }
  buffer_.commit(asio::buffer_copy(buffer_.prepare(bytes), asio::buffer(read_), bytes));
  if (phase_ == Phase::kIdle) return BeginHeader();
  if (phase_ == Phase::kHeader) return ReadHeader();
  // While the leave to send a body is being written, the body waits.
  if (phase_ == Phase::kBody && !is_writing_) return ReadBody();
  // During an exchange the server reads on to hear of a client that leaves.
  if (phase_ == Phase::kExchange && buffer_.size() < kMaxPipelinedBytes) Read();
}

void Session::AwaitRequest() {
  phase_ = Phase::kIdle;
  Wait();
  parser_.Begin();
  if (buffer_.size() > 0) return BeginHeader();
  // Connections that are idle hold no more than they need.
  if (buffer_.capacity() > kReadBytes) buffer_.shrink_to_fit();
  timer_->ExpireAfter(shared_.options.idle_timeout_ms);
  Read();
}

void Session::BeginHeader() {
  phase_ = Phase::kHeader;
  timer_->ExpireAfter(shared_.options.header_timeout_ms);
  ReadHeader();
}

void Session::ReadHeader() {
  const Progress progress = parser_.ReadHeader(buffer_);
  if (progress == Progress::kNeedsMore) return Read();
  waiting_since_ = 0;
  if (progress == Progress::kRefused) return Refuse(Refusal(parser_.refusal()));
  shared_.requests.fetch_add(1, std::memory_order_relaxed);
  parser_.request().peer = stream_->peer();
  if (std::optional<HttpResponse> refusal = CheckRequest()) {
    // A body that nobody wants is not worth reading.
    keeps_alive_ = parser_.can_go_on();
    return WriteResponse(*std::move(refusal));
  }
  parser_.awaits_body() ? BeginBody() : BeginExchange();
}

std::optional<HttpResponse> Session::CheckRequest() {
  if (std::optional<HttpResponse> refusal = CheckHost()) return refusal;
  if (shared_.options.admit) {
    if (std::optional<HttpResponse> refusal = shared_.options.admit(parser_.request())) return refusal;
  }
  if (std::optional<HttpResponse> refusal = FindRoute()) return refusal;
  if (!shared_.accepts.load(std::memory_order_relaxed)) {
    return Unavailable("this server ends: send the request to another one");
  }
  return std::nullopt;
}

std::optional<HttpResponse> Session::CheckHost() {
  if (!shared_.hosts.has_value() || !parser_.authority().has_value()) return std::nullopt;
  const telemetry::HostVerdict verdict = shared_.hosts->Check(*parser_.authority());
  if (verdict == telemetry::HostVerdict::kMalformed) return Refusal({400, "the Host header is malformed"});
  if (verdict == telemetry::HostVerdict::kAllowed) return std::nullopt;
  return Refusal({421, "this name is not among those that --http-hosts allows; localhost and IP addresses always are"});
}

std::optional<HttpResponse> Session::FindRoute() {
  const auto path = shared_.routes.find(parser_.request().path);
  if (path == shared_.routes.end()) return Refusal({404, "nothing is served here"});
  const auto method = path->second.find(parser_.is_head() ? "GET" : parser_.request().method);
  if (method != path->second.end()) {
    handler_ = &method->second;
    return std::nullopt;
  }
  std::string allowed;
  for (const auto& [name, handler] : path->second) absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", name);
  HttpResponse refusal = Refusal({405, absl::StrCat("this is served by ", allowed)});
  refusal.headers.emplace_back("Allow", allowed);
  return refusal;
}

void Session::BeginBody() {
  // A client that sends already needs no leave.
  if (parser_.awaits_continue() && phase_ == Phase::kHeader && buffer_.size() == 0) {
    phase_ = Phase::kBody;
    return Write(std::string(kContinue), &Session::BeginBody);
  }
  phase_ = Phase::kBody;
  timer_->ExpireAfter(shared_.options.body_timeout_ms);
  ReadBody();
}

void Session::ReadBody() {
  const Progress progress = parser_.ReadBody(buffer_);
  if (progress == Progress::kRefused) return Refuse(Refusal(parser_.refusal()));
  if (progress == Progress::kDone) return BeginExchange();
  CountBody(parser_.body_bytes());
  if (shared_.body_bytes > kMaxBodyBytesOfAll) {
    return Refuse(Unavailable("too many requests are being read: try again"));
  }
  // A chunk may say more of itself than its bytes, but not without end.
  if (buffer_.size() > kMaxHttpHeaderBytes) return Refuse(Refusal({400, "the body is broken"}));
  Read();
}

void Session::BeginExchange() {
  CountBody(0);
  phase_ = Phase::kExchange;
  keeps_alive_ = parser_.can_go_on();
  in_exchange_ = true;
  ++exchange_number_;
  shared_.exchanges.fetch_add(1, std::memory_order_relaxed);
  timer_->ExpireNever();
  Read();
  (*handler_)(MakeHttpExchange(parser_.TakeRequest(), shared_.io, weak_from_this(), exchange_number_));
}

HttpResponse Session::Refusal(HttpRefusal refusal) const {
  if (shared_.options.make_refusal) {
    return shared_.options.make_refusal(parser_.request().path, refusal.status, std::move(refusal.why));
  }
  return {.status = refusal.status, .content_type = "text/plain; charset=utf-8", .body = std::move(refusal.why) + "\n"};
}

HttpResponse Session::Unavailable(std::string why) const {
  HttpResponse refusal = Refusal({503, std::move(why)});
  refusal.headers.emplace_back("Retry-After", "1");
  return refusal;
}

void Session::Refuse(HttpResponse response) {
  CountBody(0);
  keeps_alive_ = false;
  WriteResponse(std::move(response));
}

void Session::WriteResponse(HttpResponse response) {
  phase_ = Phase::kExchange;
  keeps_alive_ = keeps_alive_ && shared_.accepts.load(std::memory_order_relaxed);
  std::string text = ResponseHead(response, parser_.http_version());
  absl::StrAppend(&text, "Content-Length: ", response.body.size(),
                  "\r\nConnection: ", keeps_alive_ ? "keep-alive" : "close", "\r\n\r\n");
  if (!parser_.is_head()) text += response.body;
  Write(std::move(text), &Session::EndResponse);
}

void Session::OnStream(HttpResponse head, std::shared_ptr<BodySource> source) {
  // HTTP/1.0 knows no chunks: there the end of the connection ends the body.
  keeps_alive_ = keeps_alive_ && parser_.http_version() == 11 && shared_.accepts.load(std::memory_order_relaxed);
  written_ = ResponseHead(head, parser_.http_version());
  absl::StrAppend(&written_, parser_.http_version() == 11 ? "Transfer-Encoding: chunked\r\n" : "",
                  "Connection: ", keeps_alive_ ? "keep-alive" : "close", "\r\n\r\n");
  if (parser_.is_head()) return Write(std::exchange(written_, {}), &Session::EndResponse);
  source_ = std::move(source);
  Pump();
}

// Writes what the source has, after the head where that is not written yet.
void Session::Pump() {
  if (closed() || is_writing_ || source_ == nullptr) return;
  BodySource::Piece piece = source_->Next();
  source_is_last_ = piece.is_last;
  std::string text = std::exchange(written_, {});
  if (!piece.text.empty() && parser_.http_version() == 11) {
    absl::StrAppend(&text, absl::Hex(piece.text.size()), "\r\n", piece.text, "\r\n");
  } else {
    text += piece.text;
  }
  if (piece.is_last && parser_.http_version() == 11) text += kLastChunk;
  if (piece.is_last) source_.reset();
  if (text.empty() && !piece.is_last) return;
  Write(std::move(text), &Session::OnPieceWritten);
}

void Session::OnPieceWritten() {
  if (source_is_last_) return EndResponse();
  timer_->ExpireNever();
  Pump();
}

void Session::Write(std::string text, void (Session::*then)()) {
  is_writing_ = true;
  written_ = std::move(text);
  timer_->ExpireAfter(shared_.options.write_timeout_ms);
  stream_->Write(written_, [self = shared_from_this(), then](error_code error, size_t) {
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
  phase_ = Phase::kLingering;
  Wait();
  stream_->ShutDownSend();
  timer_->ExpireAfter(kLingerMs);
  Read();
}

void Session::OnExpired() {
  Close(in_exchange_ ? absl::DeadlineExceededError("the client does not read") : absl::OkStatus());
}

}  // namespace

std::shared_ptr<HttpSession> MakeHttpSession(std::shared_ptr<HttpStream> stream, HttpShared& shared,
                                             std::function<void(HttpSession&)> on_closed) {
  return std::make_shared<Session>(std::move(stream), shared, std::move(on_closed));
}

}  // namespace baton::gateway
