#include "router/generation_service.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/test_delay.h"
#include "router/error_details.h"
#include "router/generation_listener.h"
#include "router/generation_wire.h"
#include "router/observed_request.h"
#include "router/refusal_reason.h"

namespace baton::router {
namespace {

// A stream that nobody reads is cut late by at most this part of its time.
constexpr int kSweepsPerTimeout = 8;
// The calls that gRPC hands over without having to wait for the accepting thread.
constexpr int kAwaitedCalls = 64;

TimeNs ReadDeadline(const grpc::ServerContextBase& context, TimeNs now) {
  const auto deadline = context.deadline();
  const auto wall_now = std::chrono::system_clock::now();
  // gRPC says "none" with a time point far away.
  if (deadline > wall_now + std::chrono::hours(24 * 7)) return kNever;
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - wall_now).count();
  return now + std::max<int64_t>(left, 0);
}

std::vector<std::string_view> MetadataOf(const grpc::ServerContextBase& context, const char* key) {
  std::vector<std::string_view> values;
  const auto [begin, end] = context.client_metadata().equal_range(key);
  for (auto it = begin; it != end; ++it) values.emplace_back(it->second.data(), it->second.size());
  return values;
}

telemetry::TraceContext ReadTrace(const grpc::ServerContextBase& context) {
  return telemetry::ReadTraceContext({.traceparent = MetadataOf(context, telemetry::kTraceparentHeader),
                                      .tracestate = MetadataOf(context, telemetry::kTracestateHeader),
                                      .baggage = MetadataOf(context, telemetry::kBaggageHeader)});
}

absl::Status Unparsable(const std::string& name) {
  return absl::InvalidArgumentError(absl::StrCat("this is no ", name, ": is every string in it UTF-8?"));
}

// Takes the bytes out of gRPC's own object, which otherwise holds them until the call ends. gRPC no longer reads it.
grpc::ByteBuffer TakeMessage(const grpc::ByteBuffer* message) {
  grpc::ByteBuffer bytes;
  bytes.Swap(const_cast<grpc::ByteBuffer*>(message));
  return bytes;
}

// Empties `bytes`.
template <typename Message>
bool Parse(grpc::ByteBuffer& bytes, Message* message) {
  return grpc::SerializationTraits<Message>::Deserialize(&bytes, message).ok();
}

// A unary call whose request waits for its turn. Exactly one of the task and a Drop that succeeds finishes it.
class QueuedUnaryCall final : public grpc::ServerUnaryReactor {
 public:
  QueuedUnaryCall(ClientWork& work, const Id128& id) : work_(work), id_(id) {}

  void OnCancel() override {
    if (work_.Drop(id_)) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 private:
  ClientWork& work_;
  const Id128 id_;
};

grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToClientStatus(status));
  return reactor;
}

}  // namespace

GenerationService::GenerationService(const GenerationServiceParts& parts, const UnreadOutputLimits& unread)
    : parts_(parts), unread_(unread, parts.clock) {
  const absl::Duration interval = absl::Milliseconds(unread.ended_ms) / kSweepsPerTimeout;
  sweeper_ = std::thread([this, interval] {
    while (!stopping_.WaitForNotificationWithTimeout(interval)) unread_.Sweep();
  });
}

GenerationService::~GenerationService() {
  stopping_.Notify();
  sweeper_.join();
}

void GenerationService::Prepare(grpc::ServerBuilder& builder) { accepting_.emplace(builder.AddCompletionQueue()); }

void GenerationService::Accept() {
  for (int i = 0; i < kAwaitedCalls; ++i) {
    Await(StreamMethod::kGenerate);
    Await(StreamMethod::kResume);
  }
  accepting_->Start();
}

void GenerationService::Stop() {
  accepting_->Stop();
  unread_.AwaitNone();
}

void GenerationService::Await(StreamMethod method) {
  if (accepting_->stopping()) return;
  GenerateStream::Await(*this, method, accepting_->queue(), parts_.events, unread_,
                        [this, method](const std::shared_ptr<GenerateStream>& stream) {
                          Await(method);
                          Queue(method, stream);
                        });
}

void GenerationService::Queue(StreamMethod method, const std::shared_ptr<GenerateStream>& stream) {
  const JobId id = parts_.random.NextId();
  const auto request = std::make_shared<ObservedRequest>(parts_.observers, stream, id,
                                                         BeginTrace(parts_.tracer, ReadTrace(stream->context())));
  const TimeNs deadline = ReadDeadline(stream->context(), request->arrived());
  absl::StatusOr<std::string> tenant =
      AuthenticatedTenant(parts_.api_keys, MetadataOf(stream->context(), "authorization"));
  stream->SetOnDone([request](const absl::Status& delivery) { request->OnDelivered(delivery); });
  // The request lives until OnDone.
  stream->SetOnCancel([this, id, cancelled = request.get()] {
    if (!parts_.work.Drop(id)) return parts_.generator.Cancel(id);
    WriteFailed(absl::CancelledError("the client cancelled or is gone"), *cancelled);
  });
  if (!tenant.ok()) return WriteFailed(tenant.status(), *request);
  WorkTask task = {.id = id, .bytes = stream->message_bytes(), .deadline = deadline};
  task.run = [this, method,
              incoming = Incoming{.id = id, .deadline = deadline, .tenant = *std::move(tenant), .request = request},
              bytes = stream->TakeMessage()](const absl::Status& status) mutable {
    if (!status.ok()) return WriteFailed(status, *incoming.request);
    TestDelay("read");
    method == StreamMethod::kGenerate ? BeginGenerate(std::move(incoming), bytes)
                                      : BeginResume(std::move(incoming), bytes);
  };
  if (!parts_.work.Post(std::move(task))) WriteFailed(ClientWorkFull(), *request);
}

