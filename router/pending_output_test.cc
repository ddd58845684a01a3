#include "router/pending_output.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton::router {
namespace {

TEST(PendingOutput, AWholeAnswerMayTakeItsBoundInMemoryAndNotAByteMore) {
  PendingOutput pending(kWholeAnswerLimits);
  GenerationDelta delta;
  delta.text.assign(kMaxWholeAnswerBytes, 'x');
  EXPECT_TRUE(pending.Fits(delta));
  delta.text.push_back('x');
  EXPECT_FALSE(pending.Fits(delta));
  delta.text.resize(kMaxWholeAnswerBytes - 1);
  pending.Append(delta);
  delta.text = "x";
  EXPECT_TRUE(pending.Fits(delta));
  delta.text = "xx";
  EXPECT_FALSE(pending.Fits(delta));
}

TEST(PendingOutput, TheEndOfAChoiceCanWaitForItsOutput) {
  PendingOutput pending;
  pending.Append({.text = "a", .tokens = {OutputToken()}, .choice = 2, .end = ChoiceEnd{}});
  pending.Append({.text = "b", .choice = 1});
  const GenerationDelta output = pending.TakeOutput();
  EXPECT_EQ(output.text, "a");
  EXPECT_EQ(output.tokens.size(), 1u);
  EXPECT_FALSE(output.end.has_value());
  EXPECT_EQ(pending.TakeOutput().text, "b");
  const GenerationDelta end = pending.TakeOutput();
  EXPECT_EQ(end.choice, 2);
  EXPECT_EQ(end.text, "");
  EXPECT_TRUE(end.end.has_value());
  EXPECT_TRUE(pending.empty());
}

TEST(PendingOutput, AllOfItIsInTheOrderOfTheChoices) {
  PendingOutput pending(kWholeAnswerLimits);
  pending.Append({.text = "c", .choice = 2});
  pending.Append({.text = "a", .choice = 0});
  const std::vector<GenerationDelta> all = pending.TakeAll(3);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].text, "a");
  EXPECT_EQ(all[1].text, "");
  EXPECT_EQ(all[2].text, "c");
  EXPECT_TRUE(pending.empty());
  EXPECT_EQ(pending.TakeAll(0).size(), 1u) << "a request for one choice names none";
}

GenerationDelta Tokens(size_t count) {
  GenerationDelta delta;
  delta.tokens.resize(count);
  return delta;
}

TEST(PendingOutput, AClientIsBehindFromHalfOfTheBoundOnUntilAQuarterIsLeft) {
  PendingOutput pending({.tokens = 8, .bytes = 1u << 20});
  pending.Append(Tokens(4));
  EXPECT_FALSE(pending.is_behind());
  GenerationDelta other = Tokens(3);
  other.choice = 1;
  pending.Append(other);
  EXPECT_TRUE(pending.is_behind());
  pending.Take();
  EXPECT_TRUE(pending.is_behind()) << "three of eight wait";
  pending.Append(Tokens(2));
  pending.Take();
  EXPECT_FALSE(pending.is_behind()) << "two of eight wait";
  pending.Append(Tokens(2));
  EXPECT_FALSE(pending.is_behind()) << "four of eight wait";
  pending.Append(Tokens(1));
  EXPECT_TRUE(pending.is_behind());
  pending.Clear();
  EXPECT_FALSE(pending.is_behind());
}

TEST(PendingOutput, AClientIsBehindByTheBytesOfTheTextAlone) {
  PendingOutput pending({.tokens = 100, .bytes = 8});
  pending.Append({.text = "1234"});
  EXPECT_FALSE(pending.is_behind());
  pending.Append({.text = "5"});
  EXPECT_TRUE(pending.is_behind());
}

}  // namespace
}  // namespace baton::router
