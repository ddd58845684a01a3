#include "router/generation_service.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "common/check.h"
#include "common/rpc/server_stream.h"
#include "router/generation_wire.h"

namespace baton::router {
namespace {

constexpr char kTraceparent[] = "traceparent";
// The version, trace id, parent id and flags are hex digits with dashes between them.
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

// A stream of serialized GenerateResponses.
using GenerateStream = rpc::ServerStream<grpc::ByteBuffer>;

grpc::ByteBuffer Serialize(const v1::GenerateResponse& response) {
  grpc::ByteBuffer bytes;
  bool own_buffer = false;
  const grpc::Status status = grpc::SerializationTraits<v1::GenerateResponse>::Serialize(response, &bytes, &own_buffer);
  BATON_CHECK(status.ok()) << status.error_message();
  return bytes;
}

// Writes the events of one call as messages to its stream, which keeps itself alive until gRPC is done with it.
class StreamSink final : public GenerationSink {
 public:
  explicit StreamSink(std::shared_ptr<GenerateStream> stream) : stream_(std::move(stream)) {}

  bool Write(GenerationEvent event) override {
    return std::visit([this](const auto& e) { return Take(e); }, event);
  }
  bool cancelled() const override { return stream_->cancelled(); }

 private:
  // The API has no message that says so.
  bool Take(const GenerationAccepted&) { return true; }
  bool Take(const GenerationDelta& delta) { return stream_->Push(Serialize(ToProto(delta))); }
  bool Take(const GenerationFinished& finished) {
    if (!stream_->Push(Serialize(ToProto(finished)))) return false;
    stream_->Finish(grpc::Status::OK);
    return true;
  }
  bool Take(const GenerationFailed& failed) {
    stream_->Finish(ToClientStatus(failed.status));
    return true;
  }

  const std::shared_ptr<GenerateStream> stream_;
};

grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToClientStatus(status));
  return reactor;
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(grpc::CallbackServerContext* context,
                                                                        const grpc::ByteBuffer* message) {
  const TimeNs arrived = clock_.Now();
  const JobId id = random_.NextId();
  auto stream = GenerateStream::Create([this, id] { generator_.Cancel(id); });
  v1::GenerateRequest proto;
  grpc::ByteBuffer bytes = *message;
  if (!grpc::SerializationTraits<v1::GenerateRequest>::Deserialize(&bytes, &proto).ok()) {
    stream->Finish({grpc::StatusCode::INVALID_ARGUMENT, "this is no GenerateRequest: is every string in it UTF-8?"});
    return stream.get();
  }
  GenerationRequest request = FromProto(std::move(proto));
  request.id = id;
  request.trace_context = ReadTraceparent(*context);
  request.arrived = arrived;
  request.deadline = ReadDeadline(*context, arrived);
  generator_.Generate(std::move(request), std::make_shared<StreamSink>(stream));
  return stream.get();
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const v1::TokenizeRequest* request,
                                                      v1::TokenizeResponse* response) {
  const absl::StatusOr<std::vector<int32_t>> ids =
      request->has_chat() ? generator_.reader().Tokenize(request->model(), FromProto(v1::ChatPrompt(request->chat())))
                          : generator_.reader().Tokenize(request->model(), TextPrompt{request->text()});
  if (ids.ok()) *response->mutable_token_ids() = {ids->begin(), ids->end()};
  return Finish(context, ids.status());
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  const std::vector<int32_t> ids(request->token_ids().begin(), request->token_ids().end());
  absl::StatusOr<std::string> text =
      generator_.reader().Detokenize(request->model(), ids, request->skip_special_tokens());
  if (!text.ok()) return Finish(context, text.status());
  response->set_text(*std::move(text));
  return Finish(context, absl::OkStatus());
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
