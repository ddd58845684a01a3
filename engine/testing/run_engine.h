// Short words for the sequences of an engine's tests, and what came of them.
#ifndef BATON_ENGINE_TESTING_RUN_ENGINE_H_
#define BATON_ENGINE_TESTING_RUN_ENGINE_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/engine.h"
#include "gtest/gtest.h"

namespace baton::engine {

inline std::vector<int32_t> Prompt(int32_t length, int32_t first = 1) {
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  for (int32_t i = 0; i < length; ++i) prompt[static_cast<size_t>(i)] = (first + i * 7) % 64;
  return prompt;
}

inline SequenceSpec Spec(std::vector<int32_t> prompt, int32_t max_tokens, bool prefill_only = false) {
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

inline void Collect(absl::Span<const StepEvent> events, std::map<SequenceId, Outcome>& outcomes) {
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

inline std::map<SequenceId, Outcome> RunAll(Engine& engine, std::map<SequenceId, Outcome> outcomes = {}) {
  constexpr int kMaxSteps = 100'000;
  for (int step = 0; engine.HasWork() && step < kMaxSteps; ++step) Collect(engine.Step(), outcomes);
  EXPECT_FALSE(engine.HasWork()) << "no progress";
  return outcomes;
}

inline SequenceId Start(Engine& engine, SequenceSpec spec) {
  const SequenceId id = engine.Reserve(std::move(spec)).value();
  engine.StartPrefill(id);
  return id;
}

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_RUN_ENGINE_H_
