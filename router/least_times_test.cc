#include "router/least_times.h"

#include "gtest/gtest.h"

namespace baton::router {
namespace {

class LeastTimesTest : public ::testing::Test {
 protected:
  void See(int prompts, int64_t size, int64_t elapsed_ns) {
    for (int i = 0; i < prompts; ++i) times_.Add(size, elapsed_ns);
  }

  LeastTimes times_;
};

TEST_F(LeastTimesTest, TheLeastTimeOfPromptsOfTheLengthCounts) {
  See(LeastTimes::kFewest, 100, 900);
  See(1, 120, 300);
  EXPECT_EQ(times_.Of(100), 300);
}

TEST_F(LeastTimesTest, AFewPromptsSayNothing) {
  See(LeastTimes::kFewest - 1, 100, 900);
  EXPECT_EQ(times_.Of(100), 0);
}

TEST_F(LeastTimesTest, ALongerPromptTakesAtLeastTheTimeOfShorterOnesAndAShorterOneAnyTime) {
  See(LeastTimes::kFewest, 100, 900);
  EXPECT_EQ(times_.Of(100'000), 900);
  EXPECT_EQ(times_.Of(10), 0);
  See(LeastTimes::kFewest, 2'000, 7'000);
  EXPECT_EQ(times_.Of(2'000), 7'000);
  EXPECT_EQ(times_.Of(100), 900) << "the time of a longer one";
}

TEST_F(LeastTimesTest, ATimeIsForgottenAfterTwiceAsManyPromptsAsAreRemembered) {
  See(1, 100, 300);
  See(LeastTimes::kRemembered, 100, 900);
  EXPECT_EQ(times_.Of(100), 300);
  See(LeastTimes::kRemembered, 100, 900);
  EXPECT_EQ(times_.Of(100), 900);
}

}  // namespace
}  // namespace baton::router
