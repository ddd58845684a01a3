// An engine whose runner takes a step ahead: no token is another one, and what the step in flight writes is left alone.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/checked_engine.h"
#include "engine/testing/run_engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr int32_t kPoolBlocks = 100;

class EngineAhead : public testing::TestWithParam<StepsAhead> {
 protected:
  FakeModelOptions Model() const { return {.steps_ahead = GetParam()}; }
  FakeModelOptions Sliding() const {
    return {.full_layers = 1, .sliding_layers = 2, .window = 20, .steps_ahead = GetParam()};
  }

  // Starts a sequence of each spec and runs them until each has an output and steps run ahead.
  std::vector<SequenceId> StartAll(const std::vector<SequenceSpec>& specs) {
    std::vector<SequenceId> ids;
    for (const SequenceSpec& spec : specs) ids.push_back(Start(engine(), spec));
    while (test_->model.steps_ahead() == 0) Step();
    for (const SequenceId id : ids) EXPECT_FALSE(outcomes_[id].tokens.empty());
    return ids;
  }

  size_t Step() {
    const absl::Span<const StepEvent> events = engine().Step();
    Collect(events, outcomes_);
    return events.size();
  }
  // Until the sequence has so many outputs.
  void RunTo(SequenceId id, size_t outputs) {
    while (outcomes_[id].tokens.size() < outputs) ASSERT_GT(Step(), 0U);
  }

  std::vector<int32_t> Oracle(const SequenceSpec& spec) const {
    return FakeModelTokens(model_, spec.prompt, spec.sampling, {});
  }

  void Make(int32_t blocks, const FakeModelOptions& model, const EngineOptions& options = {}) {
    model_ = model;
    test_ = std::make_unique<TestEngine>(blocks, options, model);
  }
  Engine& engine() { return test_->engine; }

  FakeModelOptions model_;
  std::unique_ptr<TestEngine> test_;
  std::map<SequenceId, Outcome> outcomes_;
};

SequenceSpec Sampled(int32_t length, int32_t first, int32_t max_tokens) {
  SequenceSpec spec = Spec(Prompt(length, first), max_tokens);
  spec.sampling.temperature = 1.0f;
  spec.sampling.seed = static_cast<uint64_t>(first);
  return spec;
}

// The sequence ends with its output `index`, by its own choice.
SequenceSpec StopsAt(SequenceSpec spec, size_t index) {
  const std::vector<int32_t> tokens = FakeModelTokens({}, spec.prompt, spec.sampling, {});
  const auto at = tokens.begin() + static_cast<ptrdiff_t>(index);
  EXPECT_EQ(std::find(tokens.begin(), at, *at), at) << "it would end before";
  spec.sampling.stop_token_ids = {*at};
  return spec;
}

TEST_P(EngineAhead, TokensAreThoseOfTheModelInStepsThatAreAlmostAllAhead) {
  for (const FakeModelOptions& model : {Model(), Sliding()}) {
    Make(kPoolBlocks, model);
    outcomes_.clear();
    std::vector<SequenceSpec> specs;
    for (const int32_t length : {1, 15, 16, 40}) {
      specs.push_back(Spec(Prompt(length, length), 60));
      specs.push_back(Sampled(length, 100 + length, 60 - length));
    }
    const std::vector<SequenceId> ids = StartAll(specs);
    outcomes_ = RunAll(engine(), std::move(outcomes_));
    for (size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(outcomes_[ids[i]].tokens, Oracle(specs[i])) << i;
      EXPECT_EQ(outcomes_[ids[i]].finish, FinishReason::kLength);
      engine().Release(ids[i]);
    }
    // All but the prompts' and the first of decode.
    EXPECT_EQ(test_->model.steps_ahead(), 58);
    EXPECT_EQ(engine().Load().used_blocks, 0);
  }
}

TEST_P(EngineAhead, AStepIsSubmittedBeforeTheEventsOfTheOneBeforeAreThere) {
  Make(kPoolBlocks, Model());
  StartAll({Spec(Prompt(5), 10)});
  for (int64_t ahead = 1; ahead < 5; ++ahead) {
    EXPECT_EQ(test_->model.steps_ahead(), ahead);
    EXPECT_TRUE(test_->model.TakesStepAhead()) << "none is in flight";
    EXPECT_EQ(Step(), 1U);
  }
}

