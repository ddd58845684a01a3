// What every model runner does with a step, and an engine over one whose steps run behind it.
#include "engine/model_runner.h"

#include <cstdint>
#include <map>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/behind_runner.h"
#include "engine/testing/checked_engine.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

SequenceSpec BehindSpec(int32_t number) {
  SequenceSpec spec{.prompt = std::vector<int32_t>(static_cast<size_t>(5 + 23 * number), number + 1)};
  spec.sampling.max_tokens = 30 + number;
  spec.sampling.temperature = number % 2 == 0 ? 0.0f : 1.0f;
  spec.sampling.seed = static_cast<uint64_t>(number);
  return spec;
}

TEST(EngineOverARunnerBehind, TokensAreThoseOfARunnerThatIsWaitedFor) {
  constexpr int32_t kSequences = 6;
  const EngineOptions options{.chunk_tokens = 48, .max_sequences = 4};
  CheckedModel model({}, options.chunk_tokens + options.max_sequences);
  BehindRunner runner(model);
  // So few blocks that sequences are preempted and prefixes found again.
  std::vector<uint8_t> memory(20 * model.kv_layout().block_bytes());
  HostKvPool pool(absl::MakeSpan(memory), model.kv_layout().block_bytes());
  Engine engine(options, runner, pool, PrefixNames({1, 2}));
  std::map<SequenceId, int32_t> running;
  std::map<int32_t, std::vector<int32_t>> tokens;
  int32_t next = 0;
  do {
    if (next < kSequences) {
      if (const auto id = engine.Reserve(BehindSpec(next)); id.ok()) {
        engine.StartPrefill(*id);
        running[*id] = next++;
      }
    }
    for (const StepEvent& event : engine.Step()) {
      if (!event.token.has_value()) continue;
      tokens[running.at(event.sequence)].push_back(event.token->token);
      if (event.token->is_last()) engine.Release(event.sequence);
    }
  } while (engine.HasWork() || next < kSequences);
  for (int32_t number = 0; number < kSequences; ++number) {
    EXPECT_EQ(tokens[number], FakeModelTokens({}, BehindSpec(number).prompt, BehindSpec(number).sampling, {}))
        << number;
  }
  EXPECT_GT(runner.submitted(), 0);
  EXPECT_EQ(runner.completed(), runner.submitted());
}

// One row at position 0, and what to choose after it.
struct OneRowStep {
  OneRowStep() { slice.output_rows = OutputRows::kLast, slice.first_output = 0; }
  StepBatch batch() const {
    return {.tokens = absl::MakeConstSpan(&token, 1),
            .slices = absl::MakeConstSpan(&slice, 1),
            .output_count = 1,
            .choices = absl::MakeConstSpan(&choice, 1)};
  }

  int32_t token = 7;
  BlockId block = 0;
  SequenceSlice slice{.row_count = 1, .blocks = absl::MakeConstSpan(&block, 1), .group_stride = 1};
  SamplingParams sampling;
  TokenChoice choice{.sampling = &sampling};
};

class HostModelRunnerTest : public testing::Test {
 protected:
  HostModelRunnerTest() { model_.SetKvPool(pool_); }

  FakeModel model_{{}};
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(model_.kv_layout().block_bytes());
  HostKvPool pool_{absl::MakeSpan(memory_), memory_.size()};
  OneRowStep row_;
  std::vector<float> logits_ = std::vector<float>(64);
  OutputToken token_;
};

TEST_F(HostModelRunnerTest, LogitsBesideATokenAreThoseThatTheModelGave) {
  model_.Run(row_.batch(), {.logits = absl::MakeSpan(logits_)});
  // A penalty makes the sampler overwrite its own copy of the logits.
  row_.sampling.frequency_penalty = 2;
  const std::vector<int32_t> outputs = {ArgMax(logits_)};
  row_.choice.context.outputs = outputs;
  std::vector<float> beside(logits_.size());
  model_.Run(row_.batch(), {.tokens = absl::MakeSpan(&token_, 1), .logits = absl::MakeSpan(beside)});
  EXPECT_EQ(beside, logits_);
}

using HostModelRunnerDeathTest = HostModelRunnerTest;

TEST_F(HostModelRunnerDeathTest, OneStepIsInFlightAtMost) {
  model_.Submit(row_.batch(), {.logits = absl::MakeSpan(logits_)});
  EXPECT_DEATH(model_.Submit(row_.batch(), {.logits = absl::MakeSpan(logits_)}), "one step at a time");
  model_.Complete();
  EXPECT_DEATH(model_.Complete(), "no step was submitted");
}

TEST_F(HostModelRunnerDeathTest, HiddenStatesOfAModelThatHasNoneAreRefused) {
  EXPECT_DEATH(model_.Submit(row_.batch(), {.hidden_states = absl::MakeSpan(logits_)}), "64 hidden states");
}

}  // namespace
}  // namespace baton::engine