void GenerationService::BeginGenerate(Incoming incoming, grpc::ByteBuffer& bytes) {
  v1::GenerateRequest proto;
  if (!Parse(bytes, &proto)) return WriteFailed(Unparsable("GenerateRequest"), *incoming.request);
  GenerationRequest read = FromProto(std::move(proto));
  read.id = incoming.id;
  read.authenticated_tenant = std::move(incoming.tenant);
  read.trace = HeadersOf(incoming.request->trace());
  read.arrived = incoming.request->arrived();
  read.deadline = incoming.deadline;
  incoming.request->OnRead(read);
  parts_.generator.Generate(std::move(read), incoming.request);
}

void GenerationService::BeginResume(Incoming incoming, grpc::ByteBuffer& bytes) {
  v1::ResumeRequest proto;
  if (!Parse(bytes, &proto)) return WriteFailed(Unparsable("ResumeRequest"), *incoming.request);
  absl::StatusOr<ResumeRequest> read = FromProto(proto);
  if (!read.ok()) return WriteFailed(read.status(), *incoming.request);
  read->id = incoming.id;
  read->authenticated_tenant = std::move(incoming.tenant);
  parts_.generator.Resume(*std::move(read), incoming.request);
}

template <typename Request, typename Answer>
grpc::ServerUnaryReactor* GenerationService::QueueUnary(const grpc::CallbackServerContext& context,
                                                        const grpc::ByteBuffer* message, grpc::ByteBuffer* response,
                                                        Answer answer) {
  const Id128 id = parts_.random.NextId();
  auto* const call = new QueuedUnaryCall(parts_.work, id);
  WorkTask task = {.id = id, .bytes = message->Length(), .deadline = ReadDeadline(context, parts_.clock.Now())};
  task.run = [call, response, answer, bytes = TakeMessage(message)](const absl::Status& status) mutable {
    if (!status.ok()) return call->Finish(ToClientStatus(status));
    Request request;
    if (!Parse(bytes, &request)) return call->Finish(ToClientStatus(Unparsable(Request::descriptor()->name())));
    const auto answered = answer(request);
    if (answered.ok()) *response = Serialize(*answered);
    call->Finish(ToClientStatus(answered.status()));
  };
  if (!parts_.work.Post(std::move(task))) call->Finish(ToClientStatus(WithRetryAfter(ClientWorkFull())));
  return call;
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* message, grpc::ByteBuffer* response) {
  const auto answer = [this](v1::TokenizeRequest& request) -> absl::StatusOr<v1::TokenizeResponse> {
    const RequestReader& reader = parts_.generator.reader();
    const absl::StatusOr<std::vector<int32_t>> ids =
        request.has_chat() ? reader.Tokenize(request.model(), FromProto(std::move(*request.mutable_chat())))
                           : reader.Tokenize(request.model(), TakeText(request));
    if (!ids.ok()) return ids.status();
    v1::TokenizeResponse result;
    *result.mutable_token_ids() = {ids->begin(), ids->end()};
    return result;
  };
  return QueueUnary<v1::TokenizeRequest>(*context, message, response, answer);
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* message, grpc::ByteBuffer* response) {
  const auto answer = [this](v1::DetokenizeRequest& request) -> absl::StatusOr<v1::DetokenizeResponse> {
    BATON_ASSIGN_OR_RETURN(std::string text, parts_.generator.reader().Detokenize(request.model(), request.token_ids(),
                                                                                  request.skip_special_tokens()));
    v1::DetokenizeResponse result;
    result.set_text(std::move(text));
    return result;
  };
  return QueueUnary<v1::DetokenizeRequest>(*context, message, response, answer);
}

grpc::ServerUnaryReactor* GenerationService::ListModels(grpc::CallbackServerContext* context,
                                                        const v1::ListModelsRequest*,
                                                        v1::ListModelsResponse* response) {
  v1::Model* model = response->add_models();
  model->set_name(parts_.model.name);
  model->set_context_length(parts_.model.config.context_length);
  model->set_vocab_size(parts_.model.config.vocab_size);
  return Finish(context, absl::OkStatus());
}

}  // namespace baton::router
