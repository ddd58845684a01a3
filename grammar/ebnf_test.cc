#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "grammar/testing/grammar_texts.h"

namespace baton::grammar {
namespace {

TEST(Ebnf, ReadsRulesLiteralsClassesAndRepeats) {
  const auto grammar = Compiled(GrammarKind::kEbnf, R"(
# A list of greetings.
root ::= greeting ("," ws greeting)* "."?
greeting ::= ("hello" | "hi"{1,2} |
    "good " [a-z]+) ws name
name ::= [A-Z] [^\x00-\x20,.]*   # anything
ws ::= [ \t]{0,2}
)");
  EXPECT_TRUE(Allows(*grammar, "hello World"));
  EXPECT_TRUE(Allows(*grammar, "hihi Zoë, good day  Bob."));
  EXPECT_FALSE(Allows(*grammar, "hihihi Zoë"));
  EXPECT_FALSE(Allows(*grammar, "hello   Bob"));
  EXPECT_FALSE(Allows(*grammar, "hello bob"));
}

TEST(Ebnf, ReadsEscapes) {
  const auto grammar = Compiled(GrammarKind::kEbnf, R"(root ::= "\"\\\n\t\x41\u00e9\U0001F600" [\]\-\^a] [^\n] .)");
  EXPECT_TRUE(Allows(*grammar, "\"\\\n\tAé😀]x\n"));
  EXPECT_TRUE(Allows(*grammar, "\"\\\n\tAé😀-日日"));
  EXPECT_FALSE(Allows(*grammar, "\"\\\n\tAé😀b\tx"));
  EXPECT_FALSE(Allows(*grammar, "\"\\\n\tAé😀a\nx"));
}

TEST(Ebnf, NestsByRecursion) {
  const auto grammar = Compiled(GrammarKind::kEbnf, "root ::= \"(\" root \")\" root | \"\"");
  EXPECT_TRUE(Allows(*grammar, ""));
  EXPECT_TRUE(Allows(*grammar, "(()())()"));
  EXPECT_FALSE(Allows(*grammar, "(()"));
  EXPECT_FALSE(Allows(*grammar, "())"));
}

TEST(Ebnf, ReadsListsOfAnyLengthByRightRecursion) {
  const auto grammar = Compiled(GrammarKind::kEbnf, "root ::= [0-9] | [0-9] \",\" root");
  std::string text = "1";
  for (int i = 0; i < 5000; ++i) text += ",2";
  EXPECT_TRUE(Allows(*grammar, text));
  EXPECT_FALSE(Allows(*grammar, text + ","));
}

TEST(Ebnf, MakesALoopOfARuleThatBeginsWithItself) {
  const auto grammar = Compiled(GrammarKind::kEbnf, R"ebnf(
root ::= root "+" term | root "-" term | term
term ::= term "*" [0-9] | [0-9] | "(" root ")")ebnf");
  EXPECT_TRUE(Allows(*grammar, "1"));
  EXPECT_TRUE(Allows(*grammar, "1+2*3-(4-5)*6"));
  EXPECT_FALSE(Allows(*grammar, "1+"));
  EXPECT_FALSE(Allows(*grammar, "*1"));
}

TEST(Ebnf, KeepsEveryWayToReadAnAmbiguousText) {
  const auto grammar = Compiled(GrammarKind::kEbnf, R"(
root ::= even | three
even ::= "a" "a" even | ""
three ::= "a" "a" "a" three | "b")");
  EXPECT_TRUE(Allows(*grammar, "aaaa"));
  EXPECT_TRUE(Allows(*grammar, "aaaaaab"));
  EXPECT_FALSE(Allows(*grammar, "aaaab"));
  EXPECT_FALSE(Allows(*grammar, "aaaaa"));
}

TEST(Ebnf, CountsMoreWaysThanItKeepsConservatively) {
  // After n letters there are n ways to go on. What is left out is not legal, but what is legal can be completed.
  const auto grammar = Compiled(GrammarKind::kEbnf, R"(
root ::= "a" root "b" | "a" root "c" | "a" root | "d")");
  const auto masks = std::make_shared<TokenMasks>(grammar, ByteVocabulary());
  SeededRandom random(8);
  for (int i = 0; i < 20; ++i) {
    const Walk walk = WalkByChance(masks, random, 4000);
    ASSERT_TRUE(walk.has_ended);
    EXPECT_TRUE(Allows(*grammar, walk.text));
  }
}

struct RefusedEbnf {
  const char* text;
  absl::StatusCode code;
  const char* message;
};

class EbnfIsRefused : public testing::TestWithParam<RefusedEbnf> {};

TEST_P(EbnfIsRefused, AndSaysWhy) {
  const auto grammar = CompileGrammar({GrammarKind::kEbnf, GetParam().text});
  EXPECT_EQ(grammar.status().code(), GetParam().code) << grammar.status();
  EXPECT_TRUE(absl::StrContains(grammar.status().message(), GetParam().message)) << grammar.status();
}

INSTANTIATE_TEST_SUITE_P(
    For, EbnfIsRefused,
    testing::Values(
        RefusedEbnf{"", absl::StatusCode::kInvalidArgument, "no rule root"},
        RefusedEbnf{"a ::= \"x\"", absl::StatusCode::kInvalidArgument, "no rule root"},
        RefusedEbnf{"root ::= a", absl::StatusCode::kInvalidArgument, "no rule a"},
        RefusedEbnf{"root ::= \"a\nroot", absl::StatusCode::kInvalidArgument, "no end"},
        RefusedEbnf{"root ::= \"a\"\nroot ::= \"b\"", absl::StatusCode::kInvalidArgument, "twice"},
        RefusedEbnf{"root = \"a\"", absl::StatusCode::kInvalidArgument, "::="},
        RefusedEbnf{"root ::= (\"a\"", absl::StatusCode::kInvalidArgument, "has no )"},
        RefusedEbnf{"root ::= \"a\")", absl::StatusCode::kInvalidArgument, "without its ("},
        RefusedEbnf{"root ::= 'a'", absl::StatusCode::kInvalidArgument, "double quotes"},
        RefusedEbnf{"root ::= [b-a]", absl::StatusCode::kInvalidArgument, "order"},
        RefusedEbnf{"root ::= \"\\uD800\"", absl::StatusCode::kInvalidArgument, "no such character"},
        RefusedEbnf{"root ::= \"a\"**", absl::StatusCode::kInvalidArgument, "byte 13"},
        RefusedEbnf{"root ::= \"a\" root", absl::StatusCode::kInvalidArgument, "no output"},
        RefusedEbnf{"root ::= root", absl::StatusCode::kInvalidArgument, "no output"},
        RefusedEbnf{"root ::= <[1]>", absl::StatusCode::kUnimplemented, "token"},
        RefusedEbnf{"root ::= \"\\q\"", absl::StatusCode::kUnimplemented, "escape"},
        RefusedEbnf{"root ::= a \"x\" | \"y\"\na ::= root | \"z\"", absl::StatusCode::kUnimplemented, "left recursion"},
        RefusedEbnf{"root ::= \"x\"? root \"y\" | \"z\"", absl::StatusCode::kUnimplemented, "rule root begins"},
        RefusedEbnf{"root ::= a{99999}\na ::= \"x\"", absl::StatusCode::kResourceExhausted, "larger"}));

}  // namespace
}  // namespace baton::grammar
