#include "engine/engine.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "engine/testing/checked_engine.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

std::vector<int32_t> Prompt(int32_t length, int32_t first = 1) {
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  for (int32_t i = 0; i < length; ++i) prompt[static_cast<size_t>(i)] = (first + i * 7) % 64;
  return prompt;
}

SequenceSpec Spec(std::vector<int32_t> prompt, int32_t max_tokens, bool prefill_only = false) {
  SequenceSpec spec;
  spec.prompt = std::move(prompt);
  spec.sampling.max_tokens = max_tokens;
  spec.prefill_only = prefill_only;
  return spec;
}

struct Outcome {
  std::vector<int32_t> tokens;
  FinishReason finish = FinishReason::kNone;
  std::vector<int32_t> computed;
};

void Collect(absl::Span<const StepEvent> events, std::map<SequenceId, Outcome>& outcomes) {
  for (const StepEvent& event : events) {
    Outcome& outcome = outcomes[event.sequence];
    outcome.computed.push_back(event.computed_tokens);
    if (!event.token) continue;
    ASSERT_EQ(event.token->index, static_cast<int32_t>(outcome.tokens.size()));
    ASSERT_EQ(outcome.finish, FinishReason::kNone);
    outcome.tokens.push_back(event.token->token);
    outcome.finish = event.token->finish;
  }
}

std::map<SequenceId, Outcome> RunAll(Engine& engine, std::map<SequenceId, Outcome> outcomes = {}) {
  constexpr int kMaxSteps = 100'000;
  for (int step = 0; engine.HasWork() && step < kMaxSteps; ++step) Collect(engine.Step(), outcomes);
  EXPECT_FALSE(engine.HasWork()) << "no progress";
  return outcomes;
}

SequenceId Start(Engine& engine, SequenceSpec spec) {
  const SequenceId id = engine.Reserve(std::move(spec)).value();
  engine.StartPrefill(id);
  return id;
}

TEST(Engine, RefusesWhatCanNeverRun) {
  TestEngine test(8, {}, {.context_length = 100});
  const auto refusal = [&](SequenceSpec spec) { return test.engine.Reserve(std::move(spec)).status(); };
  EXPECT_TRUE(absl::IsInvalidArgument(refusal(Spec({}, 1))));
  EXPECT_TRUE(absl::IsInvalidArgument(refusal(Spec({64}, 1))));
  EXPECT_TRUE(absl::IsInvalidArgument(refusal(Spec({-1}, 1))));
  EXPECT_TRUE(absl::IsInvalidArgument(refusal(Spec(Prompt(100), 1))));
  EXPECT_TRUE(refusal(Spec(Prompt(99), 1)).ok());
  SequenceSpec negative = Spec(Prompt(3), 1);
  negative.sampling.temperature = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(refusal(negative)));
}

TEST(Engine, RefusesAPromptWhoseOutputDoesNotFitThePool) {
  TestEngine test(4);
  // 64 rows fit; the last output's row is never run.
  EXPECT_TRUE(absl::IsInvalidArgument(test.engine.Reserve(Spec(Prompt(60), 6)).status()));
  EXPECT_TRUE(test.engine.Reserve(Spec(Prompt(60), 5)).ok());
}

TEST(Engine, ReserveRefusesWhenThePoolIsFullAndTakesNothing) {
  TestEngine test(4);
  EXPECT_TRUE(absl::IsResourceExhausted(test.engine.Reserve(Spec(Prompt(40), 1), 2).status()));
  EXPECT_EQ(test.engine.Load().used_blocks, 0);
  const SequenceId id = test.engine.Reserve(Spec(Prompt(40), 1), 1).value();
  EXPECT_EQ(test.engine.Load().used_blocks, 3);
  EXPECT_TRUE(absl::IsResourceExhausted(test.engine.Reserve(Spec(Prompt(17, 5), 1)).status()));
  test.engine.Release(id);
  EXPECT_EQ(test.engine.Load().used_blocks, 0);
  EXPECT_TRUE(test.engine.Reserve(Spec(Prompt(17, 5), 1)).ok());
}

