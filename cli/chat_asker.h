// Sends the question of a chat and shows the answer as it comes.
#ifndef BATON_CLI_CHAT_ASKER_H_
#define BATON_CLI_CHAT_ASKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "cli/chat_interrupts.h"
#include "cli/chat_output.h"
#include "cli/chat_session.h"
#include "cli/client_flags.h"
#include "cli/generation_client.h"

namespace baton::cli {

// A longer answer breaks off: no server that keeps to its own bounds sends one.
inline constexpr size_t kMaxAnswerBytes = size_t{16} << 20;
// How long the router may take to say how long a chat is.
inline constexpr int64_t kMaxCountMs = 10'000;

// Not thread-safe.
class ChatAsker {
 public:
  // `interrupts` is null where nobody can stop an answer. It and `output` outlive this object.
  ChatAsker(const ClientFlags& flags, const std::shared_ptr<grpc::Channel>& channel, ChatInterrupts* interrupts,
            ChatOutput& output);

  // Answers the question that `session` is asking, and tells it the answer or the failure. CANCELLED after Ctrl-C; any
  // error costs this question alone.
  absl::Status Answer(ChatSession& session, bool shows_stats);

 private:
  struct Incoming;

  absl::Status Trim(ChatSession& session);
  absl::Status Generate(ChatSession& session, Incoming& incoming);
  bool is_stopped() const { return interrupts_ != nullptr && interrupts_->is_stopped(); }

  const std::shared_ptr<grpc::Channel> channel_;
  GenerationClient client_;
  ChatInterrupts* const interrupts_;
  ChatOutput& output_;
  const CallOptions options_;
  const CallOptions count_options_;
  // Asked for again after an error: another router may have come.
  std::optional<int32_t> context_length_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_CHAT_ASKER_H_
