// Text that others wrote, such as a model or a server, made safe for a terminal. Such text may hold escape sequences
// that move the cursor, set the window's title, write into the clipboard or hide what comes next.
#ifndef BATON_CLI_TERMINAL_TEXT_H_
#define BATON_CLI_TERMINAL_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/utf8.h"

namespace baton::cli {

// Whether a terminal may act on the character instead of showing it: C0 but newline and tab, DEL, C1, and the
// characters that change the direction of a text (U+202A to U+202E, U+2066 to U+2069).
bool IsTerminalControl(uint32_t code_point);

// Takes a stream of bytes in any pieces and gives the text that may go to a terminal: U+FFFD stands for every control
// character and for every byte that is not UTF-8. "\r\n" becomes a newline.
class TerminalText {
 public:
  // Returns what has become certain.
  std::string Push(std::string_view bytes);
  // Returns the rest, and forgets it.
  std::string Flush();

 private:
  void Filter(std::string_view text, std::string* out);

  Utf8LossyDecoder decoder_;
  // A carriage return is shown unless a newline follows it.
  bool has_return_ = false;
};

// The same for a whole text.
std::string ForTerminal(std::string_view text);
// The same in one line: a newline and a carriage return become a space each.
std::string ForTerminalLine(std::string_view text);

}  // namespace baton::cli

#endif  // BATON_CLI_TERMINAL_TEXT_H_
