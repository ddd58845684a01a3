#include "telemetry/otlp_http.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/clock.h"
#include "common/status.h"
#include "common/version.h"
#include "telemetry/gzip.h"
#include "telemetry/host_lookup.h"
#include "telemetry/otlp_wire.h"

namespace baton::telemetry {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr uint64_t kMaxCollectorBodyBytes = uint64_t{1} << 20;
constexpr char kProtobufType[] = "application/x-protobuf";

using HttpRequest = http::request<http::string_body>;
using HttpResponse = http::response<http::string_body>;

// One request and its response, over a connection of its own. The stream is plain or TLS.
class HttpExchange {
 public:
  // All outlive the exchange. `tls` is null for plain HTTP.
  HttpExchange(asio::io_context& io, ssl::context* tls, const OtlpEndpoint& endpoint, const HttpRequest& request)
      : endpoint_(endpoint), request_(request), plain_(io) {
    if (tls != nullptr) tls_.emplace(io, *tls);
    parser_.body_limit(kMaxCollectorBodyBytes);
  }

  // Begins. is_over() once the io_context has run out of work.
  void Start(const std::vector<tcp::endpoint>& addresses);
  bool is_over() const { return is_over_; }
  // Whether what failed may work another time.
  bool is_transient() const { return is_transient_; }
  error_code error() const { return error_; }
  const HttpResponse& response() const { return parser_.get(); }

 private:
  beast::tcp_stream& tcp_stream() { return tls_.has_value() ? tls_->next_layer() : plain_; }
  void ShakeHands();
  template <typename Stream>
  void Exchange(Stream& stream);
  void End(error_code error, bool is_transient);

  const OtlpEndpoint& endpoint_;
  const HttpRequest& request_;
  beast::tcp_stream plain_;
  std::optional<beast::ssl_stream<beast::tcp_stream>> tls_;
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  bool is_over_ = false;
  bool is_transient_ = false;
  error_code error_;
};

void HttpExchange::End(error_code error, bool is_transient) {
  is_over_ = true;
  error_ = error;
  is_transient_ = is_transient;
  error_code ignored;
  tcp_stream().socket().close(ignored);
}

void HttpExchange::Start(const std::vector<tcp::endpoint>& addresses) {
  tcp_stream().expires_never();
  tcp_stream().async_connect(addresses, [this](error_code error, const tcp::endpoint&) {
    if (error) return End(error, true);
    if (tls_.has_value()) return ShakeHands();
    Exchange(plain_);
  });
}

void HttpExchange::ShakeHands() {
  tls_->set_verify_callback(ssl::host_name_verification(endpoint_.host));
  // Collectors behind one address tell by the name which certificate to show.
  error_code is_name;
  (void)asio::ip::make_address(endpoint_.host, is_name);
  if (is_name) SSL_set_tlsext_host_name(tls_->native_handle(), endpoint_.host.c_str());
  tls_->async_handshake(ssl::stream_base::client, [this](error_code error) {
    // What TLS itself refuses, such as a certificate, it refuses every time; a connection may break only once.
    if (error) return End(error, error.category() != asio::error::get_ssl_category());
    Exchange(*tls_);
  });
}

template <typename Stream>
void HttpExchange::Exchange(Stream& stream) {
  http::async_write(stream, request_, [this, &stream](error_code error, size_t) {
    if (error) return End(error, true);
    http::async_read(stream, buffer_, parser_, [this](error_code read_error, size_t) { End(read_error, true); });
  });
}

bool IsRetryableStatus(unsigned status) { return status == 429 || status == 502 || status == 503 || status == 504; }

SendResult ReadResponse(const HttpResponse& response) {
  SendResult result;
  const unsigned status = response.result_int();
  const beast::string_view type = response[http::field::content_type];
  const bool is_protobuf = absl::StartsWithIgnoreCase(absl::string_view(type.data(), type.size()), kProtobufType);
  if (status >= 200 && status < 300) {
    if (is_protobuf) (void)ReadExportResponse(response.body(), result);
    return result;
  }
  const std::string said = is_protobuf ? ReadRpcStatus(response.body()).message : QuoteForLog(response.body());
  result.status = absl::UnavailableError(absl::StrCat("HTTP status ", status, said.empty() ? "" : ": ", said));
  result.retryable = IsRetryableStatus(status);
  const beast::string_view retry_after = response[http::field::retry_after];
  if (result.retryable && !retry_after.empty()) {
    result.retry_after_ms = ParseRetryAfterMs({retry_after.data(), retry_after.size()}, absl::Now());
  }
  return result;
}

class OtlpHttpSender final : public OtlpSender {
 public:
  OtlpHttpSender(const OtlpSettings& settings, std::unique_ptr<ssl::context> tls, HostLookup::Function look_up)
      : settings_(settings), tls_(std::move(tls)), lookup_(std::move(look_up)) {}

  SendResult Send(const std::string& message, int64_t timeout_ms) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Cancel() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static SendResult Cancelled() { return {.status = absl::CancelledError("the process ends")}; }
  HttpRequest MakeRequest(const std::string& message) const;
  // In the order in which to try them.
  absl::StatusOr<std::vector<tcp::endpoint>> FindAddresses(int64_t timeout_ms);
  // Runs the exchange for `timeout_ms` at most. False: it was cancelled.
  bool Run(HttpExchange& exchange, asio::io_context& io, int64_t timeout_ms) ABSL_LOCKS_EXCLUDED(mutex_);

