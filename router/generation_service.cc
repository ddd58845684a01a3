#include "router/generation_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "router/generation_listener.h"
#include "router/generation_wire.h"

namespace baton::router {
namespace {

class GenerateForm final : public AnswerForm {
 public:
  // Only who asked for it gets a message that says so.
  std::optional<grpc::ByteBuffer> Begin(const GenerationAccepted& accepted) override {
    if (!accepted.is_kept) return std::nullopt;
    return Serialize(ToProto(accepted));
  }
  grpc::ByteBuffer Chunk(const GenerationDelta& delta) override { return Serialize(delta); }
  AnswerEnd End(absl::Span<const GenerationDelta>, const GenerationFinished& finished) override {
    return {.messages = {Serialize(ToProto(finished))}, .status = grpc::Status::OK};
  }
  AnswerEnd End(const absl::Status& status) override { return {.messages = {}, .status = ToClientStatus(status)}; }
};

std::unique_ptr<AnswerForm> MakeGenerateForm() { return std::make_unique<GenerateForm>(); }

}  // namespace

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
  requests_.AwaitNone();
}

void GenerationService::Await(StreamMethod method) {
  if (accepting_->stopping()) return;
  const auto request = [this, method](auto*... arguments) {
    method == StreamMethod::kGenerate ? RequestGenerate(arguments...) : RequestResume(arguments...);
  };
  StreamingCall::Await(request, accepting_->queue(), requests_.events(), requests_.unread(), &MakeGenerateForm,
                       [this, method](SingleCall& call, const std::shared_ptr<RpcAnswer>& answer) {
                         Await(method);
                         Queue(method, call, answer);
                       });
}

void GenerationService::Queue(StreamMethod method, SingleCall& call, const std::shared_ptr<RpcAnswer>& answer) {
  requests_.Queue(call.context(), answer, call.TakeMessage(),
                  [this, method](RpcRequests::Incoming incoming, grpc::ByteBuffer& bytes) {
                    method == StreamMethod::kGenerate ? BeginGenerate(std::move(incoming), bytes)
                                                      : BeginResume(std::move(incoming), bytes);
                  });
}

void GenerationService::BeginGenerate(RpcRequests::Incoming incoming, grpc::ByteBuffer& bytes) {
  v1::GenerateRequest proto;
  if (!ParseMessage(bytes, &proto)) return WriteFailed(Unparsable("GenerateRequest"), *incoming.request);
  requests_.Generate(std::move(incoming), FromProto(std::move(proto)));
}

void GenerationService::BeginResume(RpcRequests::Incoming incoming, grpc::ByteBuffer& bytes) {
  v1::ResumeRequest proto;
  if (!ParseMessage(bytes, &proto)) return WriteFailed(Unparsable("ResumeRequest"), *incoming.request);
  absl::StatusOr<ResumeRequest> read = FromProto(proto);
  if (!read.ok()) return WriteFailed(read.status(), *incoming.request);
  read->id = incoming.id;
  read->authenticated_tenant = std::move(incoming.tenant);
  requests_.generator().Resume(*std::move(read), incoming.request);
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* message, grpc::ByteBuffer* response) {
  const auto answer = [this](v1::TokenizeRequest& request) -> absl::StatusOr<v1::TokenizeResponse> {
    const RequestReader& reader = requests_.generator().reader();
    const absl::StatusOr<std::vector<int32_t>> ids =
        request.has_chat() ? reader.Tokenize(request.model(), FromProto(std::move(*request.mutable_chat())))
                           : reader.Tokenize(request.model(), TakeText(request));
    if (!ids.ok()) return ids.status();
    v1::TokenizeResponse result;
    *result.mutable_token_ids() = {ids->begin(), ids->end()};
    return result;
  };
  return requests_.QueueUnary<v1::TokenizeRequest>(*context, message, response, answer);
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* message, grpc::ByteBuffer* response) {
  const auto answer = [this](v1::DetokenizeRequest& request) -> absl::StatusOr<v1::DetokenizeResponse> {
    const RequestReader& reader = requests_.generator().reader();
    v1::DetokenizeResponse result;
    BATON_ASSIGN_OR_RETURN(*result.mutable_text(),
                           reader.Detokenize(request.model(), request.token_ids(), request.skip_special_tokens()));
    if (!request.return_tokens()) return result;
    BATON_ASSIGN_OR_RETURN(std::vector<std::string> tokens, reader.TokenTexts(request.model(), request.token_ids()));
    for (std::string& token : tokens) result.add_tokens(std::move(token));
    return result;
  };
  return requests_.QueueUnary<v1::DetokenizeRequest>(*context, message, response, answer);
}

grpc::ServerUnaryReactor* GenerationService::ListModels(grpc::CallbackServerContext* context,
                                                        const v1::ListModelsRequest*,
                                                        v1::ListModelsResponse* response) {
  v1::Model* model = response->add_models();
  model->set_name(requests_.model().name);
  model->set_context_length(requests_.model().config.context_length);
  model->set_vocab_size(requests_.model().config.vocab_size);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace baton::router
