// What has been said in a chat, and the file that keeps it.
#ifndef BATON_CLI_CHAT_HISTORY_H_
#define BATON_CLI_CHAT_HISTORY_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::cli {

// How an answer ended: by itself or at its limit, by Ctrl-C, or by an error after its first words.
enum class AnswerEnd { kWhole, kStopped, kBroken };

// "", "stopped", "broken off".
std::string_view AnswerEndName(AnswerEnd end);

// A question and its answer.
struct ChatTurn {
  std::string question;
  std::string answer;
  AnswerEnd end = AnswerEnd::kWhole;
};

struct ChatHistory {
  // Empty: there is none.
  std::string system;
  std::vector<ChatTurn> turns;
  // A question that got no answer. Empty: there is none.
  std::string unanswered;
};

// Bounds a file that /load reads. JSON writes a byte as up to six.
inline constexpr size_t kMaxChatFileBytes = size_t{64} << 20;

// A JSON list of {"role": ..., "content": ...}, which `baton generate --messages` reads, too. An answer that did not
// end by itself also has "ended".
std::string WriteChat(const ChatHistory& history);

// Reads such a list: at most one system message, which comes first, then questions and answers in turn. A question at
// the end becomes `unanswered`. INVALID_ARGUMENT in one line for anything else.
absl::StatusOr<ChatHistory> ReadChat(std::string_view text);

}  // namespace baton::cli

#endif  // BATON_CLI_CHAT_HISTORY_H_
