#include "cli/chat_output.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace baton::cli {
namespace {

constexpr char kDim[] = "\x1b[2m";
constexpr char kPlain[] = "\x1b[0m";

bool HasColours() {
  const char* const no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

ChatOutput::ChatOutput() : filters_answers_(isatty(STDOUT_FILENO) != 0), has_colours_(HasColours()) {}

bool ChatOutput::Write(std::string_view piece) {
  if (filters_answers_) {
    std::cout << filter_.Push(piece);
  } else {
    std::cout << piece;
  }
  return std::cout.flush().good();
}

void ChatOutput::EndAnswer() {
  if (filters_answers_) std::cout << filter_.Flush();
  std::cout << std::endl;
}

void ChatOutput::Note(std::string_view line) const {
  const std::string text = ForTerminalLine(line);
  std::fprintf(stderr, "%s%s%s\n", has_colours_ ? kDim : "", text.c_str(), has_colours_ ? kPlain : "");
}

void ChatOutput::Show(std::string_view lines) const { std::fputs(ForTerminal(lines).c_str(), stderr); }

}  // namespace baton::cli
