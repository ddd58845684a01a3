// Nothing that a terminal acts on passes, however it is cut into pieces.
#include "cli/terminal_text.h"

#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace baton::cli {
namespace {

constexpr char kMark[] = "\xEF\xBF\xBD";

std::string InPieces(std::string_view text, size_t bytes) {
  TerminalText filter;
  std::string out;
  for (size_t at = 0; at < text.size(); at += bytes) out += filter.Push(text.substr(at, bytes));
  return out + filter.Flush();
}

TEST(TerminalText, WordsPassAsTheyAre) {
  for (const char* text :
       {"", "one\ntwo\tthree\n", "na\u00EFve \u4F60\u597D \U0001F600 e\u0301", "\u05E9\u05DC\u05D5\u05DD \u200F!"}) {
    EXPECT_EQ(ForTerminal(text), text);
  }
}

TEST(TerminalText, EveryControlCharacterIsReplaced) {
  for (uint32_t c = 0; c < 0xA0; ++c) {
    if (c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7F)) continue;
    std::string text = "a";
    AppendUtf8(c, &text);
    EXPECT_EQ(ForTerminal(text + "b"), std::string("a") + kMark + "b") << c;
  }
  EXPECT_EQ(ForTerminal("\x1b[2J\x1b]0;title\x07"), std::string(kMark) + "[2J" + kMark + "]0;title" + kMark);
}

TEST(TerminalText, AByteOfAnEightBitTerminalIsReplacedToo) {
  EXPECT_EQ(ForTerminal("a\x9b"
                        "31m"),
            std::string("a") + kMark + "31m");
  EXPECT_EQ(ForTerminal("\xC2"), kMark);
}

TEST(TerminalText, NothingTurnsTheDirectionOfTheText) {
  for (const char* text : {"\u202A", "\u202B", "\u202C", "\u202D", "\u202E", "\u2066", "\u2067", "\u2068", "\u2069"}) {
    EXPECT_EQ(ForTerminal(text), kMark) << text;
  }
}

TEST(TerminalText, PiecesMakeNoDifference) {
  const std::string text =
      "caf\u00E9 \u202E\xC2\x9B"
      "31m\x1b[0m\r\n\rx\xE2\x82\r";
  for (size_t bytes = 1; bytes < 8; ++bytes) EXPECT_EQ(InPieces(text, bytes), ForTerminal(text)) << bytes;
}

TEST(TerminalText, ACarriageReturnIsShownUnlessANewlineFollows) {
  EXPECT_EQ(ForTerminal("a\r\nb"), "a\nb");
  EXPECT_EQ(ForTerminal("a\rb\r"), std::string("a") + kMark + "b" + kMark);
  EXPECT_EQ(ForTerminal("\r\r\n"), std::string(kMark) + "\n");
}

TEST(TerminalText, ALineHasNoOther) {
  EXPECT_EQ(ForTerminalLine("a\nb\r\nc\x1b[m"), std::string("a b  c") + kMark + "[m");
}

}  // namespace
}  // namespace baton::cli
