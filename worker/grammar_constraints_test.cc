#include "worker/grammar_constraints.h"

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/ids.h"
#include "common/random.h"
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
  EXPECT_TRUE(absl::IsInvalidArgument(constraints.Make(Regex("(a|b)*a(a|b){20}")).status()))
      << "a limit is no lack of room, for which a job would wait";
  GrammarConstraints endless(Letters({}));
  EXPECT_TRUE(absl::IsUnimplemented(endless.Make(Regex("a")).status()));
}

// The test is the thread beside the loop.
class ManualSide final : public SideWork {
 public:
  bool Post(const Id128& id, size_t bytes, std::function<Task()> work) override {
    if (is_full) return false;
    posted_bytes = bytes;
    ++posts;
    waiting_.emplace_back(id, std::move(work));
    return true;
  }
  void Drop(const Id128& id) override {
    waiting_.remove_if([&id](const auto& each) { return each.first == id; });
  }
  bool is_stopping() const override { return false; }

  size_t waiting() const { return waiting_.size(); }
  // Does the work that waits longest. The result is for the loop.
  Task RunNext() {
    const std::function<Task()> work = std::move(waiting_.front().second);
    waiting_.pop_front();
    return work();
  }

  bool is_full = false;
  int posts = 0;
  size_t posted_bytes = 0;

 private:
  std::list<std::pair<Id128, std::function<Task()>>> waiting_;
};

class PreparedGrammarTest : public ::testing::Test {
 protected:
  PreparedGrammarTest() { constraints_.PrepareBeside(side_, side_); }

  ManualSide side_;
  GrammarConstraints constraints_{Letters()};
};

TEST_F(PreparedGrammarTest, AGrammarIsReadyWhenItIsCompiledAndTheLoopHasHeardOfIt) {
  const auto prepared = constraints_.Prepare(Regex("abc?"));
  EXPECT_FALSE(prepared->is_ready());
  EXPECT_EQ(side_.posted_bytes, 4u);
  const SideWork::Task result = side_.RunNext();
  EXPECT_FALSE(prepared->is_ready());
  result();
  EXPECT_TRUE(prepared->is_ready());
  EXPECT_EQ(Ids(constraints_.Make(Regex("abc?")).value()->Allowed()), (std::vector<int32_t>{0, kAb}));
}

TEST_F(PreparedGrammarTest, EqualGrammarsAreCompiledOnce) {
  const auto first = constraints_.Prepare(Regex("abc"));
  const auto second = constraints_.Prepare(Regex("abc"));
  const auto other = constraints_.Prepare({.kind = GrammarKind::kEbnf, .text = "abc"});
  EXPECT_EQ(side_.posts, 2);
  side_.RunNext()();
  EXPECT_TRUE(first->is_ready());
  EXPECT_TRUE(second->is_ready());
  EXPECT_FALSE(other->is_ready());
  EXPECT_TRUE(constraints_.Prepare(Regex("abc"))->is_ready());
  EXPECT_EQ(side_.posts, 2);
}

TEST_F(PreparedGrammarTest, WhatNobodyWaitsForAnyMoreIsTakenBack) {
  auto first = constraints_.Prepare(Regex("abc"));
  auto second = constraints_.Prepare(Regex("abc"));
  first.reset();
  EXPECT_EQ(side_.waiting(), 1u);
  second.reset();
  EXPECT_EQ(side_.waiting(), 0u);
}

TEST_F(PreparedGrammarTest, AResultThatComesTooLateIsNotTakenForThatOfTheNextOne) {
  auto prepared = constraints_.Prepare(Regex("abc"));
  const SideWork::Task late = side_.RunNext();
  prepared.reset();
  prepared = constraints_.Prepare(Regex("abc"));
  late();
  EXPECT_FALSE(prepared->is_ready());
  side_.RunNext()();
  EXPECT_TRUE(prepared->is_ready());
}

