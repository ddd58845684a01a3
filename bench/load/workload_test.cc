#include "bench/load/workload.h"

#include <algorithm>
#include <numeric>

#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

WorkloadOptions Poisson() {
  return {
      .requests = 20000, .prompt_tokens = {100, 200}, .output_tokens = {5, 5}, .requests_per_second = 50, .seed = 7};
}

TEST(PlanWorkload, IsTheSameForTheSameSeed) {
  WorkloadOptions options = Poisson();
  EXPECT_EQ(PlanWorkload(options), PlanWorkload(options));
  const auto first = PlanWorkload(options);
  options.seed = 8;
  EXPECT_NE(PlanWorkload(options), first);
}

TEST(PlanWorkload, LengthsReachBothEndsOfTheirRange) {
  const auto plan = PlanWorkload(Poisson());
  const auto [min, max] = std::minmax_element(
      plan.begin(), plan.end(), [](const auto& a, const auto& b) { return a.prompt_tokens < b.prompt_tokens; });
  EXPECT_EQ(min->prompt_tokens, 100);
  EXPECT_EQ(max->prompt_tokens, 200);
  EXPECT_THAT(plan, Each(testing::Field(&PlannedRequest::output_tokens, 5)));
}

// Gaps of a Poisson process are exponential: their mean and standard deviation are both 1 / rate.
TEST(PlanWorkload, GapsAreExponential) {
  const auto plan = PlanWorkload(Poisson());
  std::vector<double> gaps_s;
  int64_t last = 0;
  for (const PlannedRequest& request : plan) {
    ASSERT_GE(request.arrival_ns, last);
    gaps_s.push_back(static_cast<double>(request.arrival_ns - last) / kNsPerSecond);
    last = request.arrival_ns;
  }
  const double mean = std::accumulate(gaps_s.begin(), gaps_s.end(), 0.0) / gaps_s.size();
  double squares = 0;
  for (double gap : gaps_s) squares += (gap - mean) * (gap - mean);
  EXPECT_NEAR(mean, 0.02, 0.0006);
  EXPECT_NEAR(squares / gaps_s.size(), 0.02 * 0.02, 0.00002);
}

TEST(PlanWorkload, AClosedLoopIsDueAtOnce) {
  WorkloadOptions options = Poisson();
  options.requests_per_second = 0;
  EXPECT_THAT(PlanWorkload(options), Each(testing::Field(&PlannedRequest::arrival_ns, 0)));
}

TEST(ParseTrace, ReadsLinesInOrder) {
  const auto plan = ParseTrace("arrival,in,out\n# warm\n0, 512, 128\n\n0.25,16,1 # short\r\n0.25,8,2");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(*plan, ElementsAre(PlannedRequest{0, 512, 128}, PlannedRequest{kNsPerSecond / 4, 16, 1},
                                 PlannedRequest{kNsPerSecond / 4, 8, 2}));
}

TEST(ParseTrace, NamesTheLineThatIsWrong) {
  for (const char* line : {"1,2", "1,2,3,4", "-1,2,3", "nan,2,3", "1,0,3", "1,2,0", "1,2,1048577", "1,2,3x"}) {
    const auto plan = ParseTrace(std::string("0,1,1\n") + line);
    ASSERT_FALSE(plan.ok()) << line;
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr("line 2")) << line;
  }
}

TEST(ParseTrace, RefusesTimeRunningBackAndNothing) {
  EXPECT_FALSE(ParseTrace("2,1,1\n1,1,1").ok());
  EXPECT_FALSE(ParseTrace("# nothing\n").ok());
}

TEST(ParseLengthRange, TakesOneNumberOrTwo) {
  EXPECT_EQ(ParseLengthRange("512")->max, 512);
  EXPECT_EQ(ParseLengthRange("128:512")->min, 128);
  for (const char* text : {"", "0", "5:4", "1:2:3", "a", "1048577"}) EXPECT_FALSE(ParseLengthRange(text).ok()) << text;
}

TEST(PromptIds, AreRepeatableDistinctAndInTheVocabulary) {
  const auto ids = PromptIds(3, 11, 1000, 50);
  EXPECT_EQ(ids, PromptIds(3, 11, 1000, 50));
  EXPECT_NE(ids, PromptIds(3, 12, 1000, 50));
  EXPECT_NE(ids, PromptIds(4, 11, 1000, 50));
  EXPECT_EQ(*std::min_element(ids.begin(), ids.end()), 0);
  EXPECT_EQ(*std::max_element(ids.begin(), ids.end()), 49);
}

}  // namespace
}  // namespace baton::bench
