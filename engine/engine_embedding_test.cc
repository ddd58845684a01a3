// The embedding of a prompt: the same bits whatever the chunks, the batch, the cache and preemption do.
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/testing/checked_engine.h"
#include "engine/testing/run_engine.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

constexpr Pooling kPoolings[] = {Pooling::kLast, Pooling::kMean};

SequenceSpec Pooled(std::vector<int32_t> prompt, Pooling pooling, bool prefill_only = false) {
  SequenceSpec spec = Spec(std::move(prompt), 1, prefill_only);
  spec.sampling.pooling = pooling;
  return spec;
}

// The embedding of each sequence that got its last token.
std::map<SequenceId, std::vector<float>> Embeddings(TestEngine& test) {
  std::map<SequenceId, std::vector<float>> embeddings;
  while (test.HasWork()) {
    for (const StepEvent& event : test.engine.Step()) {
      if (event.token) embeddings[event.sequence] = event.token->embedding;
    }
  }
  return embeddings;
}

TEST(EngineEmbedding, IsOfThePromptAloneWhateverTheChunksTheBatchAndTheCache) {
  FakeModelOptions sliding;
  sliding.sliding_layers = 2;
  sliding.window = 37;
  const std::vector<int32_t> prompt = Prompt(70);
  for (const FakeModelOptions& model : {FakeModelOptions{}, sliding}) {
    for (const Pooling pooling : kPoolings) {
      const std::vector<float> expected = FakeModelEmbedding(model, prompt, pooling);
      for (const int32_t chunk_tokens : {16, 48, 512}) {
        for (const int32_t neighbours : {0, 1, 7}) {
          SCOPED_TRACE(absl::StrCat(static_cast<int>(pooling), " ", chunk_tokens, " ", neighbours));
          TestEngine test(300, {.chunk_tokens = chunk_tokens}, model);
          // All begin as the prompt does; some ask for something of their prompts as well.
          for (int32_t i = 0; i < neighbours; ++i) {
            SequenceSpec other = Spec(Prompt(30 + 5 * i), 20);
            if (i % 3 == 1) other.sampling.prompt_logprobs = 2;
            if (i % 3 == 2) other = Pooled(Prompt(60 + i), Pooling::kMean);
            Start(test.engine, other);
            test.engine.Step();
          }
          const SequenceId id = Start(test.engine, Pooled(prompt, pooling, neighbours == 1));
          EXPECT_EQ(Embeddings(test)[id], expected);
        }
      }
    }
  }
}

TEST(EngineEmbedding, OfTheLastTokenTakesTheRestOfThePromptFromTheCacheAndTheMeanNothing) {
  for (const Pooling pooling : kPoolings) {
    TestEngine test(40);
    const SequenceId first = Start(test.engine, Pooled(Prompt(64), pooling));
    const std::vector<float> expected = Embeddings(test)[first];
    test.engine.Release(first);
    const SequenceId again = Start(test.engine, Pooled(Prompt(64), pooling));
    EXPECT_EQ(test.engine.cached_tokens(again), pooling == Pooling::kLast ? 48 : 0);
    EXPECT_EQ(Embeddings(test)[again], expected);
  }
}

TEST(EngineEmbedding, OfASequenceThatIsPreemptedCountsEachRowOnce) {
  // Ten blocks: the older sequence grows until the younger one, which is in the middle of its prompt, gives way. A step
  // has a row of the older one and a block of the younger one. This finds nothing in a cache when it comes back, and
  // its first step then has two blocks, one of which has given its share.
  TestEngine test(10, {.chunk_tokens = 32, .prefix_cache = false});
  const SequenceId older = Start(test.engine, Spec(Prompt(64, 3), 25));
  for (int i = 0; i < 17; ++i) test.engine.Step();
  const SequenceId younger = Start(test.engine, Pooled(Prompt(70), Pooling::kMean));
  StepEvent last;
  while (test.HasWork()) {
    for (const StepEvent& event : test.engine.Step()) {
      if (event.sequence == younger) last = event;
      // Its blocks are what the younger one waits for.
      if (event.sequence == older && event.token && event.token->is_last()) test.engine.Release(older);
    }
  }
  ASSERT_TRUE(last.token.has_value());
  EXPECT_EQ(last.preemptions, 1);
  EXPECT_EQ(last.token->embedding, FakeModelEmbedding({}, Prompt(70), Pooling::kMean));
}

TEST(EngineEmbedding, ComesOnlyWhereItIsAskedFor) {
  TestEngine test(40, {.chunk_tokens = 16});
  const SequenceId plain = Start(test.engine, Spec(Prompt(50), 3));
  const SequenceId pooled = Start(test.engine, Pooled(Prompt(50), Pooling::kMean));
  std::map<SequenceId, std::vector<float>> embeddings = Embeddings(test);
  EXPECT_TRUE(embeddings[plain].empty());
  EXPECT_EQ(embeddings[pooled].size(), static_cast<size_t>(kFakeHiddenSize));
}

TEST(EngineEmbedding, GoesWithOneOutputAndWithoutLogProbabilitiesOfThePrompt) {
  TestEngine test(40);
  SequenceSpec spec = Pooled(Prompt(20), Pooling::kLast);
  spec.sampling.max_tokens = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(test.engine.Reserve(spec).status()));
  spec = Pooled(Prompt(20), Pooling::kLast);
  spec.sampling.prompt_logprobs = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(test.engine.Reserve(spec).status()));
}

// A runner that gives no hidden states.
class BareModel final : public FakeModel {
 public:
  using FakeModel::FakeModel;
  int32_t hidden_size() const override { return 0; }
};

TEST(EngineEmbedding, IsRefusedByAnEngineThatGivesNoHiddenStates) {
  BareModel model{FakeModelOptions{}};
  std::vector<uint8_t> memory(10 * model.kv_layout().block_bytes());
  HostKvPool pool(absl::MakeSpan(memory), model.kv_layout().block_bytes());
  Engine engine({}, model, pool, PrefixNames({1, 2}));
  EXPECT_TRUE(absl::IsUnimplemented(engine.Reserve(Pooled(Prompt(20), Pooling::kLast)).status()));
}

}  // namespace
}  // namespace baton::engine
