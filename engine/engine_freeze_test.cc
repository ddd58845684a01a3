// A sequence that is frozen while it decodes, and goes on in another engine.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/checked_engine.h"
#include "engine/testing/run_engine.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

constexpr int32_t kBlocks = 300;
constexpr int32_t kOutputs = 60;

struct Model {
  std::string name;
  FakeModelOptions options;
};

std::vector<Model> Models() {
  return {{"full layers", {}},
          {"one layer sees all, five slide", {.full_layers = 1, .sliding_layers = 5, .window = 32}},
          {"a window within a block", {.full_layers = 1, .sliding_layers = 1, .window = 5}},
          {"all slide", {.full_layers = 0, .sliding_layers = 2, .window = 33}}};
}

// Runs until the sequence has so many outputs.
OutputToken RunToOutput(TestEngine& test, int32_t count) {
  OutputToken last;
  for (int32_t outputs = 0; outputs < count;) {
    for (StepEvent event : test.engine.Step()) {
      if (!event.token) continue;
      last = *event.token;
      ++outputs;
    }
  }
  return last;
}

SequenceSpec GoesOn(SequenceSpec spec, const std::vector<int32_t>& outputs) {
  spec.prompt.insert(spec.prompt.end(), outputs.begin(), outputs.end());
  spec.emitted = static_cast<int32_t>(outputs.size());
  return spec;
}

void CopyBlocks(TestEngine& from, const std::vector<BlockId>& source, TestEngine& to,
                const std::vector<BlockId>& destination) {
  ASSERT_EQ(source.size(), destination.size());
  for (size_t i = 0; i < source.size(); ++i) {
    std::copy(from.Block(source[i]).begin(), from.Block(source[i]).end(), to.Block(destination[i]).begin());
  }
}

Digest128 ChainOf(TestEngine& test, const std::vector<BlockId>& blocks) {
  Digest128 chain;
  for (const BlockId block : blocks) {
    const Digest128 digest = test.engine.BlockDigests({block}).front();
    chain = DigestChain(chain, &digest, sizeof(digest));
  }
  return chain;
}

// The sequence is frozen after `count` outputs and goes on elsewhere.
void CheckMove(const FakeModelOptions& options, const SequenceSpec& spec, int32_t count) {
  SCOPED_TRACE("prompt of " + std::to_string(spec.prompt.size()) + ", " + std::to_string(count) + " outputs");
  const std::vector<int32_t> expected = FakeModelTokens(options, spec.prompt, spec.sampling, {});
  const std::vector<int32_t> before(expected.begin(), expected.begin() + count - 1);
  TestEngine source(kBlocks, {}, options);
  const SequenceId frozen = Start(source.engine, spec);
  const OutputToken last = RunToOutput(source, count);
  ASSERT_EQ(last.token, expected[static_cast<size_t>(count) - 1]);
  const std::vector<BlockId> blocks = source.engine.Freeze(frozen);
  EXPECT_FALSE(source.engine.HasWork()) << "a frozen sequence runs on";

  SequenceSpec moved = GoesOn(spec, before);
  // The bytes are those of a prefill, with zeros in rows without a token.
  TestEngine prefill(kBlocks, {}, options);
  std::fill(prefill.memory.begin(), prefill.memory.end(), uint8_t{0x3c});
  const SequenceId computed = Start(prefill.engine, moved);
  RunToOutput(prefill, 1);
  EXPECT_EQ(ChainOf(source, blocks), prefill.engine.PromptDigest(computed));

  moved.pulls_prompt = true;
  TestEngine sink(kBlocks, {}, options);
  const SequenceId goes_on = sink.engine.Reserve(moved).value();
  CopyBlocks(source, blocks, sink, sink.engine.PromptBlocks(goes_on));
  ASSERT_TRUE(sink.engine.AcceptsFirst(goes_on, last));
  sink.engine.StartDecode(goes_on, last);
  std::vector<int32_t> tokens(expected.begin(), expected.begin() + count);
  while (sink.HasWork()) {
    for (const StepEvent& event : sink.engine.Step()) {
      ASSERT_EQ(event.token->index, static_cast<int32_t>(tokens.size()));
      tokens.push_back(event.token->token);
    }
  }
  EXPECT_EQ(tokens, expected);
  source.engine.Release(frozen);
  EXPECT_EQ(source.engine.Load().used_blocks, 0);
}

TEST(EngineFreeze, AFrozenSequenceGoesOnElsewhereAsIfItHadNotMoved) {
  for (const Model& model : Models()) {
    SCOPED_TRACE(model.name);
    for (const int32_t length : {1, 15, 16, 40, 100}) {
      // A prefix of the outputs ends in every row of a block.
      for (int32_t count = 1; count < kOutputs; count += length == 40 ? 1 : 7) {
        SequenceSpec spec = Spec(Prompt(length), kOutputs);
        spec.sampling.ignore_eos = true;
        spec.sampling.temperature = 1;
        spec.sampling.seed = 3;
        spec.sampling.repetition_penalty = 1.3f;
        spec.sampling.frequency_penalty = 0.2f;
        CheckMove(model.options, spec, count);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(EngineFreeze, AThawedSequenceGoesOnWhereItWas) {
  for (const Model& model : Models()) {
    SCOPED_TRACE(model.name);
    const SequenceSpec spec = Spec(Prompt(40), kOutputs);
    TestEngine test(kBlocks, {}, model.options);
    const SequenceId id = Start(test.engine, spec);
    std::map<SequenceId, Outcome> outcomes;
    while (test.HasWork()) {
      Collect(test.engine.Step(), outcomes);
      if (outcomes[id].finish != FinishReason::kNone) break;
      test.engine.Freeze(id);
      EXPECT_FALSE(test.engine.HasWork());
      test.engine.Thaw(id);
    }
    EXPECT_EQ(outcomes[id].tokens, FakeModelTokens(model.options, spec.prompt, spec.sampling, {}));
  }
}

TEST(EngineFreeze, OtherSequencesOfTheBatchAreUntouched) {
  const FakeModelOptions options = Models()[1].options;
  TestEngine test(kBlocks, {}, options);
  const SequenceSpec other = Spec(Prompt(50), kOutputs);
  // Their prompts begin with the same blocks.
  const SequenceId frozen = Start(test.engine, Spec(Prompt(40), kOutputs));
  const SequenceId running = Start(test.engine, other);
  std::map<SequenceId, Outcome> outcomes;
  for (int step = 0; step < 10; ++step) Collect(test.engine.Step(), outcomes);
  test.engine.Freeze(frozen);
  outcomes = RunAll(test.engine, std::move(outcomes));
  EXPECT_EQ(outcomes[running].tokens, FakeModelTokens(options, other.prompt, other.sampling, {}));
  EXPECT_EQ(outcomes[frozen].tokens.size(), 10u);
}

}  // namespace
}  // namespace baton::engine
