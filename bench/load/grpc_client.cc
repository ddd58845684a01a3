#include "bench/load/grpc_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/rpc/client_error.h"

namespace baton::bench {
namespace {

constexpr std::chrono::seconds kListTimeout{10};

}  // namespace

class GrpcClient::OpenCall {
 public:
  OpenCall(GrpcClient& client, grpc::ClientContext& context) : client_(client), context_(context) {
    absl::MutexLock lock(&client_.mutex_);
    client_.calls_.insert(&context_);
    // Takes effect when the call starts.
    if (client_.is_cancelled_) context_.TryCancel();
  }
  ~OpenCall() {
    absl::MutexLock lock(&client_.mutex_);
    client_.calls_.erase(&context_);
  }
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

 private:
  GrpcClient& client_;
  grpc::ClientContext& context_;
};

GrpcClient::GrpcClient(const GrpcClientOptions& options)
    : options_(options),
      stub_(v1::GenerationService::NewStub(options.channel)),
      admin_(v1::AdminService::NewStub(options.channel)) {}

absl::StatusOr<v1::Model> GrpcClient::FindModel() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kListTimeout);
  v1::ListModelsResponse response;
  if (const grpc::Status status = stub_->ListModels(&context, {}, &response); !status.ok()) {
    return rpc::ExplainRouterError(context, status, options_.target);
  }
  for (const v1::Model& model : response.models()) {
    if (options_.model.empty() || options_.model == model.name()) return model;
  }
  return absl::NotFoundError(absl::StrCat("router ", options_.target, " does not serve ",
                                          options_.model.empty() ? "any model yet" : options_.model));
}

std::optional<ClusterShape> GrpcClient::FindCluster(const std::string& model) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kListTimeout);
  v1::GetStatusResponse response;
  if (!admin_->GetStatus(&context, {}, &response).ok()) return std::nullopt;
  ClusterShape shape;
  for (const v1::WorkerStatus& worker : response.workers()) {
    const bool serves = worker.model() == model && worker.state() == "serving" && worker.no_partner().empty();
    if (!serves) continue;
    if (worker.role() == "prefill") ++shape.prefill;
    if (worker.role() == "decode") ++shape.decode;
    if (worker.role() == "mixed") ++shape.mixed;
  }
  if (shape.prefill + shape.decode + shape.mixed == 0) return std::nullopt;
  return shape;
}

void GrpcClient::CancelAll() {
  absl::MutexLock lock(&mutex_);
  is_cancelled_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
}

absl::StatusOr<int> GrpcClient::Generate(const LoadRequest& request, const std::function<void()>& on_output) {
  v1::GenerateRequest message;
  message.set_model(options_.model);
  message.mutable_token_ids()->mutable_ids()->Add(request.prompt.begin(), request.prompt.end());
  message.mutable_sampling()->set_max_tokens(request.output_tokens);
  if (options_.grammar.source_case() != v1::Grammar::SOURCE_NOT_SET) {
    *message.mutable_sampling()->mutable_grammar() = options_.grammar;
  } else {
    message.mutable_sampling()->set_ignore_eos(true);
  }
  grpc::ClientContext context;
  if (options_.timeout_ms > 0) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options_.timeout_ms));
  }
  const OpenCall open(*this, context);
  const auto reader = stub_->Generate(&context, message);
  v1::GenerateResponse response;
  int made = 0;
  while (reader->Read(&response)) {
    if (response.has_finished()) made = response.finished().usage().output_tokens();
    // The router merges what this client did not take at once.
    for (int i = 0; i < response.output().tokens_size(); ++i) on_output();
  }
  if (const grpc::Status status = reader->Finish(); !status.ok())
    return rpc::ExplainRouterError(context, status, options_.target);
  return made;
}

}  // namespace baton::bench