TEST_P(EngineAhead, ASequenceThatStopsLosesItsRowAheadAndItsBlocksAreThereAtOnce) {
  Make(kPoolBlocks, Model());
  const SequenceSpec stops = StopsAt(Sampled(20, 3, 50), 5);
  const SequenceSpec goes_on = Sampled(20, 9, 50);
  const std::vector<SequenceId> ids = StartAll({stops, goes_on});
  RunTo(ids[0], 6);
  EXPECT_EQ(outcomes_[ids[0]].finish, FinishReason::kStop);
  const int32_t before = engine().Load().used_blocks;
  engine().Release(ids[0]);
  EXPECT_EQ(engine().Load().used_blocks, before - 2);
  EXPECT_EQ(engine().available_blocks(), kPoolBlocks - 2);
  EXPECT_EQ(engine().OrphanedBlocks([&](SequenceId id) { return id == ids[1]; }), 0);
  // The step in flight still writes a block of the ended sequence, which no other one gets. The pool looks at that.
  const SequenceSpec next = Sampled(21, 5, 30);
  const SequenceId id = Start(engine(), next);
  EXPECT_EQ(Step(), 1U) << "the sequence that has ended has no event";
  outcomes_ = RunAll(engine(), std::move(outcomes_));
  EXPECT_EQ(outcomes_[ids[0]].tokens, Oracle(stops));
  EXPECT_EQ(outcomes_[ids[1]].tokens, Oracle(goes_on));
  EXPECT_EQ(outcomes_[id].tokens, Oracle(next));
}

TEST_P(EngineAhead, ReserveWaitsForTheStepAheadWhenItNeedsABlockThatThisWrites) {
  Make(4, Model(), {.prefix_cache = false});
  const SequenceSpec stops = StopsAt(Sampled(20, 3, 30), 5);
  const SequenceSpec goes_on = Sampled(20, 9, 12);
  const std::vector<SequenceId> ids = StartAll({stops, goes_on});
  RunTo(ids[0], 6);
  engine().Release(ids[0]);
  ASSERT_EQ(engine().available_blocks(), 2);
  EXPECT_TRUE(test_->model.TakesStepAhead());
  const SequenceSpec next = Sampled(19, 5, 13);
  const SequenceId id = Start(engine(), next);
  EXPECT_FALSE(test_->model.TakesStepAhead()) << "the step is still in flight";
  EXPECT_EQ(engine().available_blocks(), 0);
  outcomes_ = RunAll(engine(), std::move(outcomes_));
  EXPECT_EQ(outcomes_[ids[1]].tokens, Oracle(goes_on));
  EXPECT_EQ(outcomes_[id].tokens, Oracle(next));
}

TEST_P(EngineAhead, ACancelledSequenceLosesItsRowAheadAndTheOthersKeepTheirs) {
  for (const FakeModelOptions& model : {Model(), Sliding()}) {
    Make(kPoolBlocks, model);
    outcomes_.clear();
    const SequenceSpec goes_on = Sampled(33, 9, 50);
    const std::vector<SequenceId> ids = StartAll({Sampled(20, 3, 50), goes_on, Sampled(40, 4, 50)});
    RunTo(ids[0], 7);
    const size_t had = outcomes_[ids[0]].tokens.size();
    engine().Stop(ids[0]);
    engine().Release(ids[2]);
    EXPECT_EQ(Step(), 1U);
    // The one that was stopped has kept its blocks.
    engine().Release(ids[0]);
    outcomes_ = RunAll(engine(), std::move(outcomes_));
    EXPECT_EQ(outcomes_[ids[0]].tokens.size(), had);
    EXPECT_EQ(outcomes_[ids[1]].tokens, Oracle(goes_on));
    engine().Release(ids[1]);
    EXPECT_EQ(engine().Load().used_blocks, 0);
  }
}