TEST(Engine, TokensAreTheModelsOwn) {
  TestEngine test(16, {.chunk_tokens = 16});
  const SequenceId id = Start(test.engine, Spec(Prompt(50), 20));
  const Outcome outcome = RunAll(test.engine)[id];
  EXPECT_EQ(outcome.tokens, FakeModelTokens({}, Prompt(50), Spec({}, 20).sampling, {}));
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
  EXPECT_EQ(std::vector<int32_t>(outcome.computed.begin(), outcome.computed.begin() + 5),
            (std::vector<int32_t>{16, 32, 48, 50, 50}));
}

TEST(Engine, EndsWithTheContext) {
  TestEngine test(16, {}, {.context_length = 40});
  const SequenceId id = Start(test.engine, Spec(Prompt(33), 1000));
  const Outcome outcome = RunAll(test.engine)[id];
  EXPECT_EQ(outcome.tokens.size(), 7u);
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
}

TEST(Engine, EndsWithEosOrAStopTokenAndEmitsIt) {
  const std::vector<int32_t> free_run = FakeModelTokens({}, Prompt(20), Spec({}, 40).sampling, {});
  const int32_t third = free_run[2];
  ASSERT_EQ(std::find(free_run.begin(), free_run.begin() + 2, third), free_run.begin() + 2);
  const auto run = [&](std::vector<int32_t> eos_ids, auto change) {
    TestEngine test(16, {.eos_ids = std::move(eos_ids)});
    SequenceSpec spec = Spec(Prompt(20), 40);
    change(spec.sampling);
    const SequenceId id = Start(test.engine, spec);
    return RunAll(test.engine)[id];
  };
  const Outcome eos = run({third}, [](SamplingParams&) {});
  EXPECT_EQ(eos.tokens.size(), 3u);
  EXPECT_EQ(eos.tokens.back(), third);
  EXPECT_EQ(eos.finish, FinishReason::kStop);
  EXPECT_EQ(run({third}, [](SamplingParams& p) { p.ignore_eos = true; }).tokens, free_run);
  EXPECT_EQ(run({}, [&](SamplingParams& p) { p.stop_token_ids = {third}; }).tokens, eos.tokens);
  const Outcome later = run({third}, [](SamplingParams& p) { p.min_tokens = 10; });
  EXPECT_GE(later.tokens.size(), 11u);
  EXPECT_EQ(std::count(later.tokens.begin(), later.tokens.begin() + 10, third), 0);
  // An end at the last token allowed counts as a stop.
  EXPECT_EQ(run({third}, [](SamplingParams& p) { p.max_tokens = 3; }).finish, FinishReason::kStop);
}

TEST(Engine, PrefillOnlyEndsAfterItsFirstTokenAndKeepsItsBlocks) {
  TestEngine test(16);
  const SequenceId id = Start(test.engine, Spec(Prompt(50), 20, true));
  const Outcome outcome = RunAll(test.engine)[id];
  EXPECT_EQ(outcome.tokens.size(), 1u);
  EXPECT_EQ(outcome.finish, FinishReason::kNone);
  EXPECT_EQ(test.engine.Load().used_blocks, 4);
  EXPECT_EQ(test.engine.Load().running, 0);
  test.engine.Release(id);
  EXPECT_EQ(test.engine.Load().used_blocks, 0);
  EXPECT_EQ(test.engine.Load().cached_blocks, 3);
  const SequenceId one = Start(test.engine, Spec(Prompt(50), 1, true));
  EXPECT_EQ(RunAll(test.engine)[one].finish, FinishReason::kLength);
}

TEST(Engine, PrefixHitsSkipComputedBlocksWithoutChangingTokens) {
  TestEngine test(32);
  const SequenceId first = Start(test.engine, Spec(Prompt(48), 20));
  const std::vector<int32_t> tokens = RunAll(test.engine)[first].tokens;
  const Digest128 digest = test.engine.PromptDigest(first);
  test.engine.Release(first);
  const int64_t rows = test.model.rows();
  const SequenceId again = Start(test.engine, Spec(Prompt(48), 20));
  EXPECT_EQ(test.engine.cached_tokens(again), 32);
  EXPECT_EQ(RunAll(test.engine)[again].tokens, tokens);
  EXPECT_EQ(test.model.rows() - rows, 16 + 19);
  EXPECT_EQ(test.engine.PromptDigest(again), digest);
  // Outputs are found as well.
  std::vector<int32_t> longer = Prompt(48);
  longer.insert(longer.end(), tokens.begin(), tokens.end());
  EXPECT_EQ(test.engine.cached_tokens(Start(test.engine, Spec(longer, 1))), 64);
}

