// Masks whose search is stopped again and again.
#include <cstdint>
#include <memory>
#include <string>

#include "common/random.h"
#include "grammar/grammar_matcher.h"
#include "grammar/testing/grammar_texts.h"
#include "gtest/gtest.h"

namespace baton::grammar {
namespace {

// Finds the mask in as many attempts as it takes, each with twice the steps of the one before. Returns how many failed.
int FindByAndBy(GrammarMatcher& matcher, int64_t first_steps) {
  for (int failed = 0;; ++failed) {
    int64_t steps = first_steps << failed;
    const int64_t given = steps;
    if (matcher.FindMask(steps)) {
      EXPECT_GE(steps, 0);
      return failed;
    }
    EXPECT_LT(steps, given);
  }
}

TEST(MaskSteps, AMaskIsExactHoweverOftenItsSearchWasStopped) {
  SeededRandom random(11);
  const auto vocabulary = PieceVocabulary();
  int64_t failed = 0;
  for (const auto& grammar :
       {Compiled(GrammarKind::kJsonObject),
        Compiled(GrammarKind::kJsonSchema, R"({"type": "object", "properties": {"name": {"type": "string"},
                     "kind": {"type": "string", "maxLength": 9}}, "required": ["kind"]})"),
        Compiled(GrammarKind::kRegex, "(?:.|\\n){50,}"),
        Compiled(GrammarKind::kEbnf, "root ::= \"a\" root x | \"b\" root y | \"\"\nx ::= [ab]\ny ::= [ab]")}) {
    const auto masks = std::make_shared<TokenMasks>(grammar, vocabulary);
    const auto cut = std::make_shared<TokenMasks>(grammar, vocabulary);
    const auto tiny = std::make_shared<TokenMasks>(grammar, vocabulary, 20'000);
    for (int i = 0; i < 8; ++i) {
      const Walk walk = WalkByChance(masks, random, 40);
      GrammarMatcher matcher(masks);
      GrammarMatcher in_cut(cut);
      GrammarMatcher in_tiny(tiny);
      for (const int32_t token : walk.tokens) {
        failed += FindByAndBy(in_cut, 1 + static_cast<int64_t>(random.Below(100)));
        failed += FindByAndBy(in_tiny, 1 + static_cast<int64_t>(random.Below(100)));
        ASSERT_EQ(LegalTokens(in_cut.mask()), LegalTokens(matcher.mask())) << walk.text;
        ASSERT_EQ(LegalTokens(in_tiny.mask()), LegalTokens(matcher.mask())) << walk.text;
        ASSERT_TRUE(matcher.Accept(token) && in_cut.Accept(token) && in_tiny.Accept(token));
      }
    }
  }
  EXPECT_GT(failed, 100);
}

TEST(MaskSteps, AMaskThatIsKnownTakesNone) {
  GrammarMatcher matcher(std::make_shared<TokenMasks>(Compiled(GrammarKind::kRegex, "[a-z]*"), ByteVocabulary()));
  int64_t steps = 0;
  EXPECT_FALSE(matcher.FindMask(steps));
  EXPECT_LT(steps, 0);
  matcher.mask();
  steps = 0;
  EXPECT_TRUE(matcher.FindMask(steps));
  EXPECT_EQ(steps, 0);
}

}  // namespace
}  // namespace baton::grammar