TEST_P(EngineAhead, WhenAllAreCancelledTheStepAheadEndsAndNothingIsLeft) {
  Make(kPoolBlocks, Model());
  const std::vector<SequenceId> ids = StartAll({Sampled(20, 3, 50), Sampled(33, 9, 50)});
  for (const SequenceId id : ids) engine().Release(id);
  EXPECT_EQ(engine().Load().used_blocks, 0);
  EXPECT_TRUE(engine().HasWork()) << "nobody waits for the step";
  EXPECT_EQ(Step(), 0U);
  EXPECT_FALSE(engine().HasWork());
  EXPECT_EQ(engine().Load().free_blocks + engine().Load().cached_blocks, kPoolBlocks);
}

TEST_P(EngineAhead, NewWorkNeedNotWaitForAStepThatNobodyWantsAnyMore) {
  Make(kPoolBlocks, Model());
  const std::vector<SequenceId> ids = StartAll({Sampled(20, 3, 50)});
  engine().Release(ids[0]);
  const SequenceSpec next = Sampled(20, 5, 5);
  const SequenceId id = Start(engine(), next);
  EXPECT_EQ(Step(), 1U);
  outcomes_ = RunAll(engine(), std::move(outcomes_));
  EXPECT_EQ(outcomes_[id].tokens, Oracle(next));
}

TEST_P(EngineAhead, AFrozenSequenceHasTheKvOfAPrefillAndGoesOnWhenItThaws) {
  for (const FakeModelOptions& model : {Model(), Sliding()}) {
    // The last token is the first, a middle and the last one of a block.
    for (const size_t count : {5U, 12U, 20U, 21U}) {
      Make(kPoolBlocks, model);
      outcomes_.clear();
      const SequenceSpec frozen = Sampled(27, 3, 40);
      const SequenceSpec goes_on = Sampled(30, 9, 40);
      const std::vector<SequenceId> ids = StartAll({frozen, goes_on});
      RunTo(ids[0], count);
      ASSERT_TRUE(test_->model.TakesStepAhead());
      const std::vector<BlockId> blocks = engine().Freeze(ids[0]);
      SequenceSpec prefix = frozen;
      const std::vector<int32_t> tokens = Oracle(frozen);
      prefix.prompt.insert(prefix.prompt.end(), tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count) - 1);
      TestEngine prefill(
          kPoolBlocks, {},
          {.full_layers = model.full_layers, .sliding_layers = model.sliding_layers, .window = model.window});
      const SequenceId computed = Start(prefill.engine, prefix);
      prefill.engine.Step();
      Digest128 chain;
      for (const BlockId block : blocks) {
        const Digest128 digest = engine().BlockDigests({block}).front();
        chain = DigestChain(chain, &digest, sizeof(digest));
      }
      EXPECT_EQ(chain, prefill.engine.PromptDigest(computed)) << count;
      // The other one keeps the row that it had ahead.
      const size_t had = outcomes_[ids[1]].tokens.size();
      EXPECT_EQ(Step(), 1U);
      EXPECT_EQ(outcomes_[ids[1]].tokens.size(), had + 1);
      EXPECT_EQ(outcomes_[ids[0]].tokens.size(), count);
      engine().Thaw(ids[0]);
      outcomes_ = RunAll(engine(), std::move(outcomes_));
      EXPECT_EQ(outcomes_[ids[0]].tokens, tokens) << count;
      EXPECT_EQ(outcomes_[ids[1]].tokens, Oracle(goes_on)) << count;
    }
  }
}

TEST_P(EngineAhead, AFrozenSequenceThatIsAloneLeavesNoWork) {
  Make(kPoolBlocks, Model());
  const SequenceSpec spec = Sampled(27, 3, 40);
  const SequenceId id = StartAll({spec})[0];
  engine().Freeze(id);
  EXPECT_FALSE(engine().HasWork());
  engine().Thaw(id);
  EXPECT_EQ(Step(), 1U);
  outcomes_ = RunAll(engine(), std::move(outcomes_));
  EXPECT_EQ(outcomes_[id].tokens, Oracle(spec));
}

