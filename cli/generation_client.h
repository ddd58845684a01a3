// A synchronous client of baton.v1, for the command line.
#ifndef BATON_CLI_GENERATION_CLIENT_H_
#define BATON_CLI_GENERATION_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/generation.grpc.pb.h"

namespace baton::cli {

struct GeneratedChoice {
  std::vector<v1::OutputToken> tokens;
  std::string text;
  // What was asked of it.
  v1::Prompt prompt;
  v1::FinishReason reason = v1::FINISH_REASON_UNSPECIFIED;
};

// Everything that one Generate call returned.
struct Generation {
  // By index, as many as the request asked for.
  std::vector<GeneratedChoice> choices;
  v1::Finished finished;
};

// Stops the call that was given it, from any thread. Thread-safe.
class CallCanceller {
 public:
  // False when no call is under way. The call ends with CANCELLED, unless it was about to end anyway.
  bool Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class GenerationClient;
  // Null: the call is over.
  void SetCall(grpc::ClientContext* call) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// A job that is kept goes on for so long without a client (kMaxUnfollowedMs).
inline constexpr int64_t kMaxResumeMs = 60'000;
// Between two tries: a pause, and the time in which the router may come up.
inline constexpr int64_t kResumePauseMs = 100;
inline constexpr int64_t kResumeConnectMs = 1'000;

struct CallOptions {
  // 0: none.
  int64_t timeout_ms = 0;
  // May be null; outlives the call.
  CallCanceller* canceller = nullptr;
};

class GenerationClient {
 public:
  // `channel` leads to the router at `target`, which errors name.
  GenerationClient(std::string target, const std::shared_ptr<grpc::Channel>& channel);

  // Calls `on_output` with each message as it arrives; when it returns false, the call ends with what has come so far.
  // Errors name a target that cannot be reached. Where the router keeps the job, a broken stream is resumed: for up to
  // kMaxResumeMs after the last message, the router may be gone.
  absl::StatusOr<Generation> Generate(const v1::GenerateRequest& request, const CallOptions& options,
                                      const std::function<bool(const v1::Output&)>& on_output);

  // The context of the model that the router serves. NOT_FOUND when it serves none of that name.
  absl::StatusOr<int32_t> ContextLength(const std::string& model, const CallOptions& options);
  // How each token is written; empty where the router, of a former version, does not say it. Bytes that are no UTF-8
  // are in it as they are.
  absl::StatusOr<std::map<int32_t, std::string>> TokenTexts(const std::string& model, const std::set<int32_t>& ids,
                                                            const CallOptions& options);
  // How many tokens the chat is.
  absl::StatusOr<int64_t> CountTokens(const std::string& model, const v1::ChatPrompt& chat, const CallOptions& options);

 private:
  // One call: Generate, or Resume once the job's id is known. True: the whole output has come, or nobody wants the
  // rest.
  struct Progress;
  bool Read(const v1::GenerateRequest& request, const std::function<bool(const v1::Output&)>& on_output,
            grpc::ClientContext& context, Progress& progress, grpc::Status& status);

  // A call of `method` that has one answer.
  template <typename Request, typename Response>
  absl::StatusOr<Response> CallOnce(grpc::Status (v1::GenerationService::Stub::*method)(grpc::ClientContext*,
                                                                                        const Request&, Response*),
                                    const Request& request, const CallOptions& options);

  const std::string target_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_GENERATION_CLIENT_H_
