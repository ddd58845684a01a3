#include "cli/generation_client.h"

#include <chrono>

#include "common/rpc/channel_cache.h"
#include "common/rpc/client_error.h"

namespace baton::cli {

GenerationClient::GenerationClient(const std::string& target)
    : target_(target),
      stub_(v1::GenerationService::NewStub(
          grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), rpc::ClientChannelArguments()))) {}

absl::StatusOr<Generation> GenerationClient::Generate(const v1::GenerateRequest& request, int64_t timeout_ms,
                                                      const std::function<bool(const v1::Output&)>& on_output) {
  grpc::ClientContext context;
  if (timeout_ms > 0) context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
  auto reader = stub_->Generate(&context, request);
  Generation generation;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_finished()) generation.finished = response.finished();
    if (!response.has_output()) continue;
    generation.text += response.output().text();
    for (const v1::OutputToken& token : response.output().tokens()) generation.tokens.push_back(token);
    if (!on_output(response.output())) {
      context.TryCancel();
      reader->Finish();
      return generation;
    }
  }
  if (const grpc::Status status = reader->Finish(); !status.ok())
    return rpc::ExplainRouterError(context, status, target_);
  return generation;
}

}  // namespace baton::cli
