#include "engine/step_queue.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "common/check.h"

namespace baton::engine {

bool EngineStep::IsLive() const {
  return std::any_of(plan.begin(), plan.end(), [](const PlannedSlice& planned) { return Live(planned) != nullptr; });
}

void EngineStep::Clear() {
  plan.clear();
  slices.clear();
  tokens.clear();
  token_sources.clear();
  choices.clear();
  hidden_states.clear();
}

StepQueue::StepQueue(const StepSizes& sizes, ModelRunner& runner, BlockPool& pool) : runner_(runner), pool_(pool) {
  const size_t sequences = static_cast<size_t>(sizes.sequences);
  for (EngineStep& step : steps_) {
    step.plan.reserve(sequences);
    step.slices.reserve(sequences);
    step.tokens.reserve(static_cast<size_t>(sizes.rows));
    step.token_sources.reserve(sequences);
    step.choices.reserve(static_cast<size_t>(sizes.outputs));
    step.chosen.resize(static_cast<size_t>(sizes.outputs));
  }
  ended_.reserve(sequences);
  withheld_.reserve(sequences * static_cast<size_t>(runner.kv_layout().groups().count()));
}

StepQueue::~StepQueue() { Await(); }

void StepQueue::Submit(EngineStep& step) {
  BATON_CHECK(step.stage == EngineStep::Stage::kNone && (&step == &next() || is_in_flight()));
  runner_.Submit({.tokens = step.tokens,
                  .slices = step.slices,
                  .output_count = static_cast<int32_t>(step.choices.size()),
                  .choices = step.choices,
                  .token_sources = step.token_sources},
                 {.tokens = absl::MakeSpan(step.chosen).first(step.choices.size()),
                  .hidden_states = absl::MakeSpan(step.hidden_states)});
  step.stage = EngineStep::Stage::kInFlight;
}

void StepQueue::ShowLayers(absl::FunctionRef<void(const LayerEvent&)> on_layers) {
  const EngineStep& step = next();
  if (std::none_of(step.slices.begin(), step.slices.end(), IsPrompt)) return;
  const int32_t layers = runner_.kv_layout().layers;
  for (int32_t before = 0, done = runner_.AwaitLayers(0); done < layers;
       before = done, done = runner_.AwaitLayers(done)) {
    for (size_t i = 0; i < step.plan.size(); ++i) {
      const PlannedSlice& planned = step.plan[i];
      const Sequence* const sequence = EngineStep::Live(planned);
      if (sequence == nullptr || !IsPrompt(step.slices[i])) continue;
      on_layers({.sequence = sequence->id(),
                 .layers = done,
                 .layers_before = before,
                 .computed_tokens = std::min(planned.first_position + planned.row_count, sequence->prompt_length())});
    }
  }
}

void StepQueue::Await() {
  if (!is_in_flight()) return;
  runner_.Complete();
  next().stage = EngineStep::Stage::kComplete;
  for (const BlockId block : withheld_) pool_.Unref(block);
  withheld_.clear();
  ended_.clear();
}

void StepQueue::Pop() {
  BATON_CHECK(next().stage == EngineStep::Stage::kComplete);
  next().stage = EngineStep::Stage::kNone;
  next_ = 1 - next_;
}

PlannedSlice* StepQueue::Find(const Sequence& sequence) {
  if (next().stage == EngineStep::Stage::kNone) return nullptr;
  std::vector<PlannedSlice>& plan = next().plan;
  const auto found = std::find_if(plan.begin(), plan.end(),
                                  [&](const PlannedSlice& planned) { return planned.sequence == &sequence; });
  return found == plan.end() ? nullptr : &*found;
}

void StepQueue::Drop(const Sequence& sequence) {
  if (PlannedSlice* const planned = Find(sequence)) planned->sequence = nullptr;
}

// Only a step that was planned ahead is in flight while sequences are released, and its slices are single rows.
void StepQueue::Release(std::unique_ptr<Sequence> sequence) {
  PlannedSlice* const planned = Find(*sequence);
  if (planned != nullptr) planned->sequence = nullptr;
  if (planned == nullptr || !is_in_flight()) return sequence->ReleaseBlocks(pool_);
  BATON_CHECK(planned->row_count == 1) << planned->row_count;
  for (int32_t group = 0; group < sequence->groups().count(); ++group) {
    withheld_.push_back(sequence->TakeOut(group, planned->first_position / kBlockTokens));
  }
  sequence->ReleaseBlocks(pool_);
  ended_.push_back(std::move(sequence));
}

}  // namespace baton::engine
