#include "engine/testing/fake_steps.h"

#include <algorithm>

#include "common/check.h"
#include "engine/sampler.h"

namespace baton::engine {
namespace {

// The block that a row writes in a group.
BlockId BlockOf(const SequenceSlice& slice, int32_t group, int32_t position) {
  return slice.blocks[static_cast<size_t>(group * slice.group_stride + position / kBlockTokens)];
}

}  // namespace

FakeStep& FakeSteps::Add(const StepBatch& batch, const StepOutputs& outputs) {
  BATON_CHECK(steps_.empty() || TakesAnother()) << "a step too many in flight";
  BATON_CHECK(batch.token_sources.empty() || !steps_.empty()) << "tokens of a step that is complete";
  ahead_ += steps_.empty() ? 0 : 1;
  FakeStep step;
  step.tokens.assign(batch.tokens.begin(), batch.tokens.end());
  step.token_sources.assign(batch.token_sources.begin(), batch.token_sources.end());
  step.slices.assign(batch.slices.begin(), batch.slices.end());
  step.choices = batch.choices;
  step.output_count = batch.output_count;
  step.outputs = outputs;
  step.chosen.resize(outputs.tokens.size());
  for (OutputToken& token : outputs.tokens) token = {.index = -1, .token = -1};
  for (const SequenceSlice& slice : step.slices) {
    step.blocks.insert(step.blocks.end(), slice.blocks.begin(), slice.blocks.end());
  }
  size_t begin = 0;
  for (SequenceSlice& slice : step.slices) {
    const absl::Span<BlockId> blocks = absl::MakeSpan(step.blocks).subspan(begin, slice.blocks.size());
    begin += slice.blocks.size();
    slice.blocks = blocks;
    CheckBlocks(slice);
    if (step.token_sources.empty()) continue;
    // The step before may see them still.
    for (int32_t group = groups_.full; group < groups_.count(); ++group) {
      const size_t first = static_cast<size_t>(group * slice.group_stride);
      std::fill_n(blocks.begin() + first, groups_.FirstSeen(slice.first_position), kNoBlock);
    }
  }
  if (!step.token_sources.empty()) CheckChoices(step);
  steps_.push_back(std::move(step));
  return steps_.back();
}

void FakeSteps::CheckChoices(const FakeStep& step) const {
  BATON_CHECK(step.token_sources.size() == step.tokens.size()) << step.token_sources.size() << " sources";
  for (const SequenceSlice& slice : step.slices) {
    const int32_t source = step.token_sources.at(static_cast<size_t>(slice.first_row));
    const TokenChoice& choice = step.choices.at(static_cast<size_t>(slice.first_output));
    BATON_CHECK(slice.row_count == 1 && slice.output_rows == OutputRows::kLast) << slice.row_count << " rows ahead";
    BATON_CHECK(source >= -1 && source < steps_.back().output_count) << source;
    BATON_CHECK(choice.context.unknown_outputs == (source < 0 ? 0 : 1)) << choice.context.unknown_outputs;
    BATON_CHECK(source < 0 || LogitsDecide(choice)) << "a token ahead that is not chosen by its logits alone";
  }
}

void FakeSteps::CheckBlocks(const SequenceSlice& slice) const {
  for (const FakeStep& before : steps_) {
    for (const SequenceSlice& writer : before.slices) {
      for (int32_t group = 0; group < groups_.count(); ++group) {
        const BlockId written = BlockOf(writer, group, writer.first_position);
        for (size_t i = 0; i < slice.blocks.size(); ++i) {
          if (slice.blocks[i] != written) continue;
          const size_t place = static_cast<size_t>(group * slice.group_stride + writer.first_position / kBlockTokens);
          BATON_CHECK(slice.first_position == writer.first_position + 1 && i == place)
              << "block " << written << " is another sequence's while a step in flight writes it";
        }
      }
    }
  }
}

void FakeSteps::ResolveTokens(FakeStep& step) const {
  for (size_t row = 0; row < step.token_sources.size(); ++row) {
    const int32_t source = step.token_sources[row];
    if (source >= 0) step.tokens[row] = last_tokens_.at(static_cast<size_t>(source));
  }
}

void FakeSteps::NoteRun(FakeStep& step) {
  step.has_run = true;
  last_tokens_.clear();
  for (const OutputToken& token : step.chosen) last_tokens_.push_back(token.token);
}

FakeStep& FakeSteps::oldest() {
  BATON_CHECK(!steps_.empty()) << "no step was submitted";
  return steps_.front();
}

void FakeSteps::Pop() {
  FakeStep& step = oldest();
  BATON_CHECK(step.has_run);
  std::move(step.chosen.begin(), step.chosen.end(), step.outputs.tokens.begin());
  steps_.pop_front();
}

bool FakeSteps::TakesAnother() const {
  if (steps_.size() != 1) return false;
  const FakeStep& step = steps_.back();
  return step.output_count > 0 && !step.outputs.tokens.empty() && step.outputs.logits.empty() &&
         step.outputs.hidden_states.empty() &&
         std::all_of(step.choices.begin(), step.choices.end(),
                     [](const TokenChoice& choice) { return LogitsDecide(choice); });
}

bool FakeSteps::Write(BlockId block) const {
  for (const FakeStep& step : steps_) {
    for (const SequenceSlice& slice : step.slices) {
      for (int32_t group = 0; group < groups_.count(); ++group) {
        for (int32_t row = 0; row < slice.row_count; ++row) {
          if (BlockOf(slice, group, slice.first_position + row) == block) return true;
        }
      }
    }
  }
  return false;
}

}  // namespace baton::engine