TEST(Engine, PrefixIsNotSharedBetweenTenantsNorWithTheCacheOff) {
  TestEngine test(32);
  SequenceSpec spec = Spec(Prompt(48), 2);
  Start(test.engine, spec);
  RunAll(test.engine);
  spec.tenant = "other";
  EXPECT_EQ(test.engine.cached_tokens(Start(test.engine, spec)), 0);
  TestEngine off(32, {.prefix_cache = false});
  const SequenceId first = Start(off.engine, Spec(Prompt(48), 2));
  RunAll(off.engine);
  EXPECT_EQ(off.engine.cached_tokens(Start(off.engine, Spec(Prompt(48), 2))), 0);
  off.engine.Release(first);
  EXPECT_EQ(off.engine.Load().cached_blocks, 0);
}

TEST(Engine, DecodeGoesOnFromBlocksThatWereComputedElsewhere) {
  TestEngine source(16);
  TestEngine sink(16);
  const SequenceId p = Start(source.engine, Spec(Prompt(40), 20, true));
  OutputToken first;
  while (source.engine.HasWork()) first = source.engine.Step().front().token.value_or(first);
  const SequenceId d = sink.engine.Reserve(Spec(Prompt(40), 20)).value();
  EXPECT_FALSE(sink.engine.HasWork());
  EXPECT_EQ(sink.engine.Load().pending_prompt_tokens, 40);
  for (size_t i = 0; i < 3; ++i) {
    const absl::Span<uint8_t> from = source.Block(source.engine.PromptBlocks(p)[i]);
    std::copy(from.begin(), from.end(), sink.Block(sink.engine.PromptBlocks(d)[i]).begin());
  }
  EXPECT_EQ(sink.engine.PromptDigest(d), source.engine.PromptDigest(p));
  sink.engine.StartDecode(d, first);
  // Others find the prompt at once.
  EXPECT_EQ(sink.engine.cached_tokens(sink.engine.Reserve(Spec(Prompt(40), 20)).value()), 32);
  std::vector<int32_t> tokens = {first.token};
  while (sink.engine.HasWork()) {
    const StepEvent event = sink.engine.Step().front();
    EXPECT_EQ(event.token->index, static_cast<int32_t>(tokens.size()));
    tokens.push_back(event.token->token);
  }
  EXPECT_EQ(tokens, FakeModelTokens({}, Prompt(40), Spec({}, 20).sampling, {}));
}

TEST(Engine, PromptDigestDoesNotDependOnWhatTheBlocksHeldBefore) {
  TestEngine one(8);
  TestEngine other(8);
  std::fill(other.memory.begin(), other.memory.end(), 0x11);
  const SequenceId a = Start(one.engine, Spec(Prompt(21), 5, true));
  const SequenceId b = Start(other.engine, Spec(Prompt(21), 5, true));
  RunAll(one.engine);
  RunAll(other.engine);
  EXPECT_EQ(one.engine.PromptDigest(a), other.engine.PromptDigest(b));
}

TEST(Engine, UnusedRowsOfThePromptsLastBlockAreZeroFromReservationOn) {
  TestEngine test(8);
  const SequenceId id = test.engine.Reserve(Spec(Prompt(21), 5)).value();
  const absl::Span<const uint8_t> tail = test.Block(test.engine.PromptBlocks(id)[1]);
  EXPECT_EQ(std::count(tail.begin(), tail.end(), 0), static_cast<ptrdiff_t>(tail.size()));
}

