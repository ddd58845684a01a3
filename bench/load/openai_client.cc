#include "bench/load/openai_client.h"

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "bench/load/sse_parser.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace baton::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Json = nlohmann::json;

constexpr int kHttpVersion = 11;
constexpr int64_t kNoTimeoutMs = 24 * 3600 * 1000;
constexpr int64_t kListTimeoutMs = 10'000;
constexpr size_t kMaxBodyBytes = 64u << 20;
constexpr size_t kPieceBytes = 16u << 10;
constexpr size_t kShownErrorBytes = 200;

absl::Status HttpError(int status, const std::string& body) {
  const std::string text = absl::StrCat("HTTP ", status, ": ", body.substr(0, kShownErrorBytes));
  if (status == 404) return absl::NotFoundError(text);
  if (status == 429 || status == 503) return absl::ResourceExhaustedError(text);
  return status >= 500 ? absl::InternalError(text) : absl::InvalidArgumentError(text);
}

// What the events of the stream have said so far.
struct Completion {
  int pieces = 0;
  std::optional<int> usage;
  bool is_done = false;
  std::string error;
};

void TakeEvent(std::string_view data, const std::function<void()>& on_output, Completion& completion) {
  if (data == "[DONE]") {
    completion.is_done = true;
    return;
  }
  const Json event = Json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!event.is_object()) {
    completion.error = absl::StrCat("not JSON: ", std::string(data.substr(0, kShownErrorBytes)));
    return;
  }
  if (event.contains("error")) completion.error = event["error"].dump();
  const auto choices = event.find("choices");
  if (choices != event.end() && choices->is_array() && !choices->empty()) {
    const Json& choice = choices->front();
    // The last event of a stream may say nothing but why the stream ends.
    if (choice.contains("text") && (choice["text"] != "" || choice.value("finish_reason", Json()).is_null())) {
      ++completion.pieces;
      on_output();
    }
  }
  const auto usage = event.find("usage");
  if (usage != event.end() && usage->is_object() && usage->contains("completion_tokens")) {
    completion.usage = (*usage)["completion_tokens"].get<int>();
  }
}

}  // namespace

struct OpenAiClient::Connection {
  asio::io_context context;
  beast::tcp_stream stream{context};
  // What was read beyond the last answer.
  beast::flat_buffer buffer;
};

OpenAiClient::OpenAiClient(const OpenAiClientOptions& options) : options_(options) {}
OpenAiClient::~OpenAiClient() = default;

