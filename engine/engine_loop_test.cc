#include "engine/engine_loop.h"

#include <functional>
#include <utility>
#include <vector>

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

  std::function<void()> during_wait;
  std::vector<char> calls;
};

class NotingPolicy final : public PhasePolicy {
 public:
  bool OnStepEvent(const StepEvent& event) override {
    seen.push_back(event.sequence);
    return true;
  }
  void OnTimer() override {}
  TimeNs NextTimer() const override { return kNever; }

  std::vector<SequenceId> seen;
};

class EngineLoopTest : public testing::Test {
 protected:
  EngineLoopTest() : engine_(16, {.chunk_tokens = 64, .max_sequences = 4}) {}

  SequenceId Reserve() { return engine_.engine.Reserve({.prompt = {1, 2, 3}, .sampling = {.max_tokens = 4}}).value(); }

  TestEngine engine_;
  ManualClock clock_;
  NotingPolicy policy_;
  FakeGate gate_;
  EngineLoop loop_{engine_.engine, clock_, {&policy_}, [] {}, &gate_};
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

}  // namespace
}  // namespace baton::engine
