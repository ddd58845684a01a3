#include "grammar/agreement.h"

#include <gtest/gtest.h>

#include <string_view>

#include "grammar/grammar_limits.h"
#include "grammar/testing/grammar_texts.h"

namespace baton::grammar {
namespace {

constexpr int32_t kFar = 100;

int32_t After(ParseStates& states, std::string_view text) {
  int32_t configuration = states.start();
  for (const char byte : text) configuration = states.Step(configuration, static_cast<uint8_t>(byte));
  return configuration;
}

TEST(Agreement, EndsBeforeTheByteThatOneOfBothRefuses) {
  ParseStates states(Compiled(GrammarKind::kRegex, "[ab]{9}c"));
  EXPECT_EQ(Agree(states, After(states, ""), After(states, "a"), kFar).bytes, 8);
  EXPECT_EQ(Agree(states, After(states, "ababa"), After(states, "b"), kFar).bytes, 4);
  EXPECT_EQ(Agree(states, After(states, ""), After(states, "a"), 3).bytes, 3) << "looks no further than it is asked to";
}

TEST(Agreement, OfPlacesThatDifferAtOnceIsNone) {
  ParseStates states(Compiled(GrammarKind::kRegex, "ab"));
  EXPECT_EQ(Agree(states, After(states, ""), After(states, "a"), kFar).bytes, 0);
}

// Whether an output may end is no matter of the tokens that go on.
TEST(Agreement, HasNoEndOfPlacesThatGoOnAlike) {
  ParseStates states(Compiled(GrammarKind::kRegex, "(?:[a-z]{2})*"));
  EXPECT_EQ(Agree(states, After(states, ""), After(states, "x"), kFar).bytes, kFar);
}

// What follows the end of a rule is a matter of the context, so places are not alike where only one has come to it.
TEST(Agreement, EndsWhereOneOfBothLeavesItsRule) {
  ParseStates states(Compiled(GrammarKind::kEbnf,
                              "root ::= \"[\" item \"]\" | \"(\" item \")\"\n"
                              "item ::= \"a\" \"a\" \"a\" | \"<\" item \">\""));
  const int32_t first = states.WithoutContext(After(states, "[<a"));
  const int32_t second = states.WithoutContext(After(states, "[<aa"));
  ASSERT_NE(first, ParseStates::kDead);
  ASSERT_NE(second, ParseStates::kDead);
  EXPECT_EQ(Agree(states, first, second, kFar).bytes, 0);
}

TEST(Agreement, LooksAtABoundedNumberOfPairs) {
  // Each text leads to a place of its own, so the pairs double with each byte.
  ParseStates states(Compiled(GrammarKind::kRegex, "[ab]*a[ab]{10}c"));
  const Agreement agreement = Agree(states, After(states, "a"), After(states, "b"), kFar);
  EXPECT_GT(agreement.bytes, 5);
  EXPECT_LT(agreement.bytes, 10) << "the first difference";
  EXPECT_LT(states.size(), 5 * static_cast<int32_t>(kMaxComparedPairs));
}

}  // namespace
}  // namespace baton::grammar
