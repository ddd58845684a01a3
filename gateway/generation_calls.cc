#include "gateway/generation_calls.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "common/status.h"
#include "common/test_delay.h"
#include "gateway/admission.h"
#include "gateway/answer_body.h"
#include "router/error_details.h"
#include "router/generation_listener.h"
#include "router/refusal_reason.h"
#include "telemetry/trace_context.h"

namespace baton::gateway {
namespace {

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
std::string RequestIdOf(const HttpRequest& request, const JobId& id) {
  const auto stated = request.HeaderValues("x-request-id");
  const bool is_name =
      stated.size() == 1 && !stated.front().empty() && stated.front().size() <= kMaxStatedRequestIdBytes &&
      std::all_of(stated.front().begin(), stated.front().end(), [](char c) { return c > ' ' && c <= '~'; });
  return is_name ? std::string(stated.front()) : id.ToHex();
}

}  // namespace

void GenerationCalls::Generate(const std::shared_ptr<HttpExchange>& exchange, const ApiForm& form, Reader read) {
  HttpRequest& asked = exchange->request();
  absl::StatusOr<std::string> tenant = router::AuthenticatedTenant(parts_.api_keys, ShownKeys(asked).values());
  if (!tenant.ok()) return exchange->Respond(form.make_error(tenant.status()));
  if (const absl::Status status = CheckContentType(asked); !status.ok()) {
    return exchange->Respond(form.make_error(status));
  }
  const JobId id = parts_.random.NextId();
  const auto answer = std::make_shared<AnswerBody>(exchange, unread_, form.make_error,
                                                   HttpHeaders{{form.request_id_header, RequestIdOf(asked, id)}});
  const auto request = std::make_shared<router::ObservedRequest>(parts_.observers, answer, id,
                                                                 router::BeginTrace(parts_.tracer, ReadTrace(asked)));
  exchange->SetOnDone([this, id, answer, request](const absl::Status& delivery) {
    answer->OnExchangeDone([request = request.get(), delivery] { request->OnDelivered(delivery); });
    if (delivery.ok()) return;
    if (!parts_.work.Drop(id)) return parts_.backend.Cancel(id);
    router::WriteFailed(absl::CancelledError("the client is gone"), *request);
  });
  WorkTask task = {.id = id, .bytes = asked.body.size()};
  task.run = [this, incoming = Incoming{.id = id,
                                        .tenant = *std::move(tenant),
                                        .body = std::move(asked.body),
                                        .read = std::move(read),
                                        .answer = answer,
                                        .request = request}](const absl::Status& status) mutable {
    if (!status.ok()) return router::WriteFailed(status, *incoming.request);
    TestDelay("read");
    Begin(std::move(incoming));
  };
  if (!parts_.work.Post(std::move(task))) router::WriteFailed(router::ClientWorkFull(), *request);
}

void GenerationCalls::Begin(Incoming incoming) {
  router::ObservedRequest& request = *incoming.request;
  absl::StatusOr<ReadCall> read = incoming.read(incoming.body, incoming.id);
  if (!read.ok()) return router::WriteFailed(read.status(), request);
  incoming.answer->SetWriter(std::move(read->writer), read->is_stream);
  router::GenerationRequest& generation = read->generation;
  generation.id = incoming.id;
  generation.authenticated_tenant = std::move(incoming.tenant);
  generation.trace = router::HeadersOf(request.trace());
  generation.arrived = request.arrived();
  request.OnRead(generation);
  parts_.backend.Generate(std::move(generation), incoming.request);
}

void GenerationCalls::Work(const std::shared_ptr<HttpExchange>& exchange, const ApiForm& form,
                           std::function<absl::StatusOr<HttpResponse>(const std::string& body)> answer) {
  const ErrorMaker make_error = form.make_error;
  WorkTask task = {.id = parts_.random.NextId(), .bytes = exchange->request().body.size()};
  task.run = [exchange, make_error, answer = std::move(answer),
              body = std::move(exchange->request().body)](const absl::Status& status) {
    absl::StatusOr<HttpResponse> answered = status.ok() ? answer(body) : status;
    exchange->Respond(answered.ok() ? *std::move(answered) : make_error(answered.status()));
  };
  if (!parts_.work.Post(std::move(task)))
    exchange->Respond(make_error(router::WithRetryAfter(router::ClientWorkFull())));
}

void GenerationCalls::Compute(const std::shared_ptr<HttpExchange>& exchange, const ApiForm& form,
                              std::function<absl::StatusOr<std::string>(const std::string& body)> answer) {
  if (const absl::Status status = CheckContentType(exchange->request()); !status.ok()) {
    return exchange->Respond(form.make_error(status));
  }
  Work(exchange, form, [answer = std::move(answer)](const std::string& body) -> absl::StatusOr<HttpResponse> {
    BATON_ASSIGN_OR_RETURN(std::string answered, answer(body));
    return HttpResponse{.body = std::move(answered)};
  });
}

}  // namespace baton::gateway