TEST_F(PreparedGrammarTest, OneThatCannotBeUsedIsReadyAndMakeSaysWhy) {
  const auto prepared = constraints_.Prepare(Regex("(a"));
  side_.RunNext()();
  ASSERT_TRUE(prepared->is_ready());
  EXPECT_TRUE(absl::IsInvalidArgument(constraints_.Make(Regex("(a")).status()));
  side_.is_full = true;
  const auto refused = constraints_.Prepare(Regex("b"));
  ASSERT_TRUE(refused->is_ready());
  EXPECT_TRUE(absl::IsUnavailable(constraints_.Make(Regex("b")).status()));
}

TEST_F(PreparedGrammarTest, WhoeverHoldsAGrammarFindsItHoweverManyOthersCome) {
  const auto held = constraints_.Prepare(Regex("abc"));
  side_.RunNext()();
  auto running = constraints_.Make(Regex("a")).value();
  for (size_t i = 0; i < GrammarConstraints::kMaxKept; ++i) {
    const OutputGrammar other = Regex(absl::StrCat("x{", i + 1, "}"));
    const auto prepared = constraints_.Prepare(other);
    side_.RunNext()();
    EXPECT_TRUE(constraints_.Make(other).ok());
  }
  EXPECT_TRUE(constraints_.Prepare(Regex("abc"))->is_ready());
  EXPECT_TRUE(constraints_.Prepare(Regex("a"))->is_ready()) << "a sequence has it";
  running.reset();
  EXPECT_TRUE(constraints_.Prepare(Regex("x{1}"))->is_ready()) << "it was used lately";
  EXPECT_FALSE(constraints_.Prepare(Regex("a"))->is_ready());
}

TEST_F(PreparedGrammarTest, WhoeverDoesNotWaitGetsTheSame) {
  const auto prepared = constraints_.Prepare(Regex("ab"));
  const auto made = constraints_.Make(Regex("ab")).value();
  EXPECT_TRUE(prepared->is_ready());
  ASSERT_TRUE(made->Accept(0));
  side_.RunNext()();
  EXPECT_EQ(made->Allowed().only, 1);
  EXPECT_EQ(Ids(constraints_.Make(Regex("ab")).value()->Allowed()), (std::vector<int32_t>{0, kAb}));
}

// Long words and a grammar of which each word leads to places that no other leads to.
class HeavyMaskTest : public ::testing::Test {
 protected:
  static constexpr int32_t kWords = 4'000;

  HeavyMaskTest() { constraints_.PrepareBeside(compiles_, side_); }

  static std::shared_ptr<const grammar::Vocabulary> Words() {
    SeededRandom random(5);
    std::vector<std::string> texts;
    for (char c = 'a'; c <= 'z'; ++c) texts.emplace_back(1, c);
    for (int32_t i = 0; i < kWords; ++i) {
      std::string& word = texts.emplace_back();
      for (int letter = 0; letter < 10; ++letter) word += static_cast<char>('a' + random.Below(26));
    }
    texts.emplace_back();
    return grammar::Vocabulary::Create(std::move(texts), {26 + kWords});
  }
  static OutputGrammar Heavy() {
    std::string text = "root ::= \"\"";
    std::string rules;
    for (char c = 'a'; c <= 'z'; ++c) {
      absl::StrAppend(&text, " | \"", std::string(1, c), "\" root end", std::string(1, c));
      absl::StrAppend(&rules, "\nend", std::string(1, c), " ::= [a-z]");
    }
    return {.kind = GrammarKind::kEbnf, .text = text + rules};
  }
  // The mask as it is without a thread beside the loop, behind these tokens.
  static std::vector<uint64_t> Expected(const std::vector<int32_t>& tokens) {
    GrammarConstraints plain(Words());
    const auto constraint = plain.Make(Heavy()).value();
    for (const int32_t token : tokens) EXPECT_TRUE(constraint->Accept(token));
    const engine::AllowedTokens allowed = constraint->Allowed();
    return {allowed.words.begin(), allowed.words.end()};
  }
  static std::vector<uint64_t> MaskOf(engine::TokenConstraint& constraint) {
    const engine::AllowedTokens allowed = constraint.Allowed();
    return {allowed.words.begin(), allowed.words.end()};
  }

