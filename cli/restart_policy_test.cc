#include "cli/restart_policy.h"

#include <set>

#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;
using ::testing::SizeIs;
using Action = RestartPolicy::Action;

constexpr int64_t kTickMs = 100;

class RestartPolicyTest : public ::testing::Test {
 protected:
  void StartChild() { ASSERT_EQ(policy_.Tick(ChildHealth::kUnknown), Action::kStart); }

  void StartAndServe() {
    StartChild();
    policy_.OnReady();
  }

  // Ticks like the supervisor for `ms`; the first action, or none, and when it came.
  Action Run(int64_t ms, ChildHealth health) {
    for (passed_ms_ = 0; passed_ms_ < ms;) {
      clock_.AdvanceMs(kTickMs);
      passed_ms_ += kTickMs;
      if (const Action action = policy_.Tick(health); action != Action::kNone) return action;
    }
    return Action::kNone;
  }

  int64_t BackoffOfNextDeath() {
    policy_.OnEnd();
    const int64_t backoff_ms = policy_.backoff_ms();
    clock_.AdvanceMs(backoff_ms);
    StartChild();
    return backoff_ms;
  }

  ManualClock clock_;
  SeededRandom random_{7};
  RestartPolicy policy_{{}, clock_, random_};
  int64_t passed_ms_ = 0;
};

TEST_F(RestartPolicyTest, AChildThatServedIsStartedAtOnceHoweverBrieflyAndOftenItServed) {
  for (int i = 0; i < 20; ++i) {
    StartAndServe();
    policy_.OnEnd();
    EXPECT_EQ(policy_.backoff_ms(), 0);
  }
  StartChild();
}

TEST_F(RestartPolicyTest, ADeathBeforeReadyIsFollowedByABackoff) {
  StartChild();
  policy_.OnEnd();
  ASSERT_THAT(policy_.backoff_ms(), AllOf(Ge(100), Le(200)));
  clock_.AdvanceMs(policy_.backoff_ms() - 1);
  EXPECT_EQ(policy_.Tick(ChildHealth::kUnknown), Action::kNone);
  clock_.AdvanceMs(1);
  EXPECT_EQ(policy_.Tick(ChildHealth::kUnknown), Action::kStart);
}

TEST_F(RestartPolicyTest, BackoffsDoubleUpToTheLongest) {
  StartChild();
  for (int64_t most : {200, 400, 800, 1'600, 3'200, 6'400, 10'000, 10'000}) {
    EXPECT_THAT(BackoffOfNextDeath(), AllOf(Ge(most / 2), Le(most)));
  }
  for (int i = 0; i < 100; ++i) EXPECT_THAT(BackoffOfNextDeath(), AllOf(Ge(5'000), Le(10'000)));
}

TEST_F(RestartPolicyTest, BackoffsOfChildrenThatDieTogetherDiffer) {
  std::set<int64_t> backoffs_ms;
  for (int i = 0; i < 20; ++i) {
    RestartPolicy other({.first_backoff_ms = 10'000}, clock_, random_);
    ASSERT_EQ(other.Tick(ChildHealth::kUnknown), Action::kStart);
    other.OnEnd();
    backoffs_ms.insert(other.backoff_ms());
  }
  EXPECT_THAT(backoffs_ms, SizeIs(Ge(15)));
}

TEST_F(RestartPolicyTest, ReadyForgetsTheDeathsBeforeIt) {
  StartChild();
  for (int i = 0; i < 6; ++i) BackoffOfNextDeath();
  policy_.OnReady();
  policy_.OnEnd();
  EXPECT_EQ(policy_.backoff_ms(), 0);
  StartChild();
  EXPECT_THAT(BackoffOfNextDeath(), Le(200));
}

TEST_F(RestartPolicyTest, AChildThatDoesNotGetReadyIsKilledAndStartedAfterABackoff) {
  StartChild();
  EXPECT_EQ(Run(1'000'000, ChildHealth::kUnknown), Action::kKill);
  EXPECT_EQ(passed_ms_, 900'000) << "loading a large model takes minutes";
  EXPECT_EQ(Run(1'000'000, ChildHealth::kUnknown), Action::kNone) << "it was killed twice, or started before its end";
  policy_.OnEnd();
  EXPECT_THAT(policy_.backoff_ms(), Ge(100));
}

TEST_F(RestartPolicyTest, AServingChildThatIsAmissForAMinuteIsKilledAndStartedAtOnce) {
  StartAndServe();
  EXPECT_EQ(Run(200'000, ChildHealth::kAmiss), Action::kKill);
  EXPECT_EQ(passed_ms_, 60'000);
  policy_.OnEnd();
  EXPECT_EQ(policy_.backoff_ms(), 0);
}

TEST_F(RestartPolicyTest, AChildThatIsWellOrUnknownNowAndThenIsNotKilled) {
  StartAndServe();
  for (const ChildHealth health : {ChildHealth::kWell, ChildHealth::kUnknown, ChildHealth::kWell}) {
    EXPECT_EQ(Run(59'900, ChildHealth::kAmiss), Action::kNone);
    EXPECT_EQ(Run(kTickMs, health), Action::kNone);
  }
  EXPECT_EQ(Run(600'000, ChildHealth::kUnknown), Action::kNone);
}

TEST_F(RestartPolicyTest, AStoppedChildIsNotKilledAndHasItsWholeTimeWhenItGoesOn) {
  StartAndServe();
  EXPECT_EQ(Run(59'900, ChildHealth::kAmiss), Action::kNone);
  EXPECT_EQ(Run(600'000, ChildHealth::kStopped), Action::kNone);
  EXPECT_EQ(Run(59'900, ChildHealth::kAmiss), Action::kNone);
}

TEST_F(RestartPolicyTest, AChildThatIsStoppedWhileItLoadsIsNotKilled) {
  StartChild();
  EXPECT_EQ(Run(899'900, ChildHealth::kUnknown), Action::kNone);
  EXPECT_EQ(Run(600'000, ChildHealth::kStopped), Action::kNone);
  EXPECT_EQ(Run(kTickMs, ChildHealth::kUnknown), Action::kKill);
}

TEST_F(RestartPolicyTest, APauseOfTheSupervisorItselfCountsAsOneTick) {
  StartAndServe();
  EXPECT_EQ(Run(kTickMs, ChildHealth::kAmiss), Action::kNone);
  clock_.AdvanceMs(3'600'000);
  EXPECT_EQ(policy_.Tick(ChildHealth::kAmiss), Action::kNone);
  EXPECT_EQ(Run(58'800, ChildHealth::kAmiss), Action::kNone);
  EXPECT_EQ(Run(kTickMs, ChildHealth::kAmiss), Action::kKill);
}

TEST_F(RestartPolicyTest, AFailedStartIsADeathBeforeReady) {
  for (int64_t most : {200, 400}) {
    StartChild();
    policy_.OnEnd();
    EXPECT_THAT(policy_.backoff_ms(), AllOf(Ge(most / 2), Le(most)));
    clock_.AdvanceMs(policy_.backoff_ms());
  }
}

}  // namespace
}  // namespace baton::cli
