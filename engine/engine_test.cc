#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "common/limits.h"
#include "engine/testing/checked_engine.h"
#include "engine/testing/run_engine.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

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

TEST(Engine, SequencesAreBounded) {
  TestEngine test(kMaxSequences + 1);
  SequenceId last = 0;
  for (int32_t i = 0; i < kMaxSequences; ++i) {
    const absl::StatusOr<SequenceId> id = test.engine.Reserve(Spec(Prompt(3), 1));
    ASSERT_TRUE(id.ok()) << id.status();
    last = *id;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(test.engine.Reserve(Spec(Prompt(3), 1)).status()));
  test.engine.Release(last);
  EXPECT_TRUE(test.engine.Reserve(Spec(Prompt(3), 1)).ok());
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
  while (source.HasWork()) first = source.engine.Step().front().token.value_or(first);
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
  while (sink.HasWork()) {
    const StepEvent event = sink.engine.Step().front();
    EXPECT_EQ(event.token->index, static_cast<int32_t>(tokens.size()));
    tokens.push_back(event.token->token);
  }
  EXPECT_EQ(tokens, FakeModelTokens({}, Prompt(40), Spec({}, 20).sampling, {}));
}

TEST(Engine, APeersFirstTokenIsAcceptedOnlyAsTheRequestWouldHaveIt) {
  TestEngine test(16, {.eos_ids = {9}});
  const SequenceId longer = test.engine.Reserve(Spec(Prompt(20), 2)).value();
  const SequenceId one = test.engine.Reserve(Spec(Prompt(20), 1)).value();
  const auto accepts = [&](SequenceId id, int32_t token, FinishReason finish, int32_t index = 0) {
    return test.engine.AcceptsFirst(id, {.index = index, .token = token, .finish = finish});
  };
  EXPECT_TRUE(accepts(longer, 63, FinishReason::kNone));
  EXPECT_TRUE(accepts(longer, 9, FinishReason::kStop));
  EXPECT_TRUE(accepts(one, 63, FinishReason::kLength));
  EXPECT_FALSE(accepts(longer, 63, FinishReason::kLength));
  EXPECT_FALSE(accepts(longer, 9, FinishReason::kNone));
  EXPECT_FALSE(accepts(one, 63, FinishReason::kNone));
  EXPECT_FALSE(accepts(longer, 64, FinishReason::kNone));
  EXPECT_FALSE(accepts(longer, -1, FinishReason::kNone));
  EXPECT_FALSE(accepts(longer, 5, FinishReason::kNone, 1));
}

// Everything that looks at the output so far: penalties, the draw's counter, min_tokens, stop tokens, the limit.
SamplingParams ManyParams() {
  return {.temperature = 0.8f,
          .repetition_penalty = 1.3f,
          .frequency_penalty = 0.4f,
          .presence_penalty = 0.2f,
          .seed = 11,
          .max_tokens = 40,
          .min_tokens = 12,
          .stop_token_ids = {5},
          .logprobs = 2};
}

std::vector<OutputToken> OutputsOf(Engine& engine, SequenceSpec spec) {
  std::vector<OutputToken> outputs;
  const SequenceId id = Start(engine, std::move(spec));
  while (engine.HasWork()) {
    const StepEvent event = engine.Step().front();
    if (event.token) outputs.push_back(*event.token);
  }
  engine.Release(id);
  return outputs;
}

SequenceSpec GoingOnAfter(const SequenceSpec& whole, absl::Span<const OutputToken> outputs) {
  SequenceSpec spec = whole;
  for (const OutputToken& output : outputs) spec.prompt.push_back(output.token);
  spec.emitted = static_cast<int32_t>(outputs.size());
  return spec;
}

TEST(Engine, ASequenceThatBeginsWithOutputsGoesOnWithExactlyTheSame) {
  SequenceSpec whole = Spec(Prompt(21), 0);
  whole.sampling = ManyParams();
  TestEngine test(64);
  const std::vector<OutputToken> all = OutputsOf(test.engine, whole);
  ASSERT_GT(all.size(), 12u);
  for (size_t done = 0; done < all.size(); ++done) {
    SCOPED_TRACE(done);
    // With and without what an earlier attempt has left in the prefix cache.
    TestEngine other(64);
    const SequenceSpec rest = GoingOnAfter(whole, absl::MakeConstSpan(all).first(done));
    for (Engine* engine : {&test.engine, &other.engine}) {
      EXPECT_EQ(OutputsOf(*engine, rest), std::vector<OutputToken>(all.begin() + static_cast<int>(done), all.end()));
    }
    SequenceSpec half = rest;
    half.prefill_only = true;
    EXPECT_EQ(OutputsOf(test.engine, half), std::vector<OutputToken>({all[done]}));
  }
}

