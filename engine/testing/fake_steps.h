// The steps that a fake model has in flight when it takes a step ahead: copies of what Submit may look at and Complete
// may not. Checks what the engine owes to a step in flight.
#ifndef BATON_ENGINE_TESTING_FAKE_STEPS_H_
#define BATON_ENGINE_TESTING_FAKE_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/kv_layout.h"
#include "engine/model_runner.h"

namespace baton::engine {

struct FakeStep {
  // Copies. The blocks of the slices follow each other in `blocks`.
  std::vector<int32_t> tokens;
  std::vector<int32_t> token_sources;
  std::vector<SequenceSlice> slices;
  std::vector<BlockId> blocks;
  // What they refer to stays as it is.
  absl::Span<const TokenChoice> choices;
  int32_t output_count = 0;
  StepOutputs outputs;
  // What the step chooses, until it is complete.
  std::vector<OutputToken> chosen;
  bool has_run = false;

  StepBatch batch() const {
    return {.tokens = tokens, .slices = slices, .output_count = output_count, .choices = choices};
  }
};

class FakeSteps {
 public:
  explicit FakeSteps(const KvGroups& groups) : groups_(groups) {}

  // Adds a step, which ModelRunner::Submit describes. The outputs hold garbage until it is complete.
  FakeStep& Add(const StepBatch& batch, const StepOutputs& outputs);
  // The step's tokens are known: those of the step before, which has run, among them.
  void ResolveTokens(FakeStep& step) const;
  // The step has run.
  void NoteRun(FakeStep& step);
  FakeStep& oldest();
  // The oldest is complete.
  void Pop();

  // ModelRunner::TakesStepAhead.
  bool TakesAnother() const;
  bool empty() const { return steps_.empty(); }
  // Whether a step in flight writes the block.
  bool Write(BlockId block) const;
  // How many steps were submitted behind another one.
  int64_t ahead() const { return ahead_; }

 private:
  void CheckChoices(const FakeStep& step) const;
  // What the step in flight writes is in the hands of the sequence whose next row this is.
  void CheckBlocks(const SequenceSlice& slice) const;

  const KvGroups groups_;
  std::deque<FakeStep> steps_;
  // The tokens of the step that ran last.
  std::vector<int32_t> last_tokens_;
  int64_t ahead_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_FAKE_STEPS_H_
