// What joins a step, what is preempted and what comes back.
#include <algorithm>
#include <map>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/checked_engine.h"
#include "engine/testing/run_engine.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

TEST(EngineScheduling, PromptDigestSurvivesPreemptionInTheMiddleOfThePrompt) {
  const Digest128 expected = [] {
    TestEngine alone(8);
    const SequenceId id = Start(alone.engine, Spec(Prompt(53, 9), 1));
    alone.engine.Step();
    return alone.engine.PromptDigest(id);
  }();
  // The old sequence needs its third block while the young one is at its prompt.
  TestEngine test(6, {.chunk_tokens = 16, .prefix_cache = false});
  std::map<SequenceId, Outcome> outcomes;
  const SequenceId old = Start(test.engine, Spec(Prompt(31), 4));
  for (int i = 0; i < 2; ++i) Collect(test.engine.Step(), outcomes);
  const SequenceId young = Start(test.engine, Spec(Prompt(53, 9), 1));
  Collect(test.engine.Step(), outcomes);
  EXPECT_EQ(outcomes[young].computed, (std::vector<int32_t>{16}));
  Collect(test.engine.Step(), outcomes);
  ASSERT_EQ(test.engine.Load().preempted, 1);
  outcomes = RunAll(test.engine, outcomes);
  for (BlockId block = 0; block < 6; ++block) std::fill(test.Block(block).begin(), test.Block(block).end(), 0x77);
  test.engine.Release(old);
  RunAll(test.engine, outcomes);
  EXPECT_EQ(test.engine.PromptDigest(young), expected);
}

TEST(EngineScheduling, PreemptsTheYoungestAndBothFinishWithTheirTokens) {
  TestEngine test(5, {.chunk_tokens = 64});
  const SequenceId old = Start(test.engine, Spec(Prompt(30), 30));
  const SequenceId young = Start(test.engine, Spec(Prompt(30, 9), 30));
  std::map<SequenceId, Outcome> outcomes;
  bool young_was_preempted = false;
  while (test.HasWork()) {
    Collect(test.engine.Step(), outcomes);
    if (test.engine.Load().preempted > 0) {
      young_was_preempted = true;
      EXPECT_LT(outcomes[young].tokens.size(), 30u);
    }
    if (outcomes[old].finish != FinishReason::kNone && outcomes[young].finish == FinishReason::kNone) {
      test.engine.Stop(old);
    }
    if (outcomes[old].finish != FinishReason::kNone && test.engine.Load().preempted > 0) break;
  }
  EXPECT_TRUE(young_was_preempted);
  EXPECT_EQ(outcomes[old].tokens, FakeModelTokens({}, Prompt(30), Spec({}, 30).sampling, {}));
  // A finished sequence keeps its blocks; without them the young one has no room.
  EXPECT_FALSE(test.engine.HasWork());
  test.engine.Release(old);
  EXPECT_TRUE(test.engine.HasWork());
  while (test.HasWork()) Collect(test.engine.Step(), outcomes);
  EXPECT_EQ(outcomes[young].tokens, FakeModelTokens({}, Prompt(30, 9), Spec({}, 30).sampling, {}));
  test.engine.Release(young);
  EXPECT_EQ(test.engine.Load().used_blocks, 0);
}

TEST(EngineScheduling, SequenceThatAPeerReadsIsNeverPreempted) {
  TestEngine test(5, {.chunk_tokens = 16});
  std::map<SequenceId, Outcome> outcomes;
  const SequenceId old = Start(test.engine, Spec(Prompt(30), 40));
  for (int i = 0; i < 2; ++i) Collect(test.engine.Step(), outcomes);
  const SequenceId held = Start(test.engine, Spec(Prompt(40, 9), 1, true));
  const std::vector<BlockId> blocks = test.engine.PromptBlocks(held);
  while (test.HasWork()) {
    Collect(test.engine.Step(), outcomes);
    ASSERT_EQ(test.engine.PromptBlocks(held), blocks);
  }
  EXPECT_EQ(outcomes[held].tokens.size(), 1u);
  EXPECT_EQ(test.engine.Load().preempted, 1);
  test.engine.Release(held);
  while (test.HasWork()) Collect(test.engine.Step(), outcomes);
  EXPECT_EQ(outcomes[old].tokens, FakeModelTokens({}, Prompt(30), Spec({}, 40).sampling, {}));
}

