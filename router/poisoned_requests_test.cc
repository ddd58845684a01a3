#include "router/poisoned_requests.h"

#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

JobSpec Request(std::vector<int32_t> prompt) {
  JobSpec job;
  job.prompt = std::move(prompt);
  return job;
}

TEST(PoisonedRequestsTest, TheSameRequestIsKnownWhateverItsSeedAndTheOutputsThatItHadWhenAWorkerDied) {
  ManualClock clock;
  PoisonedRequests poisoned(clock);
  JobSpec died = Request({1, 2, 3, 70, 71});
  died.emitted = 2;
  died.sampling.seed = 5;
  poisoned.Add(died);
  EXPECT_TRUE(poisoned.Contains(Request({1, 2, 3})));
  EXPECT_FALSE(poisoned.Contains(Request({1, 2, 3, 70, 71})));
}

TEST(PoisonedRequestsTest, AnotherPromptOrParameterIsAnotherRequest) {
  ManualClock clock;
  PoisonedRequests poisoned(clock);
  poisoned.Add(Request({1, 2, 3}));
  EXPECT_FALSE(poisoned.Contains(Request({1, 2, 4})));
  JobSpec other = Request({1, 2, 3});
  other.sampling.top_k = 40;
  EXPECT_FALSE(poisoned.Contains(other));
  other = Request({1, 2, 3});
  other.sampling.logit_bias = {{.token = 5, .bias = -100}};
  EXPECT_FALSE(poisoned.Contains(other));
  poisoned.Add(other);
  EXPECT_TRUE(poisoned.Contains(other));
  other.sampling.logit_bias[0].bias = -99;
  EXPECT_FALSE(poisoned.Contains(other));
  other.sampling.logit_bias[0] = {.token = 6, .bias = -100};
  EXPECT_FALSE(poisoned.Contains(other));
  other = Request({1, 2, 3});
  other.sampling.grammar = {.kind = GrammarKind::kRegex, .text = "a"};
  EXPECT_FALSE(poisoned.Contains(other));
  poisoned.Add(other);
  EXPECT_TRUE(poisoned.Contains(other));
  other.sampling.grammar.text = "b";
  EXPECT_FALSE(poisoned.Contains(other));
}

TEST(PoisonedRequestsTest, ARequestIsServedAgainAfterItsTime) {
  ManualClock clock;
  PoisonedRequests poisoned(clock);
  poisoned.Add(Request({1, 2, 3}));
  clock.AdvanceMs(PoisonedRequests::kRefusalMs - 1);
  EXPECT_TRUE(poisoned.Contains(Request({1, 2, 3})));
  clock.AdvanceMs(1);
  EXPECT_FALSE(poisoned.Contains(Request({1, 2, 3})));
}

TEST(PoisonedRequestsTest, TheOldestIsForgottenBeyondTheBound) {
  ManualClock clock;
  PoisonedRequests poisoned(clock);
  for (size_t i = 0; i <= PoisonedRequests::kMaxKept; ++i) poisoned.Add(Request({static_cast<int32_t>(i)}));
  EXPECT_FALSE(poisoned.Contains(Request({0})));
  EXPECT_TRUE(poisoned.Contains(Request({1})));
}

}  // namespace
}  // namespace baton::router
