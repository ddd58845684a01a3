// Models of which some layers slide: their blocks are given back behind the window, and nothing else changes.
#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "engine/testing/checked_engine.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

constexpr int32_t kWindow = 64;
const FakeModelOptions kSliding = {.full_layers = 1, .sliding_layers = 5, .window = kWindow};

std::vector<int32_t> TextOf(int32_t length, int32_t first = 1) {
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  for (int32_t i = 0; i < length; ++i) prompt[static_cast<size_t>(i)] = (first + i * 7) % 64;
  return prompt;
}

SequenceSpec Asks(std::vector<int32_t> prompt, int32_t max_tokens) {
  SequenceSpec spec;
  spec.prompt = std::move(prompt);
  spec.sampling.max_tokens = max_tokens;
  return spec;
}

SequenceId StartOf(Engine& engine, SequenceSpec spec) {
  const SequenceId id = engine.Reserve(std::move(spec)).value();
  engine.StartPrefill(id);
  return id;
}

std::vector<int32_t> RunToEnd(Engine& engine, SequenceId id, std::vector<int32_t> tokens = {}) {
  while (engine.HasWork()) {
    for (const StepEvent& event : engine.Step()) {
      if (event.token && event.sequence == id) tokens.push_back(event.token->token);
    }
  }
  return tokens;
}

std::vector<int32_t> OracleTokens(const SequenceSpec& spec) {
  return FakeModelTokens(kSliding, spec.prompt, spec.sampling, {});
}

TEST(EngineWindow, APromptThatIsReleasedBeforeItsEndGivesItsPromiseBack) {
  TestEngine test(100, {.chunk_tokens = 16}, kSliding);
  const SequenceId id = StartOf(test.engine, Asks(TextOf(5 * kWindow), 1));
  test.engine.Step();
  ASSERT_GT(test.engine.Load().used_blocks, 0);
  test.engine.Release(id);
  EXPECT_EQ(test.engine.Load().used_blocks, 0);
}

TEST(EngineWindow, SequenceOfManyWindowsNeverHoldsMoreThanAWindowAndAChunkOfSlidingGroups) {
  for (const int32_t chunk : {16, 48, 256}) {
    const SequenceSpec spec = Asks(TextOf(10 * kWindow + 5), 6 * kWindow);
    const int32_t rows = static_cast<int32_t>(spec.prompt.size()) + spec.sampling.max_tokens;
    const int32_t most = BlocksForTokens(rows) + 5 * (kWindow / kBlockTokens + chunk / kBlockTokens + 2);
    TestEngine test(most, {.chunk_tokens = chunk, .prefix_cache = false}, kSliding);
    const SequenceId id = StartOf(test.engine, spec);
    std::vector<int32_t> tokens;
    while (test.HasWork()) {
      EXPECT_LE(test.engine.Load().used_blocks, most);
      for (const StepEvent& event : test.engine.Step()) {
        if (event.token) tokens.push_back(event.token->token);
      }
      EXPECT_EQ(test.engine.Load().preempted, 0);
    }
    EXPECT_EQ(tokens, OracleTokens(spec)) << chunk;
    // While it decodes there is no chunk either.
    EXPECT_LE(test.engine.Load().used_blocks, BlocksForTokens(rows) + 5 * (kWindow / kBlockTokens + 1));
    test.engine.Release(id);
    EXPECT_EQ(test.engine.Load().free_blocks, most);
  }
}

TEST(EngineWindow, RefusesWhatCanNeverRunByTheBlocksThatItHoldsAtOnce) {
  // 160 rows in chunks of 32: 10 of the full group, 4 + 2 of each sliding one.
  TestEngine test(10 + 5 * 6, {.chunk_tokens = 32}, kSliding);
  EXPECT_TRUE(absl::IsInvalidArgument(test.engine.Reserve(Asks(TextOf(160), 2)).status()));
  EXPECT_TRUE(test.engine.Reserve(Asks(TextOf(160), 1)).ok());
}