  ManualSide compiles_;
  ManualSide side_;
  GrammarConstraints constraints_{Words()};
};

TEST_F(HeavyMaskTest, AMaskThatTakesTooLongIsFoundBesideTheLoop) {
  const auto constraint = constraints_.Make(Heavy()).value();
  std::vector<int32_t> tokens;
  for (const int32_t token : {100, 7, 2'000, 30, 26 + 5}) {
    ASSERT_TRUE(constraint->Accept(token));
    tokens.push_back(token);
    if (constraint->IsReady()) continue;
    EXPECT_FALSE(constraint->IsReady());
    ASSERT_EQ(side_.waiting(), 1u) << "it is asked for once";
    side_.RunNext()();
    ASSERT_TRUE(constraint->IsReady());
    EXPECT_EQ(MaskOf(*constraint), Expected(tokens)) << tokens.size() << " tokens";
  }
  EXPECT_GE(side_.posts, 3);
  EXPECT_EQ(compiles_.posts, 0);
}

TEST_F(HeavyMaskTest, WhoeverDoesNotWaitForItGetsTheSame) {
  const auto constraint = constraints_.Make(Heavy()).value();
  ASSERT_TRUE(constraint->Accept(100));
  ASSERT_TRUE(constraint->Accept(2'000));
  ASSERT_FALSE(constraint->IsReady());
  EXPECT_EQ(MaskOf(*constraint), Expected({100, 2'000}));
  EXPECT_TRUE(constraint->Allows(200));
  const SideWork::Task late = side_.RunNext();
  ASSERT_TRUE(constraint->Accept(200));
  ASSERT_FALSE(constraint->IsReady());
  late();
  EXPECT_FALSE(constraint->IsReady()) << "it is not the mask of this place";
  side_.RunNext()();
  ASSERT_TRUE(constraint->IsReady());
  EXPECT_EQ(MaskOf(*constraint), Expected({100, 2'000, 200}));
}

TEST_F(HeavyMaskTest, AnOutputThatIsGoneLeavesNothingBehind) {
  auto constraint = constraints_.Make(Heavy()).value();
  ASSERT_TRUE(constraint->Accept(100));
  ASSERT_TRUE(constraint->Accept(2'000));
  ASSERT_FALSE(constraint->IsReady());
  constraint.reset();
  EXPECT_EQ(side_.waiting(), 0u);
  constraint = constraints_.Make(Heavy()).value();
  ASSERT_TRUE(constraint->Accept(100));
  ASSERT_TRUE(constraint->Accept(2'000));
  ASSERT_FALSE(constraint->IsReady());
  const SideWork::Task late = side_.RunNext();
  constraint.reset();
  late();
}

TEST_F(HeavyMaskTest, WithoutRoomBesideTheLoopItIsFoundThere) {
  side_.is_full = true;
  const auto constraint = constraints_.Make(Heavy()).value();
  ASSERT_TRUE(constraint->Accept(100));
  ASSERT_TRUE(constraint->Accept(2'000));
  ASSERT_TRUE(constraint->IsReady());
  EXPECT_EQ(MaskOf(*constraint), Expected({100, 2'000}));
}

TEST_F(PreparedGrammarTest, AModelWithoutAnEndPreparesNothing) {
  GrammarConstraints endless(Letters({}));
  endless.PrepareBeside(side_, side_);
  EXPECT_EQ(endless.Prepare(Regex("a")), nullptr);
  GrammarConstraints alone(Letters());
  EXPECT_EQ(alone.Prepare(Regex("a")), nullptr) << "nothing runs beside it";
}

}  // namespace
}  // namespace baton::worker
