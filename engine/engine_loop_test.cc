#include "engine/engine_loop.h"

#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "common/testing/manual_clock.h"
#include "engine/step_gate.h"
#include "engine/testing/checked_engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Counts, and lets something happen while the loop waits.
class FakeGate final : public StepGate {
 public:
  void Enter() override {
    calls.push_back('e');
    if (during_wait != nullptr) std::exchange(during_wait, nullptr)();
  }
  bool yields() const override { return false; }
  bool ShouldYield() override { return false; }
  void Yield() override {}
  void Leave() override { calls.push_back('l'); }
  int64_t wait_ns() const override { return waited_ns; }

  std::function<void()> during_wait;
  std::vector<char> calls;
  int64_t waited_ns = 0;
};

class NotingPolicy final : public PhasePolicy {
 public:
  bool OnStepEvent(const StepEvent& event) override {
    seen.push_back(event.sequence);
    if (on_event != nullptr) on_event();
    return event.sequence != not_mine;
  }
  void OnTimer() override {}
  TimeNs NextTimer() const override { return kNever; }

  std::vector<SequenceId> seen;
  SequenceId not_mine = 0;
  std::function<void()> on_event;
};

class EngineLoopTest : public testing::Test {
 protected:
  EngineLoopTest() : engine_(16, {.chunk_tokens = 64, .max_sequences = 4}) {}

  SequenceId Reserve() { return engine_.engine.Reserve({.prompt = {1, 2, 3}, .sampling = {.max_tokens = 4}}).value(); }

  TestEngine engine_;
  ManualClock clock_;
  NotingPolicy policy_;
  FakeGate gate_;
  NotingPolicy last_policy_;
  EngineLoop loop_{engine_.engine, clock_, {&policy_, &last_policy_}, [] {}, &gate_};
};

TEST_F(EngineLoopTest, WhatBecomesReadyWhileTheLoopWaitsForTheCoresIsInThatVeryStep) {
  const SequenceId first = Reserve();
  const SequenceId late = Reserve();
  engine_.engine.StartPrefill(first);
  gate_.during_wait = [&] { EXPECT_TRUE(loop_.Post([&] { engine_.engine.StartPrefill(late); })); };
  EXPECT_TRUE(loop_.RunOnce());
  EXPECT_THAT(policy_.seen, UnorderedElementsAre(first, late));
  EXPECT_THAT(gate_.calls, ElementsAre('e', 'l'));
}

TEST_F(EngineLoopTest, WhatIsSaidBeforeAStepIsReportedBeforeItsWaitAndBeforeIt) {
  EngineLoop loop(
      engine_.engine, clock_, {&policy_}, [this] { gate_.calls.push_back('r'); }, &gate_);
  engine_.engine.StartPrefill(Reserve());
  EXPECT_TRUE(loop.RunOnce());
  EXPECT_THAT(gate_.calls, ElementsAre('r', 'e', 'r', 'l'));
}

TEST_F(EngineLoopTest, AnEventGoesToTheFirstPolicyThatTakesIt) {
  const SequenceId first = Reserve();
  policy_.not_mine = Reserve();
  engine_.engine.StartPrefill(first);
  engine_.engine.StartPrefill(policy_.not_mine);
  loop_.RunOnce();
  EXPECT_THAT(policy_.seen, UnorderedElementsAre(first, policy_.not_mine));
  EXPECT_THAT(last_policy_.seen, ElementsAre(policy_.not_mine));
}

TEST_F(EngineLoopTest, WhileTheEngineHasWorkTheNextRoundIsDueNow) {
  EXPECT_EQ(loop_.NextRun(), kNever);
  engine_.engine.StartPrefill(Reserve());
  EXPECT_EQ(loop_.NextRun(), clock_.Now());
}

TEST_F(EngineLoopTest, WithoutWorkTheCoresAreNotAskedFor) {
  EXPECT_FALSE(loop_.RunOnce());
  EXPECT_THAT(gate_.calls, ElementsAre());
}

