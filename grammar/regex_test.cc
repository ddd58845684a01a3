#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grammar/grammar.h"
#include "grammar/testing/grammar_texts.h"

namespace baton::grammar {
namespace {

struct RegexCase {
  const char* regex;
  std::vector<std::string> matching;
  std::vector<std::string> others;
};

class RegexMatches : public testing::TestWithParam<RegexCase> {};

TEST_P(RegexMatches, TheWholeText) {
  const auto grammar = Compiled(GrammarKind::kRegex, GetParam().regex);
  for (const std::string& text : GetParam().matching) EXPECT_TRUE(Allows(*grammar, text)) << text;
  for (const std::string& text : GetParam().others) EXPECT_FALSE(Allows(*grammar, text)) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Of, RegexMatches,
    testing::Values(
        RegexCase{"abc", {"abc"}, {"", "ab", "abcd", "xabc"}}, RegexCase{"", {""}, {"a"}},
        RegexCase{"a|bc|", {"a", "bc", ""}, {"b", "abc"}}, RegexCase{"(a|b)*c", {"c", "abac"}, {"ab", "ca"}},
        RegexCase{"a{2}", {"aa"}, {"a", "aaa"}}, RegexCase{"a{2,}", {"aa", "aaaaa"}, {"a"}},
        RegexCase{"a{1,3}b?", {"a", "aaab"}, {"", "aaaa", "b"}}, RegexCase{"a{0}b", {"b"}, {"ab"}},
        RegexCase{"a*?b+?", {"b", "aabb"}, {"a"}}, RegexCase{"(?:ab)+", {"ab", "abab"}, {"aba"}},
        RegexCase{"(?<year>\\d{4})-(?P<day>\\d)", {"2024-1"}, {"2024-", "202-1"}},
        RegexCase{"^abc$", {"abc"}, {"^abc$"}}, RegexCase{"^a$|^b$|c", {"a", "b", "c"}, {"ab"}},
        RegexCase{"[a-c-]", {"a", "b", "-"}, {"d", ""}}, RegexCase{"[^a-c]", {"d", "é", "日", "\n"}, {"a", "\x80", ""}},
        RegexCase{"[\\d.]+", {"1.5"}, {"a"}}, RegexCase{"[\\]\\\\^]", {"]", "\\", "^"}, {"["}},
        RegexCase{"\\w\\W", {"a-", "_ ", "9é"}, {"-a", "aa"}}, RegexCase{"\\D", {"x", "٣"}, {"5"}},
        RegexCase{"\\s\\S", {" a", "\u00a0b", "\tc"}, {"aa", "  "}},
        RegexCase{".", {"a", "é", "😀", "\t"}, {"\n", "\r", "\u2028", "\xC3", "ab"}},
        RegexCase{"é+", {"é", "éé"}, {"\xC3", "e"}}, RegexCase{"[à-ü]", {"é"}, {"z", "ÿ"}},
        RegexCase{"[\\u0041-\\u{43}]\\x44", {"AD", "CD"}, {"DD"}}, RegexCase{"\\uD83D\\uDE00", {"😀"}, {"😁"}},
        RegexCase{"[\\u0000-\\u{10FFFF}]",
                  {std::string(1, '\0'), "\u07FF", "\u0800", "\uFFFF", "\U00010000", "\U0010FFFF"},
                  {"\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80", "\xE0\x80\x80"}},
        RegexCase{"\\/\\.\\-\\$", {"/.-$"}, {"/x-$"}},
        RegexCase{"\\t\\n\\r\\f\\v\\0", {std::string("\t\n\r\f\v\0", 6)}, {"t"}},
        RegexCase{"(a*)*b", {"b", "aab"}, {"a"}}, RegexCase{"(|a)+", {"", "aa"}, {"b"}},
        RegexCase{"((a?b?){2}c){2}", {"cc", "ababcbc"}, {"c"}}, RegexCase{"x]}", {"x]}"}, {"x"}}));

struct RefusedRegex {
  const char* regex;
  absl::StatusCode code;
  const char* message;
};

class RegexIsRefused : public testing::TestWithParam<RefusedRegex> {};

TEST_P(RegexIsRefused, AndSaysWhy) {
  const auto grammar = CompileGrammar({GrammarKind::kRegex, GetParam().regex});
  EXPECT_EQ(grammar.status().code(), GetParam().code) << grammar.status();
  EXPECT_NE(grammar.status().message().find(GetParam().message), absl::string_view::npos) << grammar.status();
}

constexpr auto kMalformed = absl::StatusCode::kInvalidArgument;
constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;
constexpr auto kTooLarge = absl::StatusCode::kResourceExhausted;

INSTANTIATE_TEST_SUITE_P(
    For, RegexIsRefused,
    testing::Values(RefusedRegex{"a(b", kMalformed, "byte 3"}, RefusedRegex{"a)b", kMalformed, "byte 1"},
                    RefusedRegex{"*a", kMalformed, "nothing to repeat"},
                    RefusedRegex{"a**", kMalformed, "nothing to repeat"}, RefusedRegex{"[a", kMalformed, "has no ]"},
                    RefusedRegex{"[]", kMalformed, "empty"}, RefusedRegex{"[z-a]", kMalformed, "order"},
                    RefusedRegex{"a{3,2}", kMalformed, "order"}, RefusedRegex{"a{,2}", kMalformed, "repeat"},
                    RefusedRegex{"a{2", kMalformed, "}"}, RefusedRegex{"{", kMalformed, "{"},
                    RefusedRegex{"a\\", kMalformed, "backslash"}, RefusedRegex{"\\xZ1", kMalformed, "hexadecimal"},
                    RefusedRegex{"\\uD800", kMalformed, "surrogate"},
                    RefusedRegex{"\\u{110000}", kMalformed, "no such character"},
                    RefusedRegex{"\xFF", kMalformed, "UTF-8"}, RefusedRegex{"(?=a)", kUnsupported, "lookaround"},
                    RefusedRegex{"(?<!a)", kUnsupported, "lookaround"},
                    RefusedRegex{"(a)\\1", kUnsupported, "backreference"},
                    RefusedRegex{"\\bword", kUnsupported, "boundary"}, RefusedRegex{"\\p{L}", kUnsupported, "property"},
                    RefusedRegex{"a^b", kUnsupported, "anchor"}, RefusedRegex{"a$b", kUnsupported, "anchor"},
                    RefusedRegex{"(^a)", kUnsupported, "anchor"}, RefusedRegex{"(a$)", kUnsupported, "anchor"},
                    RefusedRegex{"(?i)a", kUnsupported, "group"}, RefusedRegex{"[[:alpha:]]", kUnsupported, "[: :]"},
                    RefusedRegex{"\\q", kUnsupported, "escape"}, RefusedRegex{"a{99999}", kTooLarge, "larger"}));

TEST(Regex, ACharacterIsNeverLeftHalf) {
  const auto grammar = Compiled(GrammarKind::kRegex, "[^x]*");
  EXPECT_EQ(Judge(*grammar, "\xE6\x97"), Verdict::kUnfinished);
  EXPECT_EQ(Judge(*grammar, "\xE6\x97\xA5"), Verdict::kComplete);
  EXPECT_EQ(Judge(*grammar, "\xE6x"), Verdict::kRefused);
}

TEST(Regex, LongRepeatsAreCountedExactly) {
  const auto grammar = Compiled(GrammarKind::kRegex, "(?:[a-zé日]{3,4}-){100,2000}");
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "aé日-";
  EXPECT_TRUE(Allows(*grammar, text));
  EXPECT_FALSE(Allows(*grammar, text + "abc-"));
  EXPECT_TRUE(Allows(*grammar, std::string_view(text).substr(0, 100 * 7)));
  EXPECT_FALSE(Allows(*grammar, std::string_view(text).substr(0, 99 * 7)));
}

}  // namespace
}  // namespace baton::grammar