TEST(EngineScheduling, ChunksEndAtBlocksWhileOthersDecode) {
  TestEngine test(64, {.chunk_tokens = 64});
  for (int32_t i = 0; i < 3; ++i) Start(test.engine, Spec(Prompt(10, i), 20));
  std::map<SequenceId, Outcome> outcomes;
  Collect(test.engine.Step(), outcomes);
  // CheckedModel looks at the ends; three decode rows leave 61 rows, which is 48.
  const SequenceId id = Start(test.engine, Spec(Prompt(100, 9), 1));
  EXPECT_EQ(RunAll(test.engine, outcomes)[id].computed, (std::vector<int32_t>{48, 100}));
}

TEST(EngineScheduling, PrefillAndDecodeShareASlotLimit) {
  TestEngine test(64, {.chunk_tokens = 16, .max_sequences = 2});
  for (int32_t i = 0; i < 3; ++i) Start(test.engine, Spec(Prompt(10, i), 50));
  std::map<SequenceId, Outcome> outcomes;
  while (test.HasWork()) {
    const absl::Span<const StepEvent> events = test.engine.Step();
    EXPECT_LE(events.size(), 2u);
    Collect(events, outcomes);
  }
  for (const auto& [id, outcome] : outcomes) EXPECT_EQ(outcome.tokens.size(), 50u);
}

TEST(EngineScheduling, AWaitingPromptGetsOneOfTwoSlotsBesideLongDecodes) {
  TestEngine test(64, {.chunk_tokens = 64, .max_sequences = 2});
  std::map<SequenceId, Outcome> outcomes;
  for (int32_t i = 0; i < 2; ++i) Start(test.engine, Spec(Prompt(10, i), 200));
  for (int i = 0; i < 3; ++i) Collect(test.engine.Step(), outcomes);
  const SequenceId third = Start(test.engine, Spec(Prompt(10, 9), 200));
  for (int i = 0; i < 4; ++i) Collect(test.engine.Step(), outcomes);
  EXPECT_GE(outcomes[third].tokens.size(), 1u);
}

TEST(EngineScheduling, APreemptedSequenceComesBackOnlyWhenEachRunningOneHasABlockToSpare) {
  TestEngine test(7, {.chunk_tokens = 64, .prefix_cache = false});
  // Leaves five blocks to the others.
  const SequenceId holder = test.engine.Reserve(Spec(Prompt(32, 3), 1)).value();
  const SequenceId old = Start(test.engine, Spec(Prompt(46), 30));
  Start(test.engine, Spec(Prompt(30, 9), 30));
  std::map<SequenceId, Outcome> outcomes;
  for (int i = 0; i < 20 && test.engine.Load().preempted == 0; ++i) Collect(test.engine.Step(), outcomes);
  ASSERT_EQ(test.engine.Load().preempted, 1);
  // The young sequence needs three blocks, and the old one will need another in a while.
  test.engine.Release(holder);
  ASSERT_EQ(test.engine.available_blocks(), 3);
  for (int i = 0; i < 5; ++i) {
    Collect(test.engine.Step(), outcomes);
    EXPECT_EQ(test.engine.Load().preempted, 1);
  }
  test.engine.Stop(old);
  EXPECT_TRUE(test.engine.HasWork());
  Collect(test.engine.Step(), outcomes);
  EXPECT_EQ(test.engine.Load().preempted, 0);
}

TEST(EngineScheduling, OfTwoPreemptedSequencesTheOlderComesBackFirst) {
  TestEngine test(7, {.chunk_tokens = 128, .prefix_cache = false});
  const SequenceId first = Start(test.engine, Spec(Prompt(46), 60));
  const SequenceId older = Start(test.engine, Spec(Prompt(30, 9), 40));
  Start(test.engine, Spec(Prompt(30, 5), 40));
  for (int i = 0; i < 50 && test.engine.Load().preempted < 2; ++i) test.engine.Step();
  ASSERT_EQ(test.engine.Load().preempted, 2);
  test.engine.Release(first);
  const absl::Span<const StepEvent> events = test.engine.Step();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events.front().sequence, older);
}