TEST(Engine, ASequenceThatBeginsWithOutputsTakesTheNextOneFromAPeer) {
  TestEngine test(16);
  SequenceSpec spec = Spec(Prompt(20), 5);
  spec.emitted = 3;
  const SequenceId id = test.engine.Reserve(spec).value();
  EXPECT_FALSE(test.engine.AcceptsFirst(id, {.index = 0, .token = 9}));
  EXPECT_TRUE(test.engine.AcceptsFirst(id, {.index = 3, .token = 9}));
  test.engine.StartDecode(id, {.index = 3, .token = 9});
  const StepEvent event = test.engine.Step().front();
  EXPECT_EQ(event.token->index, 4);
  EXPECT_EQ(event.token->finish, FinishReason::kLength);
}

TEST(Engine, ASequenceThatBeginsWithOutputsNeedsRoomForTheOthersAlone) {
  TestEngine test(4);
  // 64 rows fit: those of the prompt, with its four outputs, and the last output's row is never run.
  SequenceSpec spec = Spec(Prompt(62), 5);
  spec.emitted = 4;
  EXPECT_TRUE(test.engine.Reserve(spec).ok());
}

TEST(Engine, RefusesOutputsThatCannotHaveBeen) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  TestEngine test(16);
  for (const auto& [prompt_tokens, max_tokens, emitted] : std::vector<std::array<int32_t, 3>>{
           {3, 9, -1}, {3, 9, 3}, {9, 3, 3}, {9, 3, 4}, {3, kMost, -1}, {3, kLeast, 1}}) {
    SequenceSpec spec = Spec(Prompt(prompt_tokens), max_tokens);
    spec.emitted = emitted;
    EXPECT_TRUE(absl::IsInvalidArgument(test.engine.Reserve(spec).status())) << emitted << " of " << prompt_tokens;
  }
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

TEST(Engine, BlocksOfASequenceThatNobodyOwnsAreOrphaned) {
  TestEngine test(16);
  const SequenceId owned = test.engine.Reserve(Spec(Prompt(40), 1)).value();
  const SequenceId forgotten = test.engine.Reserve(Spec(Prompt(20, 5), 1)).value();
  EXPECT_EQ(test.engine.OrphanedBlocks([](SequenceId) { return true; }), 0);
  EXPECT_EQ(test.engine.OrphanedBlocks([&](SequenceId id) { return id == owned; }), 2);
  test.engine.Release(forgotten);
  EXPECT_EQ(test.engine.OrphanedBlocks([&](SequenceId id) { return id == owned; }), 0);
}

TEST(Engine, WhatSequencesHoldCountsASharedBlockOnceAndAddsUpToWhatIsUsed) {
  TestEngine test(16);
  const SequenceId first = test.engine.Reserve(Spec(Prompt(40), 3)).value();
  test.engine.StartPrefill(first);
  while (test.engine.HasWork()) test.engine.Step();
  // Two of its three blocks are full, and so have names.
  SequenceSpec sharing = Spec(Prompt(40), 3);
  sharing.job = {.job = {.high = 1, .low = 2}, .attempt = 3};
  const SequenceId second = test.engine.Reserve(sharing).value();
  const std::vector<HeldBlocks> held = test.engine.Held();
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].sequence, first);
  EXPECT_EQ(held[0].state, SequenceState::kFinished);
  EXPECT_EQ(held[0].blocks, 3);
  EXPECT_EQ(held[0].own_blocks, 3);
  EXPECT_EQ(held[1].sequence, second);
  EXPECT_EQ(held[1].job, sharing.job);
  EXPECT_EQ(held[1].state, SequenceState::kReserved);
  EXPECT_EQ(held[1].blocks, 3);
  EXPECT_EQ(held[1].own_blocks, 1);
  EXPECT_EQ(test.engine.Load().used_blocks, 4);
  test.engine.Release(first);
  EXPECT_EQ(test.engine.Held().front().own_blocks, 3) << "they are its alone now";
  test.engine.Release(second);
  EXPECT_TRUE(test.engine.Held().empty());
}

TEST(Engine, CountsTheRowsOfEachClassAndWhatThePrefixCacheHad) {
  TestEngine test(16);
  const SequenceId first = test.engine.Reserve(Spec(Prompt(40), 3)).value();
  test.engine.StartPrefill(first);
  while (test.engine.HasWork()) test.engine.Step();
  test.engine.Release(first);
  EXPECT_EQ(test.engine.Counters().prefill_rows, 40);
  EXPECT_EQ(test.engine.Counters().decode_rows, 2);
  EXPECT_EQ(test.engine.Counters().prefix_hit_tokens, 0);
  test.engine.Reserve(Spec(Prompt(40), 3)).value();
  EXPECT_EQ(test.engine.Counters().prefix_queried_tokens, 80);
  EXPECT_EQ(test.engine.Counters().prefix_hit_tokens, 32);
}

TEST(EngineDeathTest, UnknownSequenceIsABug) {
  TestEngine test(8);
  EXPECT_DEATH(test.engine.StartPrefill(7), "no sequence 7");
}

}  // namespace
}  // namespace baton::engine