TEST(Engine, PromptDigestSurvivesPreemptionInTheMiddleOfThePrompt) {
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

TEST(Engine, PreemptsTheYoungestAndBothFinishWithTheirTokens) {
  TestEngine test(5, {.chunk_tokens = 64});
  const SequenceId old = Start(test.engine, Spec(Prompt(30), 30));
  const SequenceId young = Start(test.engine, Spec(Prompt(30, 9), 30));
  std::map<SequenceId, Outcome> outcomes;
  bool young_was_preempted = false;
  while (test.engine.HasWork()) {
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
  while (test.engine.HasWork()) Collect(test.engine.Step(), outcomes);
  EXPECT_EQ(outcomes[young].tokens, FakeModelTokens({}, Prompt(30, 9), Spec({}, 30).sampling, {}));
  test.engine.Release(young);
  EXPECT_EQ(test.engine.Load().used_blocks, 0);
}

TEST(Engine, SequenceThatAPeerReadsIsNeverPreempted) {
  TestEngine test(5, {.chunk_tokens = 16});
  std::map<SequenceId, Outcome> outcomes;
  const SequenceId old = Start(test.engine, Spec(Prompt(30), 40));
  for (int i = 0; i < 2; ++i) Collect(test.engine.Step(), outcomes);
  const SequenceId held = Start(test.engine, Spec(Prompt(40, 9), 1, true));
  const std::vector<BlockId> blocks = test.engine.PromptBlocks(held);
  while (test.engine.HasWork()) {
    Collect(test.engine.Step(), outcomes);
    ASSERT_EQ(test.engine.PromptBlocks(held), blocks);
  }
  EXPECT_EQ(outcomes[held].tokens.size(), 1u);
  EXPECT_EQ(test.engine.Load().preempted, 1);
  test.engine.Release(held);
  while (test.engine.HasWork()) Collect(test.engine.Step(), outcomes);
  EXPECT_EQ(outcomes[old].tokens, FakeModelTokens({}, Prompt(30), Spec({}, 40).sampling, {}));
}

TEST(Engine, StopAndReleaseAreLegalInEveryState) {
  TestEngine test(8, {.chunk_tokens = 16});
  const SequenceId reserved = test.engine.Reserve(Spec(Prompt(20), 30)).value();
  test.engine.Stop(reserved);
  test.engine.Release(reserved);
  const SequenceId prefill = Start(test.engine, Spec(Prompt(40), 30));
  test.engine.Step();
  test.engine.Stop(prefill);
  EXPECT_FALSE(test.engine.HasWork());
  EXPECT_EQ(test.engine.Load().used_blocks, 3);
  test.engine.Release(prefill);
  const SequenceId decode = Start(test.engine, Spec(Prompt(20, 3), 30));
  for (int i = 0; i < 5; ++i) test.engine.Step();
  test.engine.Release(decode);
  EXPECT_EQ(test.engine.Load().used_blocks, 0);
  EXPECT_FALSE(test.engine.HasWork());
}

TEST(Engine, LoadCountsWhatItSays) {
  TestEngine test(10, {.chunk_tokens = 16});
  Start(test.engine, Spec(Prompt(40), 30));
  test.engine.Reserve(Spec(Prompt(20, 3), 30)).value();
  test.engine.Step();
  const EngineLoad load = test.engine.Load();
  EXPECT_EQ(load.total_blocks, 10);
  EXPECT_EQ(load.used_blocks, 5);
  EXPECT_EQ(load.free_blocks, 5);
  EXPECT_EQ(load.cached_blocks, 0);
  EXPECT_EQ(load.running, 1);
  EXPECT_EQ(load.pending_prompt_tokens, 24 + 20);
}

TEST(Engine, ChunksEndAtBlocksWhileOthersDecode) {
  TestEngine test(64, {.chunk_tokens = 64});
  for (int32_t i = 0; i < 3; ++i) Start(test.engine, Spec(Prompt(10, i), 20));
  std::map<SequenceId, Outcome> outcomes;
  Collect(test.engine.Step(), outcomes);
  // CheckedModel looks at the ends; three decode rows leave 61 rows, which is 48.
  const SequenceId id = Start(test.engine, Spec(Prompt(100, 9), 1));
  EXPECT_EQ(RunAll(test.engine, outcomes)[id].computed, (std::vector<int32_t>{48, 100}));
}

TEST(Engine, PrefillAndDecodeShareASlotLimit) {
  TestEngine test(64, {.chunk_tokens = 16, .max_sequences = 2});
  for (int32_t i = 0; i < 3; ++i) Start(test.engine, Spec(Prompt(10, i), 50));
  std::map<SequenceId, Outcome> outcomes;
  while (test.engine.HasWork()) {
    const absl::Span<const StepEvent> events = test.engine.Step();
    EXPECT_LE(events.size(), 2u);
    Collect(events, outcomes);
  }
  for (const auto& [id, outcome] : outcomes) EXPECT_EQ(outcome.tokens.size(), 50u);
}

TEST(EngineDeathTest, UnknownSequenceIsABug) {
  TestEngine test(8);
  EXPECT_DEATH(test.engine.StartPrefill(7), "no sequence 7");
}

}  // namespace
}  // namespace baton::engine
