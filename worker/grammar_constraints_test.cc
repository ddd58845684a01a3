#include "worker/grammar_constraints.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton::worker {
namespace {

// Token i writes the letter i; then come two letters at once, and the end.
constexpr int32_t kAb = 26;
constexpr int32_t kEnd = 27;

std::shared_ptr<const grammar::Vocabulary> Letters(std::vector<int32_t> eos_ids = {kEnd}) {
  std::vector<std::string> texts;
  for (char c = 'a'; c <= 'z'; ++c) texts.emplace_back(1, c);
  texts.emplace_back("ab");
  texts.emplace_back();
  return grammar::Vocabulary::Create(std::move(texts), std::move(eos_ids));
}

OutputGrammar Regex(const std::string& text) { return {.kind = GrammarKind::kRegex, .text = text}; }

std::vector<int32_t> Ids(const engine::AllowedTokens& allowed) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id <= kEnd; ++id) {
    if (allowed.Has(id)) ids.push_back(id);
  }
  return ids;
}

TEST(GrammarConstraintsTest, AllowsWhatTheGrammarAllowsNext) {
  GrammarConstraints constraints(Letters());
  const auto one = constraints.Make(Regex("abc?"));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(Ids((*one)->Allowed()), (std::vector<int32_t>{0, kAb}));
  EXPECT_FALSE((*one)->Accept(1));
  ASSERT_TRUE((*one)->Accept(kAb));
  EXPECT_EQ(Ids((*one)->Allowed()), (std::vector<int32_t>{2, kEnd}));
  ASSERT_TRUE((*one)->Accept(2));
  EXPECT_EQ((*one)->Allowed().only, kEnd);
  EXPECT_TRUE((*one)->Accept(kEnd));
}

// All masks of a step are read after the last of them was looked up.
TEST(GrammarConstraintsTest, TheMasksOfAStepStayWhileThoseOfOthersAreLookedUp) {
  GrammarConstraints constraints(Letters());
  const auto first = constraints.Make(Regex("(ab|cd)*x")).value();
  const auto second = constraints.Make(Regex("(ab|cd)*x")).value();
  ASSERT_TRUE(second->Accept(2));
  const engine::AllowedTokens of_first = first->Allowed();
  const engine::AllowedTokens of_second = second->Allowed();
  EXPECT_EQ(Ids(of_first), (std::vector<int32_t>{0, 2, 23, kAb}));
  EXPECT_EQ(Ids(of_second), std::vector<int32_t>{3});
  ASSERT_TRUE(second->Accept(3));
  EXPECT_EQ(Ids(second->Allowed()), Ids(of_first)) << "they are in the same place of the grammar now";
}

TEST(GrammarConstraintsTest, GrammarsThatWereForgottenServeOnAndAreMadeAnew) {
  GrammarConstraints constraints(Letters());
  const auto old = constraints.Make(Regex("abc")).value();
  ASSERT_TRUE(old->Accept(0));
  for (size_t i = 0; i < 2 * GrammarConstraints::kMaxKept; ++i) {
    const auto other = constraints.Make(Regex(absl::StrCat("x{", i + 1, "}"))).value();
    EXPECT_EQ(other->Allowed().only, 23);
  }
  EXPECT_EQ(old->Allowed().only, 1);
  EXPECT_EQ(Ids(constraints.Make(Regex("abc")).value()->Allowed()), (std::vector<int32_t>{0, kAb}));
}

TEST(GrammarConstraintsTest, KindAndTextTogetherAreTheGrammar) {
  GrammarConstraints constraints(Letters());
  EXPECT_EQ(constraints.Make(Regex("[\"a\"]")).value()->Allowed().only, 0);
  const OutputGrammar choice = {.kind = GrammarKind::kChoice, .text = "[\"b\"]"};
  EXPECT_EQ(constraints.Make(choice).value()->Allowed().only, 1);
  EXPECT_EQ(constraints.Make({.kind = GrammarKind::kRegex, .text = choice.text}).value()->Allowed().only, 1);
}

TEST(GrammarConstraintsTest, RefusesWhatDoesNotCompileAndModelsWithoutAnEnd) {
  GrammarConstraints constraints(Letters());
  EXPECT_TRUE(absl::IsInvalidArgument(constraints.Make(Regex("(a")).status()));
  GrammarConstraints endless(Letters({}));
  EXPECT_TRUE(absl::IsUnimplemented(endless.Make(Regex("a")).status()));
}

}  // namespace
}  // namespace baton::worker
