#include "router/generation_service.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "router/client_stream_listener.h"
#include "router/error_details.h"
#include "router/generation_wire.h"

namespace baton::router {
namespace {

constexpr char kTraceparent[] = "traceparent";
// Version, trace id, parent id and flags in hex, with dashes.
constexpr size_t kTraceparentBytes = 55;

TimeNs ReadDeadline(const grpc::CallbackServerContext& context, TimeNs now) {
  const auto deadline = context.deadline();
  const auto wall_now = std::chrono::system_clock::now();
  // gRPC says "none" with a time point far away.
  if (deadline > wall_now + std::chrono::hours(24 * 7)) return kNever;
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - wall_now).count();
  return now + std::max<int64_t>(left, 0);
}

std::string ReadTraceparent(const grpc::CallbackServerContext& context) {
  const auto it = context.client_metadata().find(kTraceparent);
  if (it == context.client_metadata().end() || it->second.size() != kTraceparentBytes) return {};
  return std::string(it->second.data(), it->second.size());
}

GenerateStream* Refuse(const absl::Status& status) {
  auto stream = GenerateStream::Create([] {});
  stream->Finish(ToClientStatus(status));
  return stream.get();
}

grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToClientStatus(status));
  return reactor;
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(grpc::CallbackServerContext* context,
                                                                        const grpc::ByteBuffer* message) {
  const TimeNs arrived = clock_.Now();
  v1::GenerateRequest proto;
  grpc::ByteBuffer bytes = *message;
  if (!grpc::SerializationTraits<v1::GenerateRequest>::Deserialize(&bytes, &proto).ok()) {
    return Refuse(absl::InvalidArgumentError("this is no GenerateRequest: is every string in it UTF-8?"));
  }
  GenerationRequest request = FromProto(std::move(proto));
  request.id = random_.NextId();
  request.trace_context = ReadTraceparent(*context);
  request.arrived = arrived;
  request.deadline = ReadDeadline(*context, arrived);
  absl::StatusOr<PreparedJob> prepared = reader_.Read(std::move(request));
  if (!prepared.ok()) return Refuse(prepared.status());

  auto job = std::make_shared<const JobSpec>(std::move(prepared->job));
  auto stream = GenerateStream::Create([this, key = job->key()] {
    loop_.PostWhenRoom([key](Dispatcher& dispatcher) {
      dispatcher.Cancel(key, absl::CancelledError("the client cancelled or is gone"));
    });
  });
  auto shared_output = std::make_shared<JobOutput>(std::move(prepared->output));
  const bool posted = loop_.Post([this, job, stream, shared_output, arrived](Dispatcher& dispatcher) {
    auto listener = std::make_shared<ClientStreamListener>(ClientCall{.stream = stream, .job = job, .arrived = arrived},
                                                           std::move(*shared_output), clock_, dispatcher);
    const absl::Status status = loop_.Submit(job, std::move(listener));
    if (!status.ok()) stream->Finish(ToClientStatus(WithRetryAfter(status)));
  });
  if (!posted) {
    stream->Finish(ToClientStatus(WithRetryAfter(absl::ResourceExhaustedError("the router is overloaded: try again"))));
  }
  return stream.get();
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const v1::TokenizeRequest* request,
                                                      v1::TokenizeResponse* response) {
  const absl::StatusOr<std::vector<int32_t>> ids =
      request->has_chat() ? reader_.Tokenize(request->model(), FromProto(v1::ChatPrompt(request->chat())))
                          : reader_.Tokenize(request->model(), TextPrompt{request->text()});
  if (ids.ok()) *response->mutable_token_ids() = {ids->begin(), ids->end()};
  return Finish(context, ids.status());
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  const std::vector<int32_t> ids(request->token_ids().begin(), request->token_ids().end());
  absl::StatusOr<std::string> text = reader_.Detokenize(request->model(), ids, request->skip_special_tokens());
  if (text.ok()) response->set_text(*std::move(text));
  return Finish(context, text.status());
}

grpc::ServerUnaryReactor* GenerationService::ListModels(grpc::CallbackServerContext* context,
                                                        const v1::ListModelsRequest*,
                                                        v1::ListModelsResponse* response) {
  v1::Model* model = response->add_models();
  model->set_name(model_.name);
  model->set_context_length(model_.config.context_length);
  model->set_vocab_size(model_.config.vocab_size);
  return Finish(context, absl::OkStatus());
}

}  // namespace baton::router
