#include "cli/generation_client.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_cache.h"

namespace baton::cli {

absl::Status ExplainRpcError(const grpc::Status& status, const std::string& target) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kUnavailable) {
    return absl::UnavailableError(absl::StrCat("router ", target, ": ", status.error_message(),
                                               "; is `baton serve` running there? --target HOST:PORT names another"));
  }
  return {code, absl::StrCat(absl::StatusCodeToString(code), ": ", status.error_message())};
}

GenerationClient::GenerationClient(const std::string& target)
    : target_(target),
      stub_(v1::GenerationService::NewStub(
          grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), rpc::ClientChannelArguments()))) {}

absl::StatusOr<Generation> GenerationClient::Generate(const v1::GenerateRequest& request, int64_t timeout_ms,
                                                      const std::function<void(const v1::Output&)>& on_output) {
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
    on_output(response.output());
  }
  if (const grpc::Status status = reader->Finish(); !status.ok()) return ExplainRpcError(status, target_);
  return generation;
}

}  // namespace baton::cli