TEST(EngineWindow, ReservedSequenceCountsAllThatItWillHold) {
  TestEngine test(50, {.chunk_tokens = 32}, kSliding);
  const SequenceId id = test.engine.Reserve(Asks(TextOf(160), 1)).value();
  EXPECT_EQ(test.engine.Load().used_blocks, 10 + 5 * 6);
  EXPECT_EQ(test.engine.Load().free_blocks, 10);
  EXPECT_TRUE(absl::IsResourceExhausted(test.engine.Reserve(Asks(TextOf(32, 5), 1)).status()));
  EXPECT_TRUE(test.engine.Reserve(Asks(TextOf(16, 5), 1)).ok());
  test.engine.StartPrefill(id);
  test.engine.Stop(id);
  EXPECT_EQ(test.engine.Load().used_blocks, 10 + 6);
}

TEST(EngineWindow, PrefillOnlyKeepsWhatIsHandedOver) {
  TestEngine test(100, {.chunk_tokens = 32}, kSliding);
  SequenceSpec spec = Asks(TextOf(200), 20);
  spec.prefill_only = true;
  const SequenceId id = StartOf(test.engine, spec);
  RunToEnd(test.engine, id);
  // Row 200 sees 137 to 200: blocks 8 to 12 of 13.
  const std::vector<BlockId> blocks = test.engine.PromptBlocks(id);
  EXPECT_EQ(blocks.size(), 13u + 5 * 5);
  EXPECT_EQ(std::count(blocks.begin(), blocks.end(), kNoBlock), 0);
  EXPECT_EQ(test.engine.Load().used_blocks, 13 + 5 * 5);
}

TEST(EngineWindow, DecodeGoesOnFromWhatWasHandedOver) {
  SequenceSpec spec = Asks(TextOf(200), 150);
  TestEngine source(100, {.chunk_tokens = 48}, kSliding);
  TestEngine sink(100, {.chunk_tokens = 16}, kSliding);
  spec.prefill_only = true;
  const SequenceId p = StartOf(source.engine, spec);
  OutputToken first;
  while (source.HasWork()) first = source.engine.Step().front().token.value_or(first);
  spec.prefill_only = false;
  spec.pulls_prompt = true;
  const SequenceId d = sink.engine.Reserve(spec).value();
  EXPECT_EQ(sink.engine.Load().used_blocks, 13 + 5 * 5);
  ASSERT_EQ(sink.engine.PromptBlocks(d).size(), source.engine.PromptBlocks(p).size());
  for (size_t i = 0; i < source.engine.PromptBlocks(p).size(); ++i) {
    const absl::Span<uint8_t> from = source.Block(source.engine.PromptBlocks(p)[i]);
    std::copy(from.begin(), from.end(), sink.Block(sink.engine.PromptBlocks(d)[i]).begin());
  }
  EXPECT_EQ(sink.engine.PromptDigest(d), source.engine.PromptDigest(p));
  sink.engine.StartDecode(d, first);
  EXPECT_EQ(RunToEnd(sink.engine, d, {first.token}), OracleTokens(spec));
  // The next prompt needs none of the blocks that were not handed over.
  spec.prompt = TextOf(250);
  EXPECT_EQ(sink.engine.cached_tokens(sink.engine.Reserve(spec).value()), 192);
}

TEST(EngineWindow, PromptDigestDependsOnThePromptAlone) {
  for (const int32_t length : {1, 63, 64, 65, 80, 333}) {
    Digest128 expected;
    for (const int32_t chunk : {512, 16, 48}) {
      TestEngine test(300, {.chunk_tokens = chunk}, kSliding);
      std::fill(test.memory.begin(), test.memory.end(), static_cast<uint8_t>(chunk));
      // The second time with prefix hits.
      for (int round = 0; round < 2; ++round) {
        const SequenceId id = StartOf(test.engine, Asks(TextOf(length), 1));
        RunToEnd(test.engine, id);
        const Digest128 digest = test.engine.PromptDigest(id);
        if (chunk == 512 && round == 0) expected = digest;
        EXPECT_EQ(digest, expected) << length << " tokens, chunks of " << chunk << ", round " << round;
      }
    }
  }
}

TEST(EngineWindow, PrefixHitNeedsTheSlidingBlocksOfItsWindowAlone) {
  TestEngine test(200, {.chunk_tokens = 32}, kSliding);
  const SequenceId first = StartOf(test.engine, Asks(TextOf(320), 1));
  RunToEnd(test.engine, first);
  test.engine.Release(first);
  const int64_t rows = test.model.rows();
  const SequenceSpec spec = Asks(TextOf(400), 50);
  const SequenceId again = StartOf(test.engine, spec);
  EXPECT_EQ(test.engine.cached_tokens(again), 320);
  // 20 of the full group; 4 of each sliding one, and a chunk to come.
  EXPECT_EQ(test.engine.Load().used_blocks, 25 + 5 * (4 + 2));
  EXPECT_EQ(RunToEnd(test.engine, again), OracleTokens(spec));
  EXPECT_EQ(test.model.rows() - rows, 80 + 49);
}

