#include "gateway/openai_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/status.h"
#include "common/test_delay.h"
#include "common/version.h"
#include "gateway/json_reading.h"
#include "gateway/openai_response.h"
#include "router/error_details.h"
#include "router/generation_listener.h"
#include "router/refusal_reason.h"
#include "telemetry/trace_context.h"

namespace baton::gateway {
namespace {

using nlohmann::json;

constexpr size_t kMaxStatedRequestIdBytes = 128;

telemetry::TraceContext ReadTrace(const HttpRequest& request) {
  return telemetry::ReadTraceContext({.traceparent = request.HeaderValues(telemetry::kTraceparentHeader),
                                      .tracestate = request.HeaderValues(telemetry::kTracestateHeader),
                                      .baggage = request.HeaderValues(telemetry::kBaggageHeader)});
}

// A web page of another origin can send anything but JSON without asking first.
absl::Status CheckContentType(const HttpRequest& request) {
  const auto types = request.HeaderValues("content-type");
  if (types.size() == 1 && absl::StartsWithIgnoreCase(ToAbsl(types.front()), "application/json")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("the header Content-Type must be application/json");
}

// What the client calls its request, so that it finds the answer in its own logs; else our own name of it.
HttpHeaders RequestIdHeader(const HttpRequest& request, const JobId& id) {
  const auto stated = request.HeaderValues("x-request-id");
  const bool is_name =
      stated.size() == 1 && !stated.front().empty() && stated.front().size() <= kMaxStatedRequestIdBytes &&
      std::all_of(stated.front().begin(), stated.front().end(), [](char c) { return c > ' ' && c <= '~'; });
  return {{"X-Request-Id", is_name ? std::string(stated.front()) : id.ToHex()}};
}

int64_t UnixSeconds() { return absl::ToUnixSeconds(absl::Now()); }

absl::StatusOr<std::vector<int32_t>> TokensOf(const json& body) {
  auto ids = ToInt32s(body.value("tokens", json()));
  const bool are_ids = ids.has_value() && std::all_of(ids->begin(), ids->end(), [](int32_t id) { return id >= 0; });
  if (!are_ids) return router::FieldViolation("tokens", "must be a list of ids");
  return *std::move(ids);
}

}  // namespace

OpenAiService::OpenAiService(const OpenAiServiceParts& parts)
    : parts_(parts), started_unix_s_(UnixSeconds()), unread_({}, parts.clock) {}

void OpenAiService::AddRoutes(HttpServer& server) {
  const auto generate = [this](OpenAiEndpoint endpoint) {
    return [this, endpoint](const std::shared_ptr<HttpExchange>& exchange) { Generate(endpoint, exchange); };
  };
  server.AddRoute("POST", "/v1/completions", generate(OpenAiEndpoint::kCompletions));
  server.AddRoute("POST", "/v1/chat/completions", generate(OpenAiEndpoint::kChat));
  server.AddRoute("POST", "/tokenize", [this](const std::shared_ptr<HttpExchange>& exchange) {
    Compute(exchange, [this](const std::string& body) { return Tokenize(body); });
  });
  server.AddRoute("POST", "/detokenize", [this](const std::shared_ptr<HttpExchange>& exchange) {
    Compute(exchange, [this](const std::string& body) { return Detokenize(body); });
  });
  server.AddRoute("GET", "/v1/models",
                  [this](const std::shared_ptr<HttpExchange>& exchange) { exchange->Respond({.body = Models()}); });
  server.AddRoute("GET", "/version", [](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->Respond({.body = absl::StrCat(R"({"version":")", kVersion, R"("})")});
  });
  for (const char* path : {"/health", "/ping"}) {
    server.AddRoute("GET", path, [this](const std::shared_ptr<HttpExchange>& exchange) {
      exchange->Respond({.status = parts_.is_serving() ? 200 : 503, .content_type = "text/plain"});
    });
  }
}

void OpenAiService::Generate(OpenAiEndpoint endpoint, const std::shared_ptr<HttpExchange>& exchange) {
  HttpRequest& asked = exchange->request();
  absl::StatusOr<std::string> tenant =
      router::AuthenticatedTenant(parts_.api_keys, asked.HeaderValues("authorization"));
  if (!tenant.ok()) return exchange->Respond(OpenAiError(tenant.status()));
  if (const absl::Status status = CheckContentType(asked); !status.ok()) return exchange->Respond(OpenAiError(status));
  const JobId id = parts_.random.NextId();
  const auto answer = std::make_shared<AnswerBody>(exchange, unread_, RequestIdHeader(asked, id));
  const auto request = std::make_shared<router::ObservedRequest>(parts_.observers, answer, id,
                                                                 router::BeginTrace(parts_.tracer, ReadTrace(asked)));
  exchange->SetOnDone([this, id, answer, request](const absl::Status& delivery) {
    answer->OnExchangeDone([request = request.get(), delivery] { request->OnDelivered(delivery); });
    if (delivery.ok()) return;
    if (!parts_.work.Drop(id)) return parts_.backend.Cancel(id);
    router::WriteFailed(absl::CancelledError("the client is gone"), *request);
  });
  WorkTask task = {.id = id, .bytes = asked.body.size()};
  task.run = [this, incoming = Incoming{.endpoint = endpoint,
                                        .id = id,
                                        .tenant = *std::move(tenant),
                                        .body = std::move(asked.body),
                                        .answer = answer,
                                        .request = request}](const absl::Status& status) mutable {
    if (!status.ok()) return router::WriteFailed(status, *incoming.request);
    TestDelay("read");
    Begin(std::move(incoming));
  };
  if (!parts_.work.Post(std::move(task))) router::WriteFailed(router::ClientWorkFull(), *request);
}

void OpenAiService::Begin(Incoming incoming) {
  router::ObservedRequest& request = *incoming.request;
  absl::StatusOr<OpenAiRequest> read =
      ReadOpenAiRequest(incoming.endpoint, incoming.body, parts_.model.config.context_length);
  if (!read.ok()) return router::WriteFailed(read.status(), request);
  router::GenerationRequest& generation = read->generation;
  const char* const prefix = incoming.endpoint == OpenAiEndpoint::kChat ? "chatcmpl-" : "cmpl-";
  incoming.answer->SetWriter(OpenAiWriter({.endpoint = incoming.endpoint,
                                           .id = absl::StrCat(prefix, incoming.id.ToHex()),
                                           .model = parts_.model.name,
                                           .created_unix_s = UnixSeconds(),
                                           .include_usage = read->include_usage,
                                           .return_token_ids = read->return_token_ids},
                                          *parts_.model.tokenizer),
                             read->stream);
  generation.id = incoming.id;
  generation.authenticated_tenant = std::move(incoming.tenant);
  generation.trace = router::HeadersOf(request.trace());
  generation.arrived = request.arrived();
  request.OnRead(generation);
  parts_.backend.Generate(std::move(generation), incoming.request);
}

void OpenAiService::Compute(const std::shared_ptr<HttpExchange>& exchange,
                            std::function<absl::StatusOr<std::string>(const std::string& body)> answer) {
  if (const absl::Status status = CheckContentType(exchange->request()); !status.ok()) {
    return exchange->Respond(OpenAiError(status));
  }
  WorkTask task = {.id = parts_.random.NextId(), .bytes = exchange->request().body.size()};
  task.run = [exchange, answer = std::move(answer),
              body = std::move(exchange->request().body)](const absl::Status& status) {
    const absl::StatusOr<std::string> answered = status.ok() ? answer(body) : status;
    if (!answered.ok()) return exchange->Respond(OpenAiError(answered.status()));
    exchange->Respond({.body = *answered});
  };
  if (!parts_.work.Post(std::move(task)))
    exchange->Respond(OpenAiError(router::WithRetryAfter(router::ClientWorkFull())));
}

absl::StatusOr<std::string> OpenAiService::Tokenize(const std::string& body) const {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  const auto prompt = object.find("prompt");
  if (prompt == object.end() || !prompt->is_string()) return router::FieldViolation("prompt", "must be a string");
  const auto model = object.value("model", json(""));
  const auto adds = object.value("add_special_tokens", json(true));
  if (!model.is_string()) return router::FieldViolation("model", "must be a string");
  if (!adds.is_boolean()) return router::FieldViolation("add_special_tokens", "must be true or false");
  BATON_ASSIGN_OR_RETURN(
      const std::vector<int32_t> ids,
      parts_.reader.Tokenize(model.get<std::string>(), router::TextPrompt{.text = prompt->get<std::string>(),
                                                                          .add_special_tokens = adds.get<bool>()}));
  return json({{"count", ids.size()}, {"max_model_len", parts_.model.config.context_length}, {"tokens", ids}}).dump();
}

absl::StatusOr<std::string> OpenAiService::Detokenize(const std::string& body) const {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, TokensOf(object));
  const auto model = object.value("model", json(""));
  if (!model.is_string()) return router::FieldViolation("model", "must be a string");
  BATON_ASSIGN_OR_RETURN(const std::string text,
                         parts_.reader.Detokenize(model.get<std::string>(), ids, /*skip_special_tokens=*/false));
  return absl::StrCat(R"({"prompt":)", JsonString(text), "}");
}

std::string OpenAiService::Models() const {
  return absl::StrCat(R"({"object":"list","data":[{"id":)", JsonString(parts_.model.name),
                      R"(,"object":"model","created":)", started_unix_s_, R"(,"owned_by":"baton","max_model_len":)",
                      parts_.model.config.context_length, "}]}");
}

}  // namespace baton::gateway
