#include "gateway/kserve_service.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/clock.h"
#include "gateway/kserve_answer.h"
#include "gateway/kserve_model.h"
#include "router/error_details.h"
#include "router/generation_listener.h"
#include "router/generation_wire.h"
#include "router/single_call.h"

namespace baton::gateway {
namespace {

constexpr int64_t kNsPerUs = kNsPerMs / 1'000;

// The forms of a request that is still to be read.
std::unique_ptr<router::AnswerForm> MakeInferForm() {
  return std::make_unique<KserveForm>(KserveAnswer{.method = KserveMethod::kInfer});
}

std::unique_ptr<router::AnswerForm> MakeStreamInferForm() {
  return std::make_unique<KserveForm>(KserveAnswer{.method = KserveMethod::kStreamInfer});
}

grpc::ServerUnaryReactor* FinishCall(grpc::CallbackServerContext* context,
                                     const absl::Status& status = absl::OkStatus()) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(router::ToClientStatus(status));
  return reactor;
}

}  // namespace

KserveService::KserveService(router::RpcRequests& requests, std::function<bool()> is_serving)
    : requests_(requests),
      is_serving_(std::move(is_serving)),
      stream_parts_{.events = requests.events(),
                    .unread = requests.unread(),
                    .open = requests.open_calls(),
                    .make_form = &MakeStreamInferForm,
                    .on_request = [this](router::BidiCall& call, const std::shared_ptr<router::RpcAnswer>& answer,
                                         grpc::ByteBuffer message) {
                      Queue(KserveMethod::kStreamInfer, call.context(), answer, message);
                    }} {}

void KserveService::Prepare(grpc::ServerBuilder& builder) { accepting_.emplace(builder.AddCompletionQueue()); }

void KserveService::Accept() {
  for (int i = 0; i < router::kAwaitedCalls; ++i) {
    AwaitInfer();
    AwaitStreamInfer();
  }
  accepting_->Start();
}

void KserveService::Stop() {
  accepting_->Stop();
  requests_.open_calls().AwaitNone();
  requests_.AwaitNone();
}

void KserveService::AwaitInfer() {
  if (accepting_->stopping()) return;
  router::UnaryCall::Await([this](auto*... arguments) { RequestModelInfer(arguments...); }, accepting_->queue(),
                           requests_.events(), requests_.unread(), &MakeInferForm,
                           [this](router::SingleCall& call, const std::shared_ptr<router::RpcAnswer>& answer) {
                             AwaitInfer();
                             Queue(KserveMethod::kInfer, call.context(), answer, call.TakeMessage());
                           });
}

void KserveService::AwaitStreamInfer() {
  if (accepting_->stopping()) return;
  router::BidiCall::Await([this](auto*... arguments) { RequestModelStreamInfer(arguments...); }, accepting_->queue(),
                          stream_parts_, [this] { AwaitStreamInfer(); });
}

void KserveService::Queue(KserveMethod method, const grpc::ServerContext& context,
                          const std::shared_ptr<router::RpcAnswer>& answer, grpc::ByteBuffer message) {
  requests_.Queue(context, answer, message,
                  [this, method, answer](router::RpcRequests::Incoming incoming, grpc::ByteBuffer& bytes) {
                    Begin(method, *answer, std::move(incoming), bytes);
                  });
}

void KserveService::Begin(KserveMethod method, router::RpcAnswer& answer, router::RpcRequests::Incoming incoming,
                          grpc::ByteBuffer& bytes) const {
  inference::ModelInferRequest message;
  if (!router::ParseMessage(bytes, &message)) {
    return router::WriteFailed(router::Unparsable("ModelInferRequest"), *incoming.request);
  }
  KserveAnswer form = {.method = method, .model = requests_.model().name, .id = message.id()};
  // An answer of which nothing more is known can say whose error it is.
  const auto fail = [&](const absl::Status& status) {
    answer.SetForm(std::make_unique<KserveForm>(std::move(form)));
    router::WriteFailed(status, *incoming.request);
  };
  const absl::Status served = CheckKserveModel(requests_.model(), message.model_name(), message.model_version());
  if (!served.ok()) return fail(served);
  absl::StatusOr<KserveRequest> read = ReadKserveRequest(method, message);
  if (!read.ok()) return fail(read.status());
  form.is_stream = read->is_stream;
  form.wants_empty_final = read->wants_empty_final;
  form.has_logprobs = read->has_logprobs;
  form.choices = read->generation.choices;
  form.tokenizer = requests_.model().tokenizer.get();
  form.echo = std::move(read->echo);
  form.outputs = read->outputs;
  answer.SetForm(std::make_unique<KserveForm>(std::move(form)));
  if (read->timeout_us.has_value()) {
    read->generation.deadline = incoming.request->arrived() + *read->timeout_us * kNsPerUs;
  }
  requests_.Generate(std::move(incoming), std::move(read->generation));
}

grpc::ServerUnaryReactor* KserveService::ServerLive(grpc::CallbackServerContext* context,
                                                    const inference::ServerLiveRequest*,
                                                    inference::ServerLiveResponse* response) {
  response->set_live(true);
  return FinishCall(context);
}

grpc::ServerUnaryReactor* KserveService::ServerReady(grpc::CallbackServerContext* context,
                                                     const inference::ServerReadyRequest*,
                                                     inference::ServerReadyResponse* response) {
  response->set_ready(is_serving_());
  return FinishCall(context);
}

grpc::ServerUnaryReactor* KserveService::ModelReady(grpc::CallbackServerContext* context,
                                                    const inference::ModelReadyRequest* request,
                                                    inference::ModelReadyResponse* response) {
  response->set_ready(is_serving_() && CheckKserveModel(requests_.model(), request->name(), request->version()).ok());
  return FinishCall(context);
}

grpc::ServerUnaryReactor* KserveService::ServerMetadata(grpc::CallbackServerContext* context,
                                                        const inference::ServerMetadataRequest*,
                                                        inference::ServerMetadataResponse* response) {
  *response = KserveServerMetadata();
  return FinishCall(context);
}

grpc::ServerUnaryReactor* KserveService::ModelMetadata(grpc::CallbackServerContext* context,
                                                       const inference::ModelMetadataRequest* request,
                                                       inference::ModelMetadataResponse* response) {
  const absl::Status served = CheckKserveModel(requests_.model(), request->name(), request->version());
  if (served.ok()) *response = KserveModelMetadata(requests_.model().name);
  return FinishCall(context, served);
}

grpc::ServerUnaryReactor* KserveService::ModelConfig(grpc::CallbackServerContext* context,
                                                     const inference::ModelConfigRequest* request,
                                                     inference::ModelConfigResponse* response) {
  const absl::Status served = CheckKserveModel(requests_.model(), request->name(), request->version());
  if (served.ok()) *response = KserveModelConfig(requests_.model().name);
  return FinishCall(context, served);
}

grpc::ServerUnaryReactor* KserveService::RepositoryIndex(grpc::CallbackServerContext* context,
                                                         const inference::RepositoryIndexRequest* request,
                                                         inference::RepositoryIndexResponse* response) {
  if (!request->repository_name().empty()) {
    return FinishCall(context, router::FieldViolation("repository_name", "there is one repository, without a name"));
  }
  *response = KserveIndex(requests_.model().name, is_serving_(), request->ready());
  return FinishCall(context);
}

}  // namespace baton::gateway
