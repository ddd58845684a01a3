// Turns the outputs of several choices, which come in any order, into a text that people can read: one choice after the
// other, each under a line with its number.
#ifndef BATON_CLI_CHOICE_PRINTER_H_
#define BATON_CLI_CHOICE_PRINTER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "baton/v1/generation.pb.h"
#include "cli/terminal_text.h"

namespace baton::cli {

class ChoicePrinter {
 public:
  // `filters`: what is printed goes to a terminal.
  ChoicePrinter(int choices, bool filters);

  // What can be printed now: of the first choice that has not ended all that has come, and all choices behind it once
  // it has. A prompt that is echoed comes before the output.
  std::string Add(const v1::Output& output);
  // The rest.
  std::string Flush();

 private:
  struct Choice {
    std::string waiting;
    bool has_begun = false;
    bool has_ended = false;
  };

  std::string Print(Choice& choice, size_t index);

  const bool filters_;
  std::vector<Choice> choices_;
  // The one that is printed as it comes.
  size_t current_ = 0;
  TerminalText filter_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_CHOICE_PRINTER_H_