TEST_P(EngineAhead, InAPoolThatIsFullNoStepIsAheadOfAPreemption) {
  for (const FakeModelOptions& model : {Model(), Sliding()}) {
    Make(model.sliding_layers > 0 ? 13 : 7, model, {.chunk_tokens = 64});
    outcomes_.clear();
    std::vector<SequenceSpec> specs;
    for (const int32_t first : {3, 9, 5}) specs.push_back(Sampled(14, first, 40));
    std::vector<SequenceId> ids;
    for (const SequenceSpec& spec : specs) ids.push_back(Start(engine(), spec));
    while (engine().HasWork()) {
      Step();
      for (auto& [id, outcome] : outcomes_) {
        if (outcome.finish == FinishReason::kNone || outcome.computed.empty()) continue;
        engine().Release(id);
        outcome.computed.clear();
      }
    }
    EXPECT_GT(engine().Counters().preemptions, 0);
    EXPECT_GT(test_->model.steps_ahead(), 10);
    for (size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(outcomes_[ids[i]].tokens, Oracle(specs[i])) << i;
  }
}

TEST_P(EngineAhead, APromptThatComesWaitsForTheStepAheadAndNoOther) {
  Make(kPoolBlocks, Model());
  const std::vector<SequenceId> ids = StartAll({Sampled(20, 3, 50)});
  RunTo(ids[0], 4);
  const SequenceSpec next = Sampled(20, 5, 10);
  const SequenceId id = Start(engine(), next);
  EXPECT_EQ(Step(), 1U) << "the step that was in flight";
  EXPECT_EQ(Step(), 2U);
  EXPECT_EQ(outcomes_[id].tokens.size(), 1U);
  outcomes_ = RunAll(engine(), std::move(outcomes_));
  EXPECT_EQ(outcomes_[id].tokens, Oracle(next));
}

TEST_P(EngineAhead, TheDigestOfAPromptIsTakenWithItsFirstTokenAsWithoutStepsAhead) {
  const auto digest_of = [](const FakeModelOptions& model) {
    TestEngine test(kPoolBlocks, {}, model);
    Start(test.engine, Sampled(20, 3, 50));
    while (test.model.steps_ahead() == 0 && test.engine.Counters().decode_rows < 5) test.engine.Step();
    const SequenceId id = Start(test.engine, Sampled(21, 9, 50));
    while (true) {
      for (const StepEvent& event : test.engine.Step()) {
        if (event.sequence == id && event.token) return test.engine.PromptDigest(id);
      }
    }
  };
  EXPECT_EQ(digest_of(Model()), digest_of({}));
}

TEST_P(EngineAhead, ASequenceWhosePromptWasPulledJoinsTheNextStepThatIsSubmitted) {
  Make(kPoolBlocks, Model());
  const SequenceSpec pulled = Sampled(21, 9, 30);
  TestEngine prefill(kPoolBlocks);
  SequenceSpec half = pulled;
  half.prefill_only = true;
  const SequenceId computed = Start(prefill.engine, half);
  const OutputToken first = *prefill.engine.Step().front().token;
  StartAll({Sampled(20, 3, 60)});
  SequenceSpec pulls = pulled;
  pulls.pulls_prompt = true;
  const SequenceId id = engine().Reserve(pulls).value();
  const std::vector<BlockId> from = prefill.engine.PromptBlocks(computed);
  const std::vector<BlockId> to = engine().PromptBlocks(id);
  for (size_t i = 0; i < from.size(); ++i) {
    std::copy(prefill.Block(from[i]).begin(), prefill.Block(from[i]).end(), test_->Block(to[i]).begin());
  }
  engine().StartDecode(id, first);
  outcomes_[id].tokens = {first.token};
  const int64_t ahead = test_->model.steps_ahead();
  EXPECT_EQ(Step(), 1U);
  EXPECT_EQ(Step(), 2U);
  EXPECT_EQ(test_->model.steps_ahead(), ahead + 2);
  outcomes_ = RunAll(engine(), std::move(outcomes_));
  EXPECT_EQ(outcomes_[id].tokens, Oracle(pulled));
}

TEST_P(EngineAhead, NoStepIsAheadWhereMoreThanLogitsDecide) {
  const auto steps_ahead = [this](const std::function<void(SamplingParams&)>& change) {
    Make(kPoolBlocks, Model());
    outcomes_.clear();
    SequenceSpec spec = Sampled(20, 3, 20);
    change(spec.sampling);
    const SequenceId id = Start(engine(), spec);
    outcomes_ = RunAll(engine(), std::move(outcomes_));
    EXPECT_EQ(outcomes_[id].tokens, Oracle(spec));
    return test_->model.steps_ahead();
  };
  EXPECT_EQ(steps_ahead([](SamplingParams&) {}), 18);
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.logprobs = 1; }), 0);
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.repetition_penalty = 1.3f; }), 0);
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.frequency_penalty = 0.3f; }), 0);
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.presence_penalty = 0.3f; }), 0);
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.logit_bias = {{.token = 3, .bias = 1}}; }), 0);
  // From the step on whose outputs it does not matter for.
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.min_tokens = 10; }), 9);
}

