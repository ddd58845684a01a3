// What an engine does with a constraint: it asks before each choice, says each token that came, and takes the outputs
// of earlier attempts into account.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/checked_engine.h"
#include "engine/testing/run_engine.h"
#include "engine/testing/slow_grammar.h"
#include "engine/testing/thirds_grammar.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

constexpr int32_t kGrammarBlocks = 40;
constexpr int32_t kGrammarEos = 63;
constexpr int32_t kGrammarVocabulary = 64;

SequenceSpec Constrained(SequenceSpec spec, const std::string& text = "......") {
  spec.sampling.grammar = {.kind = GrammarKind::kRegex, .text = text};
  return spec;
}

EngineOptions GrammarOptions(ThirdsSource& source) { return {.eos_ids = {kGrammarEos}, .constraints = &source}; }

class EngineGrammarTest : public ::testing::Test {
 protected:
  std::vector<int32_t> Run(SequenceSpec spec) {
    TestEngine test(kGrammarBlocks, GrammarOptions(source_));
    const SequenceId id = Start(test.engine, std::move(spec));
    return RunAll(test.engine)[id].tokens;
  }

  ThirdsSource source_{kGrammarVocabulary, kGrammarEos};
};

TEST_F(EngineGrammarTest, EveryOutputIsOneThatIsAllowed) {
  for (const float temperature : {0.0f, 1.0f}) {
    SequenceSpec spec = Constrained(Spec(Prompt(20), 200));
    spec.sampling.temperature = temperature;
    const std::vector<int32_t> tokens = Run(spec);
    ASSERT_GE(tokens.size(), 6u);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool is_end = tokens[i] == kGrammarEos && i + 1 == tokens.size() && i >= 6;
      EXPECT_TRUE(is_end || tokens[i] % 3 == static_cast<int32_t>(i) % 3) << "output " << i << " is " << tokens[i];
    }
  }
}

TEST_F(EngineGrammarTest, OneThatBeginsWithOutputsGoesOnAsIfNothingHadHappened) {
  const SequenceSpec spec = Constrained(Spec(Prompt(20), 30), std::string(100, '.'));
  const std::vector<int32_t> all = Run(spec);
  ASSERT_EQ(all.size(), 30u);
  for (const int32_t emitted : {1, 2, 13, 29}) {
    SequenceSpec rest = spec;
    rest.prompt.insert(rest.prompt.end(), all.begin(), all.begin() + emitted);
    rest.emitted = emitted;
    TestEngine test(kGrammarBlocks, GrammarOptions(source_));
    const SequenceId id = Start(test.engine, std::move(rest));
    std::vector<int32_t> tokens;
    while (test.engine.HasWork()) {
      for (const StepEvent& event : test.engine.Step()) {
        if (event.token) tokens.push_back(event.token->token);
      }
    }
    EXPECT_EQ(tokens, std::vector<int32_t>(all.begin() + emitted, all.end())) << emitted << " outputs; " << id;
  }
}

TEST_F(EngineGrammarTest, OutputsThatItDoesNotAllowAreRefused) {
  TestEngine test(kGrammarBlocks, GrammarOptions(source_));
  SequenceSpec spec = Constrained(Spec({1, 2, 3, 7}, 30));
  spec.emitted = 1;
  EXPECT_EQ(test.engine.Reserve(spec).status().message(),
            "grammar: it does not allow output 0 of those that are there");
  EXPECT_EQ(test.engine.Load().used_blocks, 0);
}

