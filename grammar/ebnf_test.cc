#include <gtest/gtest.h>

#include <string>

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
  EXPECT_TRUE(Allows(*grammar, "hihi Ünal"[0] == 'h' ? "hihi Zoë, good day  Bob." : ""));
  EXPECT_FALSE(Allows(*grammar, "hihihi Zoë"));
  EXPECT_FALSE(Allows(*grammar, "hello   Bob"));
  EXPECT_FALSE(Allows(*grammar, "hello bob"));
}

}  // namespace
}  // namespace baton::grammar
