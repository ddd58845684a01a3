// Steps that say on their way which layers of their prompts are computed.
#include <tuple>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/checked_engine.h"
#include "engine/testing/run_engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Sequence, layers, and tokens that are computed once the step has ended.
using Told = std::vector<std::tuple<SequenceId, int32_t, int32_t>>;

class EngineLayers : public testing::TestWithParam<StepsAhead> {
 protected:
  EngineLayers()
      : test_(40, {.chunk_tokens = 32}, {.full_layers = 3, .steps_ahead = GetParam(), .layer_by_layer = true}) {}

  Told Step() {
    Told told;
    Collect(test_.engine.Step([&](const LayerEvent& event) {
      told.emplace_back(event.sequence, event.layers, event.computed_tokens);
    }),
            outcomes_);
    return told;
  }

  TestEngine test_;
  std::map<SequenceId, Outcome> outcomes_;
};

TEST_P(EngineLayers, EveryChunkOfAPromptIsToldLayerByLayerButForTheLast) {
  const SequenceId id = Start(test_.engine, Spec(Prompt(40), 3));
  EXPECT_THAT(Step(), ElementsAre(Told::value_type{id, 1, 32}, Told::value_type{id, 2, 32}));
  EXPECT_THAT(Step(), ElementsAre(Told::value_type{id, 1, 40}, Told::value_type{id, 2, 40}));
  EXPECT_THAT(Step(), IsEmpty()) << "a decode step";
}

TEST_P(EngineLayers, PromptsThatShareAStepAreToldTogetherAndDecodeRowsAreNot) {
  const SequenceId decodes = Start(test_.engine, Spec(Prompt(5, 9), 20));
  Step();
  const SequenceId one = Start(test_.engine, Spec(Prompt(7), 3));
  const SequenceId other = Start(test_.engine, Spec(Prompt(8, 3), 3));
  Told told;
  // Behind a step ahead, where there is one.
  for (int step = 0; told.empty() && step < 3; ++step) told = Step();
  EXPECT_THAT(told, ElementsAre(Told::value_type{one, 1, 7}, Told::value_type{other, 1, 8}, Told::value_type{one, 2, 7},
                                Told::value_type{other, 2, 8}));
  EXPECT_FALSE(outcomes_[decodes].tokens.empty());
}

TEST_P(EngineLayers, TheTokensAreThoseOfStepsThatTellNothing) {
  const SequenceSpec spec = Spec(Prompt(75), 12);
  const SequenceId id = Start(test_.engine, spec);
  while (test_.HasWork()) Step();
  EXPECT_EQ(outcomes_[id].tokens, FakeModelTokens({.full_layers = 3}, spec.prompt, spec.sampling, {}));
}

INSTANTIATE_TEST_SUITE_P(Runners, EngineLayers,
                         testing::Values(StepsAhead::kNone, StepsAhead::kLate, StepsAhead::kEarly));

}  // namespace
}  // namespace baton::engine