TEST_F(EngineLoopTest, WorkThatIsCancelledDuringTheWaitGivesTheCoresBack) {
  const SequenceId only = Reserve();
  engine_.engine.StartPrefill(only);
  gate_.during_wait = [&] { EXPECT_TRUE(loop_.Post([&] { engine_.engine.Release(only); })); };
  loop_.RunOnce();
  EXPECT_THAT(policy_.seen, ElementsAre());
  EXPECT_THAT(gate_.calls, ElementsAre('e', 'l'));
}

TEST_F(EngineLoopTest, TheTimeOfAStepIsWithoutItsWaitsForTheCores) {
  engine_.engine.StartPrefill(Reserve());
  gate_.during_wait = [&] {
    clock_.Advance(5 * kNsPerMs);
    // 2 ms of these are the work of the step, between waits.
    gate_.waited_ns += 3 * kNsPerMs;
  };
  loop_.RunOnce();
  EXPECT_EQ(loop_.last_step().compute_ns, 2 * kNsPerMs);
}

TEST_F(EngineLoopTest, TasksThatWaitForTheLoopAreBounded) {
  int64_t ran = 0;
  for (size_t i = 0; i < kMaxMailboxEvents; ++i) ASSERT_TRUE(loop_.Post([&] { ++ran; }));
  EXPECT_FALSE(loop_.Post([&] { ++ran; }));
  loop_.RunOnce();
  EXPECT_EQ(ran, static_cast<int64_t>(kMaxMailboxEvents));
  EXPECT_TRUE(loop_.Post([] {}));
}

TEST_F(EngineLoopTest, ProgressShowsTheStepUnderWayAndCountsThoseThatHaveEnded) {
  EXPECT_EQ(loop_.Progress().step_began, std::nullopt);
  loop_.RunOnce();
  EXPECT_EQ(loop_.Progress().steps, 0) << "an idle round is not a step";
  engine_.engine.StartPrefill(Reserve());
  const TimeNs began = clock_.Now();
  LoopProgress during;
  gate_.during_wait = [&] {
    clock_.Advance(kNsPerSecond);
    // As the thread that watches the loop would.
    std::thread([&] { during = loop_.Progress(); }).join();
  };
  loop_.RunOnce();
  EXPECT_EQ(during.step_began, began) << "a step that hangs at the gate grows old too";
  EXPECT_EQ(during.steps, 0);
  EXPECT_EQ(loop_.Progress().step_began, std::nullopt);
  EXPECT_EQ(loop_.Progress().steps, 1);
  loop_.RunOnce();
  EXPECT_EQ(loop_.Progress().steps, 2);
}

TEST_F(EngineLoopTest, ATaskThatHangsGrowsOldLikeAStep) {
  LoopProgress during;
  const TimeNs began = clock_.Now();
  ASSERT_TRUE(loop_.Post([&] {
    clock_.Advance(kNsPerSecond);
    std::thread([&] { during = loop_.Progress(); }).join();
  }));
  EXPECT_FALSE(loop_.RunOnce());
  EXPECT_EQ(during.step_began, began);
  EXPECT_EQ(loop_.Progress().step_began, std::nullopt);
  EXPECT_EQ(loop_.Progress().steps, 0) << "a task is not a step";
}

TEST_F(EngineLoopTest, WhomAStepIsForIsNotedUntilItsEventsAreDealtWith) {
  std::vector<JobKey> keys;
  for (uint64_t n = 1; n <= 2; ++n) {
    keys.push_back({.job = {.high = 7, .low = n}, .attempt = 1});
    engine_.engine.StartPrefill(engine_.engine.Reserve({.prompt = {1, 2, 3}, .job = keys.back()}).value());
  }
  std::vector<JobKey> noted;
  // What a policy does with an event can fail as well.
  policy_.on_event = [&] { noted = engine_.work.Read(); };
  EXPECT_TRUE(loop_.RunOnce());
  EXPECT_EQ(noted, keys);
  EXPECT_THAT(engine_.work.Read(), ElementsAre());
}

}  // namespace
}  // namespace baton::engine