TEST_P(EngineAhead, ASequenceThatRunsAloneHasNoStepAheadOfItOrBehindIt) {
  Make(kPoolBlocks, Model());
  const JobKey alone_job = {.job = {.high = 7, .low = 1}, .attempt = 1};
  const SequenceSpec other = Sampled(20, 3, 60);
  const SequenceId other_id = StartAll({other})[0];
  SequenceSpec alone = Sampled(20, 9, 10);
  alone.alone_outputs = 5;
  alone.job = alone_job;
  const SequenceId id = Start(engine(), alone);
  while (outcomes_[id].tokens.size() < 5) {
    const absl::Span<const StepEvent> events = engine().Step();
    Collect(events, outcomes_);
    if (events.front().sequence == id) {
      EXPECT_THAT(test_->work.Read(), ElementsAre(alone_job));
    }
    EXPECT_FALSE(test_->model.TakesStepAhead()) << "a step is in flight";
    engine().ForgetStep();
  }
  outcomes_ = RunAll(engine(), std::move(outcomes_));
  EXPECT_EQ(outcomes_[id].tokens, Oracle(alone));
  EXPECT_EQ(outcomes_[other_id].tokens, Oracle(other));
}

TEST_P(EngineAhead, WhomAllStepsInFlightAreForIsNoted) {
  Make(kPoolBlocks, Model());
  std::vector<SequenceSpec> specs = {StopsAt(Sampled(20, 3, 50), 5), Sampled(20, 9, 50)};
  for (uint64_t n = 0; n < 2; ++n) specs[n].job = {.job = {.high = 7, .low = n}, .attempt = 1};
  const std::vector<SequenceId> ids = StartAll(specs);
  while (outcomes_[ids[0]].finish == FinishReason::kNone) {
    engine().ForgetStep();
    EXPECT_THAT(test_->work.Read(), UnorderedElementsAre(specs[0].job, specs[1].job)) << "of the step in flight";
    Step();
    EXPECT_THAT(test_->work.Read(), UnorderedElementsAre(specs[0].job, specs[1].job));
  }
  engine().Release(ids[0]);
  engine().ForgetStep();
  EXPECT_THAT(test_->work.Read(), ElementsAre(specs[1].job));
  engine().Release(ids[1]);
  engine().Step();
  engine().ForgetStep();
  EXPECT_THAT(test_->work.Read(), ElementsAre());
}

TEST_P(EngineAhead, AnEngineThatEndsLeavesNoStepInFlight) {
  FakeModel model(Model());
  std::vector<uint8_t> memory(10 * model.kv_layout().block_bytes());
  HostKvPool pool(absl::MakeSpan(memory), model.kv_layout().block_bytes());
  const SequenceSpec spec = Sampled(20, 3, 50);
  {
    Engine ends({}, model, pool, PrefixNames({1, 2}));
    Start(ends, spec);
    for (int i = 0; i < 3; ++i) ends.Step();
    EXPECT_TRUE(model.TakesStepAhead()) << "none is in flight";
  }
  EXPECT_FALSE(model.TakesStepAhead());
  Engine next({}, model, pool, PrefixNames({1, 2}));
  const SequenceId id = Start(next, spec);
  EXPECT_EQ(RunAll(next)[id].tokens, FakeModelTokens({}, spec.prompt, spec.sampling, {}));
}

INSTANTIATE_TEST_SUITE_P(When, EngineAhead, testing::Values(StepsAhead::kLate, StepsAhead::kEarly),
                         [](const auto& info) { return info.param == StepsAhead::kLate ? "late" : "early"; });

}  // namespace
}  // namespace baton::engine