TEST(EngineWindow, PrefixOfWhichTheWindowIsGoneIsComputedAgain) {
  // What slides is given back first, and evicted first.
  TestEngine test(20 + 5 * 6, {.chunk_tokens = 32}, kSliding);
  RunToEnd(test.engine, StartOf(test.engine, Asks(TextOf(320), 1)));
  test.engine.Release(1);
  const SequenceSpec shorter = Asks(TextOf(160), 20);
  const SequenceId id = StartOf(test.engine, shorter);
  EXPECT_EQ(test.engine.cached_tokens(id), 0);
  EXPECT_EQ(RunToEnd(test.engine, id), OracleTokens(shorter));
}

TEST(EngineWindow, SequencesThatShareAPrefixEachSlideOn) {
  const KvGroups groups = FakeModel(kSliding).kv_layout().groups();
  // Room for two as they are, one block of each group to spare.
  TestEngine test(2 * groups.MostBlocks(400, 32) - 15 + groups.count(), {.chunk_tokens = 32}, kSliding);
  const SequenceSpec spec = Asks(TextOf(320), 60);
  const SequenceId first = StartOf(test.engine, spec);
  std::vector<int32_t> first_tokens;
  while (first_tokens.empty()) {
    for (const StepEvent& event : test.engine.Step()) {
      if (event.token) first_tokens.push_back(event.token->token);
    }
  }
  const SequenceId second = StartOf(test.engine, spec);
  EXPECT_EQ(test.engine.cached_tokens(second), 304);
  std::vector<int32_t> second_tokens;
  while (test.HasWork()) {
    for (const StepEvent& event : test.engine.Step()) {
      if (!event.token) continue;
      (event.sequence == first ? first_tokens : second_tokens).push_back(event.token->token);
    }
  }
  EXPECT_EQ(first_tokens, OracleTokens(spec));
  EXPECT_EQ(second_tokens, OracleTokens(spec));
  test.engine.Release(first);
  test.engine.Release(second);
  EXPECT_EQ(test.engine.Load().used_blocks, 0);
}

TEST(EngineWindow, PreemptedSequenceComesBackWithItsTokens) {
  const KvGroups groups = FakeModel(kSliding).kv_layout().groups();
  TestEngine test(groups.MostBlocks(350, 32) + 30, {.chunk_tokens = 32}, kSliding);
  const SequenceSpec old_spec = Asks(TextOf(100), 250);
  const SequenceSpec young_spec = Asks(TextOf(40, 9), 250);
  const SequenceId old = StartOf(test.engine, old_spec);
  const SequenceId young = StartOf(test.engine, young_spec);
  std::vector<int32_t> old_tokens, young_tokens;
  bool was_preempted = false;
  while (test.HasWork()) {
    for (const StepEvent& event : test.engine.Step()) {
      if (!event.token) continue;
      (event.sequence == old ? old_tokens : young_tokens).push_back(event.token->token);
      if (event.sequence == old && event.token->finish != FinishReason::kNone) test.engine.Stop(old);
    }
    was_preempted |= test.engine.Load().preempted > 0;
  }
  EXPECT_TRUE(was_preempted);
  test.engine.Release(old);
  young_tokens = RunToEnd(test.engine, young, young_tokens);
  EXPECT_EQ(old_tokens, OracleTokens(old_spec));
  EXPECT_EQ(young_tokens, OracleTokens(young_spec));
}

TEST(EngineWindowDeathTest, PulledPromptIsNotComputedNorTheOtherWayRound) {
  TestEngine test(50, {}, kSliding);
  SequenceSpec spec = Asks(TextOf(40), 5);
  const SequenceId computed = test.engine.Reserve(spec).value();
  spec.pulls_prompt = true;
  const SequenceId pulled = test.engine.Reserve(spec).value();
  EXPECT_DEATH(test.engine.StartPrefill(pulled), "pulls_prompt");
  EXPECT_DEATH(test.engine.StartDecode(computed, {.token = 1}), "pulls_prompt");
}

}  // namespace
}  // namespace baton::engine
