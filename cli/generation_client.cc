#include "cli/generation_client.h"

#include <chrono>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/limits.h"
#include "common/rpc/client_error.h"
#include "common/status.h"

namespace baton::cli {

GenerationClient::GenerationClient(std::string target, const std::shared_ptr<grpc::Channel>& channel)
    : target_(std::move(target)), channel_(channel), stub_(v1::GenerationService::NewStub(channel)) {}

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

struct GenerationClient::Progress {
  Generation generation;
  // Empty until the router has said that it keeps the job.
  std::string job_id;
  absl::Time last_message = absl::Now();
};

bool GenerationClient::Read(const v1::GenerateRequest& request, const std::function<bool(const v1::Output&)>& on_output,
                            grpc::ClientContext& context, Progress& progress, grpc::Status& status) {
  Generation& generation = progress.generation;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  if (progress.job_id.empty()) {
    reader = stub_->Generate(&context, request);
  } else {
    v1::ResumeRequest resume;
    resume.set_job_id(progress.job_id);
    // A job that is kept has one choice.
    resume.set_next_index(static_cast<int32_t>(generation.choices.front().tokens.size()));
    resume.set_text_bytes(static_cast<int64_t>(generation.choices.front().text.size()));
    reader = stub_->Resume(&context, resume);
  }
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    progress.last_message = absl::Now();
    if (response.has_accepted()) progress.job_id = response.accepted().job_id();
    if (response.has_finished()) generation.finished = response.finished();
    if (!response.has_output()) continue;
    const v1::Output& output = response.output();
    const auto index = static_cast<size_t>(output.choice());
    if (index >= generation.choices.size()) {
      context.TryCancel();
      reader->Finish();
      status = grpc::Status(grpc::INTERNAL, absl::StrCat("the router sent choice ", output.choice()));
      return false;
    }
    GeneratedChoice& choice = generation.choices[index];
    choice.text += output.text();
    if (output.has_prompt()) choice.prompt = output.prompt();
    choice.reason = output.finish_reason();
    for (const v1::OutputToken& token : output.tokens()) choice.tokens.push_back(token);
    if (!on_output(output)) {
      context.TryCancel();
      reader->Finish();
      return true;
    }
  }
  status = reader->Finish();
  if (generation.choices.size() == 1) generation.choices.front().reason = generation.finished.reason();
  return status.ok();
}

absl::StatusOr<Generation> GenerationClient::Generate(const v1::GenerateRequest& request, const CallOptions& options,
                                                      const std::function<bool(const v1::Output&)>& on_output) {
  const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(options.timeout_ms);
  Progress progress;
  progress.generation.choices.resize(request.has_choices() ? static_cast<size_t>(request.choices()) : 1);
  while (true) {
    grpc::ClientContext context;
    if (options.timeout_ms > 0) context.set_deadline(deadline);
    if (options.canceller != nullptr) options.canceller->SetCall(&context);
    const auto unset = absl::MakeCleanup([&options] {
      if (options.canceller != nullptr) options.canceller->SetCall(nullptr);
    });
    grpc::Status status;
    if (Read(request, on_output, context, progress, status)) return std::move(progress.generation);
    if (status.error_code() == grpc::DEADLINE_EXCEEDED && options.timeout_ms > 0) {
      return absl::DeadlineExceededError(
          absl::StrCat("the answer did not end within ", options.timeout_ms, " ms: --timeout-ms allows more"));
    }
    const bool may_come_back = status.error_code() == grpc::UNAVAILABLE && !progress.job_id.empty() &&
                               absl::Now() - progress.last_message < absl::Milliseconds(kMaxResumeMs);
    if (!may_come_back) return rpc::ExplainRouterError(context, status, target_);
    absl::SleepFor(absl::Milliseconds(kResumePauseMs));
    // gRPC looks at a connection that comes up only while somebody waits for it, and otherwise every 5 s.
    channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::milliseconds(kResumeConnectMs));
  }
}

template <typename Request, typename Response>
absl::StatusOr<Response> GenerationClient::CallOnce(
    grpc::Status (v1::GenerationService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    const Request& request, const CallOptions& options) {
  grpc::ClientContext context;
  if (options.timeout_ms > 0) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options.timeout_ms));
  }
  if (options.canceller != nullptr) options.canceller->SetCall(&context);
  Response response;
  const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
  if (options.canceller != nullptr) options.canceller->SetCall(nullptr);
  if (!status.ok()) return rpc::ExplainRouterError(context, status, target_);
  return response;
}

absl::StatusOr<int32_t> GenerationClient::ContextLength(const std::string& model, const CallOptions& options) {
  BATON_ASSIGN_OR_RETURN(const v1::ListModelsResponse models,
                         CallOnce(&v1::GenerationService::Stub::ListModels, v1::ListModelsRequest(), options));
  for (const v1::Model& served : models.models()) {
    if (model.empty() || served.name() == model) return served.context_length();
  }
  return absl::NotFoundError(absl::StrCat("router ", target_, " does not serve ", model));
}

absl::StatusOr<std::map<int32_t, std::string>> GenerationClient::TokenTexts(const std::string& model,
                                                                            const std::set<int32_t>& ids,
                                                                            const CallOptions& options) {
  std::map<int32_t, std::string> texts;
  for (auto next = ids.begin(); next != ids.end();) {
    v1::DetokenizeRequest request;
    request.set_model(model);
    request.set_return_tokens(true);
    while (next != ids.end() && request.token_ids_size() < static_cast<int>(kMaxDetokenizedTokens)) {
      request.add_token_ids(*next++);
    }
    BATON_ASSIGN_OR_RETURN(const v1::DetokenizeResponse response,
                           CallOnce(&v1::GenerationService::Stub::Detokenize, request, options));
    if (response.tokens_size() != request.token_ids_size()) return std::map<int32_t, std::string>();
    for (int i = 0; i < response.tokens_size(); ++i) texts[request.token_ids(i)] = response.tokens(i);
  }
  return texts;
}

absl::StatusOr<int64_t> GenerationClient::CountTokens(const std::string& model, const v1::ChatPrompt& chat,
                                                      const CallOptions& options) {
  v1::TokenizeRequest request;
  request.set_model(model);
  *request.mutable_chat() = chat;
  BATON_ASSIGN_OR_RETURN(const v1::TokenizeResponse response,
                         CallOnce(&v1::GenerationService::Stub::Tokenize, request, options));
  return response.token_ids_size();
}

}  // namespace baton::cli
