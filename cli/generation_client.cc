#include "cli/generation_client.h"

#include <chrono>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/client_error.h"

namespace baton::cli {

GenerationClient::GenerationClient(std::string target, const std::shared_ptr<grpc::Channel>& channel)
    : target_(std::move(target)), stub_(v1::GenerationService::NewStub(channel)) {}

bool CallCanceller::Cancel() {
  absl::MutexLock lock(&mutex_);
  if (call_ == nullptr) return false;
  call_->TryCancel();
  return true;
}

void CallCanceller::SetCall(grpc::ClientContext* call) {
  absl::MutexLock lock(&mutex_);
  call_ = call;
}

absl::StatusOr<Generation> GenerationClient::Generate(const v1::GenerateRequest& request, const CallOptions& options,
                                                      const std::function<bool(const v1::Output&)>& on_output) {
  grpc::ClientContext context;
  if (options.timeout_ms > 0) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options.timeout_ms));
  }
  if (options.canceller != nullptr) options.canceller->SetCall(&context);
  const auto unset = absl::MakeCleanup([&options] {
    if (options.canceller != nullptr) options.canceller->SetCall(nullptr);
  });
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
  const grpc::Status status = reader->Finish();
  if (status.error_code() == grpc::DEADLINE_EXCEEDED && options.timeout_ms > 0) {
    return absl::DeadlineExceededError(
        absl::StrCat("the answer did not end within ", options.timeout_ms, " ms: --timeout-ms allows more"));
  }
  if (!status.ok()) return rpc::ExplainRouterError(context, status, target_);
  return generation;
}

}  // namespace baton::cli
