#include "cli/chat_asker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/chat_report.h"
#include "cli/chat_settings.h"
#include "common/status.h"

namespace baton::cli {
namespace {

// A long limit of the answer would leave no room for what has been said. So at most this part of the context is kept
// free for the answer.
constexpr int kAnswerPartOfContext = 4;

CallOptions CountOptions(const CallOptions& options) {
  const int64_t timeout_ms = options.timeout_ms > 0 ? std::min(options.timeout_ms, kMaxCountMs) : kMaxCountMs;
  return {.timeout_ms = timeout_ms, .canceller = options.canceller};
}

}  // namespace

// What has come of an answer.
struct ChatAsker::Incoming {
  const absl::Time sent = absl::Now();
  std::string text;
  AnswerTiming timing;
  v1::Finished finished;

  void Add(const v1::Output& output) {
    text += output.text();
    if (output.tokens().empty()) return;
    timing.last_ms = absl::ToDoubleMilliseconds(absl::Now() - sent);
    if (timing.tokens == 0) {
      timing.first_ms = timing.last_ms;
      timing.first_tokens = output.tokens_size();
    }
    timing.tokens += output.tokens_size();
  }
};

ChatAsker::ChatAsker(const ClientFlags& flags, const std::shared_ptr<grpc::Channel>& channel,
                     ChatInterrupts* interrupts, ChatOutput& output)
    : channel_(channel),
      client_(flags.router.target, channel),
      interrupts_(interrupts),
      output_(output),
      options_(
          {.timeout_ms = flags.timeout_ms, .canceller = interrupts == nullptr ? nullptr : &interrupts->canceller()}),
      count_options_(CountOptions(options_)) {}

absl::Status ChatAsker::Answer(ChatSession& session, bool shows_stats) {
  if (interrupts_ != nullptr) interrupts_->Begin();
  // gRPC looks at a connection that comes up only while somebody waits for it, and otherwise every few seconds. A
  // router that is back then costs no further question.
  if (channel_->GetState(/*try_to_connect=*/true) != GRPC_CHANNEL_READY) {
    channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::milliseconds(kResumeConnectMs));
  }
  absl::Status status = Trim(session);
  Incoming incoming;
  if (status.ok() && !is_stopped()) status = Generate(session, incoming);
  const bool stopped = is_stopped();
  if (interrupts_ != nullptr) interrupts_->End();
  if (stopped) status = absl::CancelledError("stopped");
  if (!status.ok()) context_length_.reset();
  if (!incoming.text.empty() || status.ok()) {
    output_.EndAnswer();
    const AnswerEnd end = stopped ? AnswerEnd::kStopped : status.ok() ? AnswerEnd::kWhole : AnswerEnd::kBroken;
    if (shows_stats && (status.ok() || stopped)) {
      output_.Note(AnswerReport(incoming.timing, status.ok() ? &incoming.finished : nullptr));
    }
    if (session.OnAnswer(std::move(incoming.text), end)) {
      output_.Note("The chat no longer fits into the model's context: from now on the oldest turns are left out.");
    }
  } else {
    session.OnFailure();
  }
  return status;
}

absl::Status ChatAsker::Trim(ChatSession& session) {
  const std::string& model = session.base().model();
  return session.Trim([this, &session, &model](const v1::ChatPrompt& chat) -> absl::StatusOr<bool> {
    if (is_stopped()) return absl::CancelledError("stopped");
    if (!context_length_.has_value()) {
      BATON_ASSIGN_OR_RETURN(context_length_, client_.ContextLength(model, count_options_));
    }
    const int64_t room = std::min(MaxAnswerTokens(session.base().sampling()), *context_length_ / kAnswerPartOfContext);
    BATON_ASSIGN_OR_RETURN(const int64_t tokens, client_.CountTokens(model, chat, count_options_));
    return tokens + room <= *context_length_;
  });
}

absl::Status ChatAsker::Generate(ChatSession& session, Incoming& incoming) {
  bool written = true;
  const auto generation = client_.Generate(session.Request(), options_, [&](const v1::Output& output) {
    incoming.Add(output);
    written = output_.Write(output.text());
    return written && !is_stopped() && incoming.text.size() <= kMaxAnswerBytes;
  });
  if (!generation.ok()) return generation.status();
  incoming.finished = generation->finished;
  if (written && incoming.text.size() > kMaxAnswerBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the answer is longer than ", kMaxAnswerBytes, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace baton::cli