// Each operation runs the context until the operation is done, so that the deadline holds for it.
class OpenAiClient::Exchange {
 public:
  Exchange(OpenAiClient& client, int64_t timeout_ms)
      : client_(client), base_(client.options_.base), timeout_(timeout_ms > 0 ? timeout_ms : kNoTimeoutMs) {
    absl::MutexLock lock(&client_.mutex_);
    if (client_.idle_.empty()) {
      connection_ = std::make_unique<Connection>();
    } else {
      connection_ = std::move(client_.idle_.back());
      client_.idle_.pop_back();
      was_idle_ = true;
    }
    client_.exchanges_.insert(this);
    if (client_.is_cancelled_) Cancel();
  }
  ~Exchange() {
    absl::MutexLock lock(&client_.mutex_);
    client_.exchanges_.erase(this);
    if (stays_open_ && !is_cancelled_) client_.idle_.push_back(std::move(connection_));
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Ends the operation that runs, and each that begins later, with an error. Any thread may call it while the exchange
  // is among those of the client.
  void Cancel() {
    is_cancelled_ = true;
    asio::post(connection_->context, [connection = connection_.get()] { connection->stream.close(); });
  }

  // The handler that each operation ends with. It stands above its uses because its type is deduced.
  auto Done() {
    return [this](beast::error_code error, size_t) { error_ = error; };
  }

  // Sends the request and reads the header of the answer.
  absl::Status Start(http::verb verb, const std::string& path, const std::string& body) {
    http::request<http::string_body> request(verb, base_.path + path, kHttpVersion, body);
    request.set(http::field::host, base_.host);
    request.set(http::field::content_type, "application/json");
    request.prepare_payload();
    connection_->stream.expires_after(timeout_);
    if (was_idle_) {
      absl::Status answered = Send(request);
      // A server may close a connection that nobody uses, and has done nothing then.
      if (answered.ok() || !HasHungUp()) return answered;
    }
    BATON_RETURN_IF_ERROR(Connect());
    return Send(request);
  }

  int status() { return parser_->get().result_int(); }

  // Calls `on_piece` with each piece of the body as it arrives.
  template <typename OnPiece>
  absl::Status ReadBody(OnPiece on_piece) {
    std::array<char, kPieceBytes> piece;
    while (!parser_->is_done()) {
      parser_->get().body() = {.data = piece.data(), .size = piece.size(), .more = true};
      http::async_read_some(connection_->stream, connection_->buffer, *parser_, Done());
      if (error_after_run() == http::error::need_buffer) error_ = {};
      BATON_RETURN_IF_ERROR(Explain("read from"));
      const size_t bytes = piece.size() - parser_->get().body().size;
      BATON_RETURN_IF_ERROR(on_piece(std::string_view(piece.data(), bytes)));
    }
    stays_open_ = parser_->keep_alive();
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadWhole() {
    std::string body;
    BATON_RETURN_IF_ERROR(ReadBody([&](std::string_view piece) {
      body.append(piece);
      return absl::OkStatus();
    }));
    if (status() != 200) return HttpError(status(), body);
    return body;
  }

 private:
  absl::Status Connect() {
    connection_->stream.close();
    connection_->buffer.clear();
    asio::ip::tcp::resolver resolver(connection_->context);
    const auto endpoints = resolver.resolve(base_.host, base_.port, error_);
    BATON_RETURN_IF_ERROR(Explain("resolve"));
    connection_->stream.async_connect(endpoints, [this](beast::error_code error, const auto&) { error_ = error; });
    BATON_RETURN_IF_ERROR(Await("connect to"));
    beast::error_code ignored;
    connection_->stream.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    return absl::OkStatus();
  }

  absl::Status Send(const http::request<http::string_body>& request) {
    parser_.emplace();
    parser_->body_limit(kMaxBodyBytes);
    http::async_write(connection_->stream, request, Done());
    BATON_RETURN_IF_ERROR(Await("send to"));
    http::async_read_header(connection_->stream, connection_->buffer, *parser_, Done());
    return Await("read from");
  }

  // Whether the server had closed the connection before the request came.
  bool HasHungUp() const {
    return !parser_->got_some() && (error_ == http::error::end_of_stream || error_ == asio::error::eof ||
                                    error_ == asio::error::connection_reset || error_ == asio::error::broken_pipe);
  }

  const beast::error_code& error_after_run() {
    connection_->context.restart();
    connection_->context.run();
    if (is_cancelled_) error_ = asio::error::operation_aborted;
    return error_;
  }

  absl::Status Await(const char* what) {
    error_after_run();
    return Explain(what);
  }

  absl::Status Explain(const char* what) const {
    if (!error_) return absl::OkStatus();
    const std::string where = absl::StrCat("cannot ", what, " ", base_.host, ":", base_.port, ": ");
    if (error_ == beast::error::timeout) return absl::DeadlineExceededError(absl::StrCat(where, "timed out"));
    return absl::UnavailableError(absl::StrCat(where, error_.message(), "; does --base-url name a running server?"));
  }

  OpenAiClient& client_;
  const BaseUrl& base_;
  const std::chrono::milliseconds timeout_;
  std::unique_ptr<Connection> connection_;
  // Another exchange used the connection.
  bool was_idle_ = false;
  // The answer is read to its end, and the next request can follow it.
  bool stays_open_ = false;
  std::atomic<bool> is_cancelled_{false};
  // It reads the answer. Each sending of the request begins with a new one.
  std::optional<http::response_parser<http::buffer_body>> parser_;
  beast::error_code error_;
};

absl::StatusOr<std::string> OpenAiClient::FindModel() {
  Exchange exchange(*this, kListTimeoutMs);
  BATON_RETURN_IF_ERROR(exchange.Start(http::verb::get, "/models", ""));
  BATON_ASSIGN_OR_RETURN(const std::string body, exchange.ReadWhole());
  const Json answer = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer first_id("/data/0/id");
  if (!answer.is_object() || !answer.contains(first_id) || !answer[first_id].is_string()) {
    return absl::NotFoundError("the server names no model: give --model");
  }
  return answer[first_id].get<std::string>();
}

void OpenAiClient::CancelAll() {
  absl::MutexLock lock(&mutex_);
  is_cancelled_ = true;
  for (Exchange* exchange : exchanges_) exchange->Cancel();
}

absl::StatusOr<int> OpenAiClient::Generate(const LoadRequest& request, const std::function<void()>& on_output) {
  const Json body = {{"model", options_.model},
                     {"prompt", request.prompt},
                     {"max_tokens", request.output_tokens},
                     {"temperature", 0},
                     {"ignore_eos", true},
                     {"stream", true},
                     {"stream_options", {{"include_usage", true}}}};
  Exchange exchange(*this, options_.timeout_ms);
  BATON_RETURN_IF_ERROR(exchange.Start(http::verb::post, "/completions", body.dump()));
  if (exchange.status() != 200) return exchange.ReadWhole().status();
  SseParser events;
  Completion completion;
  BATON_RETURN_IF_ERROR(exchange.ReadBody([&](std::string_view piece) {
    return events.Feed(piece, [&](std::string_view data) { TakeEvent(data, on_output, completion); });
  }));
  if (!completion.error.empty()) return absl::InternalError(absl::StrCat("the server says: ", completion.error));
  if (!completion.is_done) return absl::UnavailableError("the stream ended without [DONE]");
  return completion.usage.value_or(completion.pieces);
}

}  // namespace baton::bench
