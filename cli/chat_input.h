// Where the messages of a chat come from: an editor at a terminal, or lines of a file or a pipe.
#ifndef BATON_CLI_CHAT_INPUT_H_
#define BATON_CLI_CHAT_INPUT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/chat_interrupts.h"
#include "cli/chat_line.h"
#include "cli/line_editor.h"

namespace baton::cli {

// Lines of a descriptor, of whatever length, in bounded memory.
class BoundedLines {
 public:
  explicit BoundedLines(int file) : file_(file) {}

  struct Line {
    // Its beginning, where it is longer than kMaxPromptBytes.
    std::string text;
    size_t bytes = 0;
  };
  // None at the end.
  std::optional<Line> Next();

 private:
  bool Fill();

  const int file_;
  std::string buffer_;
  size_t at_ = 0;
};

// Not thread-safe.
class ChatInput {
 public:
  // Call it before any other thread starts. `interrupts` is null where stdin is no terminal.
  explicit ChatInput(ChatInterrupts* interrupts);

  // The next message. OUT_OF_RANGE at the end, INVALID_ARGUMENT for one that is longer than any may be.
  absl::StatusOr<std::string> Next();

 private:
  absl::StatusOr<std::string> NextEdited();
  absl::StatusOr<std::string> NextPlain();

  ChatInterrupts* const interrupts_;
  const std::unique_ptr<LineEditor> editor_;
  BoundedLines lines_;
  MessageJoiner joiner_;
  bool has_hinted_ = false;
};

}  // namespace baton::cli

#endif  // BATON_CLI_CHAT_INPUT_H_
