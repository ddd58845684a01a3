// Where a chat writes: answers to standard output, everything else to standard error.
#ifndef BATON_CLI_CHAT_OUTPUT_H_
#define BATON_CLI_CHAT_OUTPUT_H_

#include <string>
#include <string_view>

#include "cli/terminal_text.h"

namespace baton::cli {

// Not thread-safe.
class ChatOutput {
 public:
  ChatOutput();

  // A piece of an answer, at once. A terminal gets it as terminal_text.h says, a file or a pipe as it is. False: it
  // cannot be written.
  bool Write(std::string_view piece);
  void EndAnswer();

  // A remark of the chat itself: dim, where the terminal has colours and NO_COLOR is not set.
  void Note(std::string_view line) const;
  // Lines that the user has asked for.
  void Show(std::string_view lines) const;

 private:
  const bool filters_answers_;
  const bool has_colours_;
  TerminalText filter_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_CHAT_OUTPUT_H_
