// The core of `baton chat`: what has been said, what the next request says, and what becomes of an answer.
//
// | state | event | what happens |
// |---|---|---|
// | idle | Ask | asking; the question is not part of the history yet |
// | idle | Retry | asking the question that failed, else the last one of the history, whose turn the new answer replaces |
// | asking | Trim | as many turns as needed are left out of the request, the oldest first |
// | asking | OnAnswer | idle; question and answer are the last turn, and turns that were left out stay out |
// | asking | OnFailure | idle; the history is what it was, and the question can be retried |
// | idle | Undo | the last turn is forgotten; else the question that failed |
// | idle | Reset, Load, SetSystem | the history is changed as a whole |
#ifndef BATON_CLI_CHAT_SESSION_H_
#define BATON_CLI_CHAT_SESSION_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/generation.pb.h"
#include "cli/chat_history.h"

namespace baton::cli {

// Turns that no request has room for any more are kept for /show and /save, up to these bounds.
inline constexpr size_t kMaxKeptTurns = 4096;
inline constexpr size_t kMaxKeptTurnBytes = size_t{16} << 20;

// Not thread-safe.
class ChatSession {
 public:
  // Whether the server has room for a chat and its answer.
  using Fits = std::function<absl::StatusOr<bool>(const v1::ChatPrompt&)>;

  // `base` has everything of a request but its messages.
  explicit ChatSession(v1::GenerateRequest base);

  // INVALID_ARGUMENT for what no request may have: an empty text, invalid UTF-8 and too many bytes.
  absl::Status Ask(std::string question);
  // FAILED_PRECONDITION when there is nothing to ask again.
  absl::Status Retry();

  // Leaves turns out until `fits` is true, which it asks a few times at most. When it is false even of the question by
  // itself, all turns are left out. Errors are those of `fits`.
  absl::Status Trim(const Fits& fits);
  // It asks the question under way, and is there only while asking.
  v1::GenerateRequest Request() const;

  // True: some turn was left out for the first time since the chat began.
  bool OnAnswer(std::string answer, AnswerEnd end);
  void OnFailure();

  // What is forgotten, for the user to read. FAILED_PRECONDITION when there is nothing.
  absl::StatusOr<std::string> Undo();
  // Forgets the chat, but not the system message.
  void Reset();
  // Empty: there is none. INVALID_ARGUMENT as of Ask.
  absl::Status SetSystem(std::string system);
  void Load(ChatHistory history);

  const ChatHistory& history() const { return history_; }
  // How many of the oldest turns the model no longer sees.
  size_t left_out() const { return left_out_; }
  const v1::GenerateRequest& base() const { return base_; }
  v1::SamplingParams& sampling() { return *base_.mutable_sampling(); }

 private:
  struct Asking {
    std::string question;
    // The turns of the history that the request has. A retry leaves its own turn out at the end.
    size_t first_turn = 0;
    size_t end_turn = 0;
  };

  v1::ChatPrompt PromptFrom(size_t first_turn) const;
  // Whether any server would take it.
  static bool IsWithinLimits(const v1::ChatPrompt& chat);
  void BoundHistory();

  v1::GenerateRequest base_;
  ChatHistory history_;
  size_t left_out_ = 0;
  bool has_said_left_out_ = false;
  std::optional<Asking> asking_;
};

// What the user sees of the chat, and of the settings.
std::string ShowChat(const ChatSession& session);

}  // namespace baton::cli

#endif  // BATON_CLI_CHAT_SESSION_H_
