// What a user types into `baton chat`: lines, the messages that they make, and the commands among these.
#ifndef BATON_CLI_CHAT_LINE_H_
#define BATON_CLI_CHAT_LINE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton::cli {

// Joins lines to a message: a line that ends in a backslash goes on in the next one. Not thread-safe.
class MessageJoiner {
 public:
  // `line` has no newline. `bytes` is its length, of which `line` may hold the beginning alone where that is more than
  // any message may have. True: the message is complete, and Take gives it.
  bool Add(std::string_view line, size_t bytes);
  bool Add(std::string_view line) { return Add(line, line.size()); }
  // Whether a line has come that goes on.
  bool has_begun() const { return has_begun_; }
  // What has come so far. INVALID_ARGUMENT when it is longer than a message may be.
  absl::StatusOr<std::string> Take();
  void Clear();

 private:
  std::string message_;
  // Also of what did not fit into `message_`.
  size_t bytes_ = 0;
  bool has_begun_ = false;
};

enum class ChatCommand : uint8_t {
  kHelp,
  kReset,
  kSystem,
  kSet,
  kShow,
  kRetry,
  kUndo,
  kSave,
  kLoad,
  kStats,
  kQuit,
};

// A message is words for the model, or a command.
struct ChatLine {
  // None: `text` goes to the model. Both are empty for a message without any words.
  std::optional<ChatCommand> command;
  // What a command says behind its name, or the message.
  std::string text;
};

// A message that begins with a slash is a command; a space before the slash makes it words for the model.
// INVALID_ARGUMENT in one line for a command that there is not.
absl::StatusOr<ChatLine> ReadChatLine(std::string message);

// "on" or "off"; none for anything else.
std::optional<bool> ReadSwitch(std::string_view text);

extern const char kChatHelp[];

}  // namespace baton::cli

#endif  // BATON_CLI_CHAT_LINE_H_
