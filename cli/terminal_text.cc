#include "cli/terminal_text.h"

#include <algorithm>
#include <cstddef>

namespace baton::cli {

bool IsTerminalControl(uint32_t code_point) {
  if (code_point == '\n' || code_point == '\t') return false;
  if (code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0)) return true;
  return (code_point >= 0x202A && code_point <= 0x202E) || (code_point >= 0x2066 && code_point <= 0x2069);
}

std::string TerminalText::Push(std::string_view bytes) {
  std::string text;
  decoder_.Push(bytes, &text);
  std::string out;
  Filter(text, &out);
  return out;
}

std::string TerminalText::Flush() {
  std::string text;
  decoder_.Flush(&text);
  std::string out;
  Filter(text, &out);
  if (has_return_) out += kReplacementCharacter;
  has_return_ = false;
  return out;
}

void TerminalText::Filter(std::string_view text, std::string* out) {
  for (size_t offset = 0; offset < text.size();) {
    const uint32_t code_point = NextCodePoint(text, &offset);
    if (has_return_ && code_point != '\n') out->append(kReplacementCharacter);
    has_return_ = code_point == '\r';
    if (has_return_) continue;
    AppendUtf8(IsTerminalControl(code_point) ? 0xFFFD : code_point, out);
  }
}

std::string ForTerminal(std::string_view text) {
  TerminalText filter;
  std::string out = filter.Push(text);
  return out + filter.Flush();
}

std::string ForTerminalLine(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return ForTerminal(line);
}

}  // namespace baton::cli