TEST_F(EngineGrammarTest, APeersFirstOutputMustBeAllowed) {
  TestEngine test(kGrammarBlocks, GrammarOptions(source_));
  SequenceSpec spec = Constrained(Spec(Prompt(20), 30));
  spec.pulls_prompt = true;
  const SequenceId id = test.engine.Reserve(spec).value();
  EXPECT_FALSE(test.engine.AcceptsFirst(id, {.token = 4}));
  EXPECT_FALSE(test.engine.AcceptsFirst(id, {.token = kGrammarEos, .finish = FinishReason::kStop}));
  ASSERT_TRUE(test.engine.AcceptsFirst(id, {.token = 9}));
  test.engine.StartDecode(id, {.token = 9});
  const std::vector<int32_t> rest = RunAll(test.engine, {{id, {.tokens = {9}}}})[id].tokens;
  ASSERT_GT(rest.size(), 2u);
  EXPECT_EQ(rest[1] % 3, 1);
}

// The pool is too small for all, so that some are preempted and computed again.
TEST_F(EngineGrammarTest, PreemptionChangesNoToken) {
  std::vector<SequenceSpec> specs;
  for (int32_t i = 0; i < 4; ++i) specs.push_back(Constrained(Spec(Prompt(17, i), 60), std::string(100, '.')));
  TestEngine test(14, GrammarOptions(source_));
  std::vector<SequenceId> ids;
  for (const SequenceSpec& spec : specs) ids.push_back(Start(test.engine, spec));
  std::map<SequenceId, Outcome> outcomes;
  while (test.engine.HasWork()) {
    const absl::Span<const StepEvent> events = test.engine.Step();
    Collect(events, outcomes);
    for (const StepEvent& event : events) {
      if (event.token && event.token->is_last()) test.engine.Release(event.sequence);
    }
  }
  EXPECT_GT(test.engine.Counters().preemptions, 0);
  for (size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(outcomes[ids[i]].tokens, Run(specs[i])) << "sequence " << i;
}

TEST_F(EngineGrammarTest, OneThatWaitsForItsMaskHasNoRowAndOthersGoOn) {
  const SequenceSpec spec = Constrained(Spec(Prompt(20), 12));
  const std::vector<int32_t> expected = Run(spec);
  // It waits as a prompt, or behind its first token.
  for (const size_t first : {0u, 1u}) {
    std::vector<std::function<void()>> masks;
    SlowSource source(
        kGrammarVocabulary, kGrammarEos, [](const std::function<void()>& make_ready) { make_ready(); },
        [&masks](std::function<void()> make_ready) { masks.push_back(std::move(make_ready)); });
    TestEngine test(kGrammarBlocks, {.eos_ids = {kGrammarEos}, .constraints = &source});
    const auto held = source.Prepare(spec.sampling.grammar);
    const SequenceId id = Start(test.engine, spec);
    const SequenceId other = Start(test.engine, Spec(Prompt(17, 1), 25));
    std::map<SequenceId, Outcome> outcomes;
    const auto run = [&] {
      while (test.engine.HasWork()) Collect(test.engine.Step(), outcomes);
    };
    ASSERT_TRUE(test.engine.HasWork());
    ASSERT_EQ(masks.size(), 1u);
    if (first == 1) masks.back()();
    run();
    EXPECT_EQ(outcomes[other].tokens.size(), 25u);
    for (size_t tokens = first; tokens < expected.size(); ++tokens) {
      EXPECT_EQ(outcomes[id].tokens.size(), tokens);
      ASSERT_EQ(masks.size(), tokens + 1) << "it is asked for once";
      masks.back()();
      run();
    }
    EXPECT_EQ(outcomes[id].tokens, expected);
    EXPECT_EQ(masks.size(), expected.size());
  }
}

TEST_F(EngineGrammarTest, WhatCannotBeMadeIsRefused) {
  TestEngine test(kGrammarBlocks, GrammarOptions(source_));
  EXPECT_EQ(test.engine.Reserve(Constrained(Spec(Prompt(20), 30), "bad")).status().message(), "bad grammar");
  TestEngine without(kGrammarBlocks);
  EXPECT_TRUE(absl::IsUnimplemented(without.engine.Reserve(Constrained(Spec(Prompt(20), 30))).status()));
}

}  // namespace
}  // namespace baton::engine