  const OtlpSettings settings_;
  const std::unique_ptr<ssl::context> tls_;
  HostLookup lookup_;
  // Tries without an answer. The thread of Send alone uses it.
  size_t failed_tries_ = 0;
  absl::Mutex mutex_;
  // Belongs to the Send that runs.
  asio::io_context* io_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

HttpRequest OtlpHttpSender::MakeRequest(const std::string& message) const {
  HttpRequest request(http::verb::post, settings_.endpoint.path, 11);
  request.set(http::field::host, settings_.endpoint.Authority());
  request.set(http::field::user_agent, absl::StrCat("baton/", kVersion));
  request.set(http::field::content_type, kProtobufType);
  for (const auto& [name, value] : settings_.headers) request.insert(name, value);
  if (settings_.gzip) request.set(http::field::content_encoding, "gzip");
  request.body() = settings_.gzip ? Gzip(message) : message;
  request.keep_alive(false);
  request.prepare_payload();
  return request;
}

absl::StatusOr<std::vector<tcp::endpoint>> OtlpHttpSender::FindAddresses(int64_t timeout_ms) {
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, lookup_.Find(settings_.endpoint.host, timeout_ms));
  std::vector<tcp::endpoint> endpoints;
  for (const std::string& address : addresses) {
    error_code error;
    const asio::ip::address parsed = asio::ip::make_address(address, error);
    if (!error) endpoints.emplace_back(parsed, static_cast<uint16_t>(settings_.endpoint.port));
  }
  // An address where nobody answers may take all the time of a try, so the next try begins at the next one.
  if (!endpoints.empty()) {
    std::rotate(endpoints.begin(), endpoints.begin() + static_cast<ptrdiff_t>(failed_tries_ % endpoints.size()),
                endpoints.end());
  }
  return endpoints;
}

bool OtlpHttpSender::Run(HttpExchange& exchange, asio::io_context& io, int64_t timeout_ms) {
  {
    const absl::MutexLock lock(&mutex_);
    if (is_cancelled_) return false;
    io_ = &io;
  }
  io.run_for(std::chrono::milliseconds(timeout_ms));
  const absl::MutexLock lock(&mutex_);
  io_ = nullptr;
  return exchange.is_over() || !is_cancelled_;
}

SendResult OtlpHttpSender::Send(const std::string& message, int64_t timeout_ms) {
  const TimeNs end = After(MonotonicClock().Now(), timeout_ms);
  const absl::StatusOr<std::vector<tcp::endpoint>> addresses = FindAddresses(timeout_ms);
  if (!addresses.ok()) {
    return {.status = addresses.status(), .retryable = !absl::IsCancelled(addresses.status())};
  }
  const HttpRequest request = MakeRequest(message);
  asio::io_context io{1};
  HttpExchange exchange(io, tls_.get(), settings_.endpoint, request);
  asio::post(io, [&] { exchange.Start(*addresses); });
  const int64_t left_ms = std::max<int64_t>((end - MonotonicClock().Now()) / kNsPerMs, 1);
  if (!Run(exchange, io, left_ms)) return Cancelled();
  if (!exchange.is_over() || exchange.error()) ++failed_tries_;
  if (!exchange.is_over()) {
    return {.status = absl::DeadlineExceededError("it did not answer in time"), .retryable = true};
  }
  if (exchange.error()) {
    return {.status = absl::UnavailableError(exchange.error().message()), .retryable = exchange.is_transient()};
  }
  return ReadResponse(exchange.response());
}

void OtlpHttpSender::Cancel() {
  lookup_.Cancel();
  const absl::MutexLock lock(&mutex_);
  is_cancelled_ = true;
  if (io_ != nullptr) io_->stop();
}

}  // namespace

std::optional<int64_t> ParseRetryAfterMs(std::string_view value, absl::Time now) {
  int64_t seconds = 0;
  if (absl::SimpleAtoi(ToAbsl(value), &seconds)) {
    return std::clamp<int64_t>(seconds, 0, kMaxRetryAfterMs / 1000) * 1000;
  }
  absl::Time date;
  std::string error;
  if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", ToAbsl(value), &date, &error)) return std::nullopt;
  return std::clamp<int64_t>(absl::ToInt64Milliseconds(date - now), 0, kMaxRetryAfterMs);
}

absl::StatusOr<std::unique_ptr<OtlpSender>> MakeOtlpHttpSender(const OtlpSettings& settings,
                                                               HostLookup::Function look_up) {
  std::unique_ptr<ssl::context> tls;
  if (settings.endpoint.tls) {
    tls = std::make_unique<ssl::context>(ssl::context::tls_client);
    error_code error;
    tls->set_verify_mode(ssl::verify_peer, error);
    if (settings.certificate_file.empty()) {
      tls->set_default_verify_paths(error);
    } else {
      tls->load_verify_file(settings.certificate_file, error);
    }
    if (error) {
      return absl::InvalidArgumentError(
          absl::StrCat("OTEL_EXPORTER_OTLP_CERTIFICATE: cannot read ", settings.certificate_file));
    }
  }
  return std::make_unique<OtlpHttpSender>(settings, std::move(tls), std::move(look_up));
}

}  // namespace baton::telemetry
