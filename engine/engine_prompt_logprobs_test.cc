// Log-probabilities of a prompt: each is that of the same token as an output, bit for bit, whatever the chunks, the
// batch, the cache and preemption do.
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/sampler.h"
#include "engine/testing/checked_engine.h"
#include "engine/testing/run_engine.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

constexpr int32_t kTop = 3;

SequenceSpec Scored(std::vector<int32_t> prompt, int32_t max_tokens, bool prefill_only = false) {
  SequenceSpec spec = Spec(std::move(prompt), max_tokens, prefill_only);
  spec.sampling.prompt_logprobs = kTop;
  return spec;
}

// All that the events say of the prompt of each sequence, which must come in order and before the first token.
class PromptCollector {
 public:
  void Collect(absl::Span<const StepEvent> events) {
    for (const StepEvent& event : events) {
      std::vector<PromptLogprob>& got = got_[event.sequence];
      if (!event.prompt.empty()) {
        EXPECT_EQ(event.first_prompt, static_cast<int32_t>(got.size()) + 1);
        EXPECT_FALSE(has_token_[event.sequence]);
      }
      got.insert(got.end(), event.prompt.begin(), event.prompt.end());
      if (event.token) has_token_[event.sequence] = true;
    }
  }
  const std::vector<PromptLogprob>& of(SequenceId id) { return got_[id]; }

 private:
  std::map<SequenceId, std::vector<PromptLogprob>> got_;
  std::map<SequenceId, bool> has_token_;
};

std::vector<PromptLogprob> RunAlone(TestEngine& test, SequenceId id) {
  PromptCollector collector;
  while (test.HasWork()) collector.Collect(test.engine.Step());
  return collector.of(id);
}

// The same numbers by another way: each token of the prompt is forced as the output of a sequence of its own.
std::vector<PromptLogprob> AsOutputs(const std::vector<int32_t>& prompt, const FakeModelOptions& model) {
  std::vector<PromptLogprob> expected;
  for (size_t i = 1; i < prompt.size(); ++i) {
    TestEngine test(40, {}, model);
    SequenceSpec spec = Spec({prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(i)}, 1);
    spec.sampling.logprobs = kTop;
    spec.sampling.logit_bias = {{.token = prompt[i], .bias = 100}};
    Start(test.engine, spec);
    const absl::Span<const StepEvent> events = test.engine.Step();
    EXPECT_EQ(events.front().token->token, prompt[i]);
    expected.push_back({.logprob = events.front().token->logprob, .top = events.front().token->top});
  }
  return expected;
}

void ExpectSame(const std::vector<PromptLogprob>& got, const std::vector<PromptLogprob>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].logprob, expected[i].logprob) << "token " << i + 1;
    EXPECT_EQ(got[i].top, expected[i].top) << "token " << i + 1;
  }
}

TEST(EnginePromptLogprobs, AreThoseOfTheSameTokensAsOutputsWhateverTheChunksTheBatchAndTheCache) {
  FakeModelOptions sliding;
  sliding.sliding_layers = 2;
  sliding.window = 37;
  const std::vector<int32_t> prompt = Prompt(70);
  for (const FakeModelOptions& model : {FakeModelOptions{}, sliding}) {
    const std::vector<PromptLogprob> expected = AsOutputs(prompt, model);
    for (const int32_t chunk_tokens : {16, 48, 100, 512}) {
      for (const int32_t neighbours : {0, 1, 7}) {
        for (const bool prefix_cache : {false, true}) {
          SCOPED_TRACE(absl::StrCat(chunk_tokens, " ", neighbours, " ", prefix_cache, " ", model.sliding_layers));
          TestEngine test(300, {.chunk_tokens = chunk_tokens, .prefix_cache = prefix_cache}, model);
          PromptCollector collector;
          // Half of them ask for log-probabilities as well, and all begin as the prompt does.
          for (int32_t i = 0; i < neighbours; ++i) {
            SequenceSpec other = Scored(Prompt(30 + 5 * i), 20);
            if (i % 2 == 0) other.sampling.prompt_logprobs = -1;
            Start(test.engine, other);
            collector.Collect(test.engine.Step());
          }
          const SequenceId id = Start(test.engine, Scored(prompt, 5));
          while (test.HasWork()) collector.Collect(test.engine.Step());
          ExpectSame(collector.of(id), expected);
        }
      }
    }
  }
}

TEST(EnginePromptLogprobs, ChangeNoTokenAndComeOnlyWhereTheyAreAskedFor) {
  TestEngine test(40, {.chunk_tokens = 16});
  const SequenceId plain = Start(test.engine, Spec(Prompt(50), 20));
  const SequenceId scored = Start(test.engine, Scored(Prompt(50), 20));
  PromptCollector collector;
  std::map<SequenceId, Outcome> outcomes;
  while (test.HasWork()) {
    const absl::Span<const StepEvent> events = test.engine.Step();
    collector.Collect(events);
    Collect(events, outcomes);
  }
  EXPECT_TRUE(collector.of(plain).empty());
  EXPECT_EQ(collector.of(scored).size(), 49u);
  EXPECT_EQ(outcomes[scored].tokens, outcomes[plain].tokens);
}