SequenceSpec AloneSpec(std::vector<int32_t> prompt, int32_t max_tokens, int32_t alone_outputs) {
  SequenceSpec spec = Spec(std::move(prompt), max_tokens);
  spec.alone_outputs = alone_outputs;
  return spec;
}

TEST(EngineScheduling, ASequenceThatRunsAloneHasStepsOfItsOwnThatTakeTurnsWithThoseOfAllOthers) {
  TestEngine test(64, {.chunk_tokens = 16});
  std::map<SequenceId, Outcome> outcomes;
  std::vector<SequenceId> others;
  for (int32_t i = 0; i < 2; ++i) others.push_back(Start(test.engine, Spec(Prompt(10, i), 20)));
  for (int i = 0; i < 2; ++i) Collect(test.engine.Step(), outcomes);
  // A prompt of two chunks, then one output of decode.
  const SequenceId alone = Start(test.engine, AloneSpec(Prompt(20, 9), 6, 2));
  std::vector<size_t> rows_of;
  std::vector<bool> was_alone;
  while (outcomes[alone].tokens.size() < 2) {
    const absl::Span<const StepEvent> events = test.engine.Step();
    const bool has_it =
        std::any_of(events.begin(), events.end(), [&](const StepEvent& event) { return event.sequence == alone; });
    if (has_it) {
      EXPECT_EQ(events.size(), 1u);
      EXPECT_EQ(events[0].step_sequences, 1);
    }
    was_alone.push_back(has_it);
    Collect(events, outcomes);
  }
  EXPECT_EQ(was_alone, (std::vector<bool>{true, false, true, false, true}));
  // From its third output on it has company again.
  test.engine.Step();
  EXPECT_EQ(test.engine.Step().size(), 3u);
}

TEST(EngineScheduling, SequencesThatRunAloneTakeTurnsAndGiveTheSameTokens) {
  TestEngine test(64, {.chunk_tokens = 64});
  std::map<SequenceId, Outcome> outcomes;
  std::vector<SequenceId> alone;
  for (int32_t i = 0; i < 3; ++i) alone.push_back(Start(test.engine, AloneSpec(Prompt(10, i), 8, 8)));
  std::vector<SequenceId> order;
  for (int i = 0; i < 6; ++i) {
    const absl::Span<const StepEvent> events = test.engine.Step();
    ASSERT_EQ(events.size(), 1u);
    order.push_back(events[0].sequence);
    Collect(events, outcomes);
  }
  EXPECT_EQ(order, (std::vector<SequenceId>{alone[0], alone[1], alone[2], alone[0], alone[1], alone[2]}));
  outcomes = RunAll(test.engine, outcomes);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(outcomes[alone[static_cast<size_t>(i)]].tokens,
              FakeModelTokens({}, Prompt(10, i), Spec({}, 8).sampling, {}));
  }
}

TEST(EngineScheduling, SequencesThatRunAloneFinishInAPoolThatIsTooSmallForAll) {
  TestEngine test(5, {.chunk_tokens = 64});
  std::map<SequenceId, Outcome> outcomes;
  const SequenceId alone = Start(test.engine, AloneSpec(Prompt(30), 20, 20));
  const SequenceId other = Start(test.engine, Spec(Prompt(30, 9), 20));
  bool preempted = false;
  while (test.HasWork()) {
    Collect(test.engine.Step(), outcomes);
    preempted = preempted || test.engine.Load().preempted > 0;
    for (const SequenceId id : {alone, other}) {
      if (outcomes[id].finish == FinishReason::kNone || outcomes[id].computed.empty()) continue;
      test.engine.Release(id);
      outcomes[id].computed.clear();
    }
  }
  EXPECT_TRUE(preempted);
  EXPECT_EQ(outcomes[alone].tokens, FakeModelTokens({}, Prompt(30), Spec({}, 20).sampling, {}));
  EXPECT_EQ(outcomes[other].tokens, FakeModelTokens({}, Prompt(30, 9), Spec({}, 20).sampling, {}));
}

}  // namespace
}  // namespace baton::engine