TEST(EnginePromptLogprobs, APromptThatIsCachedIsComputedOnceMore) {
  TestEngine test(40);
  const SequenceId first = Start(test.engine, Scored(Prompt(64), 1));
  const std::vector<PromptLogprob> expected = RunAlone(test, first);
  test.engine.Release(first);
  const SequenceId again = Start(test.engine, Scored(Prompt(64), 1));
  EXPECT_EQ(test.engine.cached_tokens(again), 0);
  EXPECT_EQ(RunAlone(test, again), expected);
  test.engine.Release(again);
  // What it has stored serves others.
  const SequenceId plain = Start(test.engine, Spec(Prompt(64), 1));
  EXPECT_EQ(test.engine.cached_tokens(plain), 48);
}

TEST(EnginePromptLogprobs, OfOneTokenThereAreNone) {
  TestEngine test(4);
  const SequenceId id = Start(test.engine, Scored({7}, 3));
  EXPECT_TRUE(RunAlone(test, id).empty());
}

TEST(EnginePromptLogprobs, AreNotGivenOfAPromptThatHasOutputsAlready) {
  TestEngine test(40);
  SequenceSpec spec = Scored(Prompt(64), 20);
  spec.emitted = 2;
  const SequenceId id = Start(test.engine, spec);
  EXPECT_TRUE(RunAlone(test, id).empty());
}

TEST(EnginePromptLogprobs, ComeOnceOfASequenceThatIsPreempted) {
  const FakeModelOptions model;
  const std::vector<PromptLogprob> expected = AsOutputs(Prompt(40), model);
  // Ten blocks for two sequences of six each: the younger one gives way, and computes its prompt again.
  TestEngine test(10, {.chunk_tokens = 16}, model);
  const SequenceId older = Start(test.engine, Spec(Prompt(40, 3), 50));
  const SequenceId younger = Start(test.engine, Scored(Prompt(40), 50));
  PromptCollector collector;
  while (test.HasWork()) collector.Collect(test.engine.Step());
  EXPECT_GT(test.engine.Counters().preemptions, 0);
  ExpectSame(collector.of(younger), expected);
  EXPECT_TRUE(collector.of(older).empty());
}

TEST(EnginePromptLogprobs, ALargeVocabularyGetsFewerRowsAStepAndTheSameNumbers) {
  // 32 MiB are the logits of 32 rows.
  const FakeModelOptions wide = {.vocab_size = 262'144};
  TestEngine test(40, {.chunk_tokens = 256}, wide);
  const SequenceId id = Start(test.engine, Scored(Prompt(100), 1));
  PromptCollector collector;
  std::vector<int32_t> computed;
  while (test.HasWork()) {
    const absl::Span<const StepEvent> events = test.engine.Step();
    collector.Collect(events);
    computed.push_back(events.front().computed_tokens);
  }
  EXPECT_EQ(computed, (std::vector<int32_t>{32, 64, 96, 100}));
  TestEngine small(40, {.chunk_tokens = 16}, wide);
  const SequenceId same = Start(small.engine, Scored(Prompt(100), 1));
  ExpectSame(collector.of(id), RunAlone(small, same));
}

TEST(EnginePromptLogprobs, OtherPromptsGoOnWhereOneHasUsedUpTheRowsOfAStep) {
  const FakeModelOptions wide = {.vocab_size = 262'144};
  TestEngine test(60, {.chunk_tokens = 256}, wide);
  const SequenceId scored = Start(test.engine, Scored(Prompt(100), 1));
  const SequenceId waits = Start(test.engine, Scored(Prompt(100, 2), 1));
  const SequenceId plain = Start(test.engine, Spec(Prompt(100, 3), 1));
  std::map<SequenceId, int32_t> computed;
  for (const StepEvent& event : test.engine.Step()) computed[event.sequence] = event.computed_tokens;
  EXPECT_EQ(computed, (std::map<SequenceId, int32_t>{{scored, 32}, {plain, 100}}));
  RunAll(test.engine);
  EXPECT_FALSE(test.engine.HasWork()) << waits;
}

TEST(ScoreToken, TheRankCountsTheTokensThatComeBefore) {
  const std::vector<float> logits = {1, 3, 2, 3, -1};
  EXPECT_EQ(ScoreToken(1, 0, logits).rank, 1);
  EXPECT_EQ(ScoreToken(3, 0, logits).rank, 2) << "of equals, the smaller id comes first";
  EXPECT_EQ(ScoreToken(2, 0, logits).rank, 3);
  EXPECT_EQ(ScoreToken(4, 0, logits).rank, 5);
  const PromptLogprob scored = ScoreToken(2, 2, logits);
  ASSERT_EQ(scored.top.size(), 2u);
  EXPECT_EQ(scored.top[0].token, 1);
  EXPECT_EQ(scored.top[1].token, 3);
  EXPECT_FLOAT_EQ(scored.logprob - scored.top[0].logprob, -1.0f);
}

TEST(ScoreToken, WithoutAFiniteLogitThereIsNothingToSay) {
  const std::vector<float> logits(20, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(ScoreToken(3, 5, logits), PromptLogprob{});
}

}  // namespace
}  // namespace baton::engine
