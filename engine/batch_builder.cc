#include "engine/batch_builder.h"

#include <algorithm>
#include <utility>

namespace baton::engine {
namespace {

int32_t EndOf(const SequenceSlice& slice) { return slice.first_position + slice.row_count; }

// Whether the slice has rows of an embedding.
bool HasPooledRows(const Sequence& sequence, const SequenceSlice& slice) {
  return sequence.pools() && slice.output_rows != OutputRows::kNone;
}

}  // namespace

BatchBuilder::BatchBuilder(BatchOptions options) : options_(std::move(options)) {
  scores_.resize(static_cast<size_t>(options_.scored_rows));
}

void BatchBuilder::Build(absl::Span<const PlannedSlice> plan, bool is_ahead, EngineStep& step) {
  step.Clear();
  if (!is_ahead) score_count_ = 0;
  bool pools = false;
  for (const PlannedSlice& planned : plan) {
    Sequence& sequence = *planned.sequence;
    const int32_t end = planned.first_position + planned.row_count;
    const int32_t last_group = (sequence.groups().count() - 1) * sequence.block_stride();
    SequenceSlice slice = {
        .first_row = static_cast<int32_t>(step.tokens.size()),
        .row_count = planned.row_count,
        .first_position = planned.first_position,
        .blocks = sequence.blocks().first(static_cast<size_t>(last_group + BlocksForTokens(end))),
        .group_stride = sequence.block_stride(),
        .row_class = sequence.state == SequenceState::kDecode ? RowClass::kDecode : RowClass::kPrefill};
    AddRows(sequence, slice, is_ahead, step);
    if (sequence.ScoreEnd(end) > sequence.scored()) AddScores(sequence, slice, step);
    if (end >= sequence.length()) AddChoice(sequence, slice, step);
    step.plan.push_back(planned);
    step.slices.push_back(slice);
    pools |= HasPooledRows(sequence, slice);
  }
  step.hidden_states.resize(pools ? step.choices.size() * static_cast<size_t>(options_.hidden_size) : 0);
}

void BatchBuilder::AddRows(const Sequence& sequence, const SequenceSlice& slice, bool is_ahead, EngineStep& step) {
  if (is_ahead) {
    const bool awaits = sequence.awaits_token();
    step.token_sources.push_back(awaits ? sequence.next_output : -1);
    if (awaits) return step.tokens.push_back(0);
  }
  const absl::Span<const int32_t> rows =
      sequence.tokens().subspan(static_cast<size_t>(slice.first_position), static_cast<size_t>(slice.row_count));
  step.tokens.insert(step.tokens.end(), rows.begin(), rows.end());
}

void BatchBuilder::AddChoice(Sequence& sequence, SequenceSlice& slice, EngineStep& step) const {
  const int32_t output = static_cast<int32_t>(step.choices.size());
  if (slice.output_rows == OutputRows::kNone) {
    slice.output_rows = OutputRows::kLast;
    slice.first_output = output;
  }
  const bool awaits = EndOf(slice) > sequence.length();
  step.choices.push_back(
      {.sampling = &sequence.spec().sampling,
       .context = {.prompt = sequence.client_prompt(),
                   .outputs = sequence.outputs(),
                   .unknown_outputs = awaits ? 1 : 0,
                   .eos_ids = options_.eos_ids,
                   .allowed = sequence.constraint == nullptr ? AllowedTokens{} : sequence.constraint->Allowed()}});
  sequence.next_output = output;
}

// All rows of the slice become output rows; the last one of the prompt is left to whoever chooses its token.
void BatchBuilder::AddScores(const Sequence& sequence, SequenceSlice& slice, EngineStep& step) {
  slice.output_rows = OutputRows::kAll;
  slice.first_output = static_cast<int32_t>(step.choices.size());
  const int32_t end = std::min(EndOf(slice), sequence.length() - 1);
  for (int32_t row = slice.first_position; row < end; ++row) {
    TokenChoice& choice = step.choices.emplace_back();
    // Given before the sequence was preempted, or a share of the embedding, which needs no logits.
    if (row < sequence.scored() || sequence.pools()) continue;
    choice.score = &scores_[score_count_++];
    choice.scored_token = sequence.tokens()[static_cast<size_t>(row) + 1];
    choice.scored_top = sequence.spec().sampling.prompt_logprobs;
  }
}

void BatchBuilder::TakePromptRows(const EngineStep& step, const SequenceSlice& slice, Sequence& sequence,
                                  StepEvent& event) const {
  if (HasPooledRows(sequence, slice)) return PoolRows(step, slice, sequence);
  if (sequence.pools()) return;
  const int32_t end = sequence.ScoreEnd(EndOf(slice));
  if (end <= sequence.scored()) return;
  // The scores of a slice are one behind the other.
  const size_t first = static_cast<size_t>(slice.first_output + sequence.scored() - slice.first_position);
  event.first_prompt = sequence.scored() + 1;
  event.prompt = {step.choices[first].score, static_cast<size_t>(end - sequence.scored())};
  sequence.set_scored(end);
}

// Adds row after row, so that neither the chunks nor the neighbours of a prompt change a bit of its embedding.
void BatchBuilder::PoolRows(const EngineStep& step, const SequenceSlice& slice, Sequence& sequence) const {
  const int32_t end = EndOf(slice);
  const int32_t begin = slice.output_rows == OutputRows::kAll ? slice.first_position : end - 1;
  const size_t width = static_cast<size_t>(options_.hidden_size);
  sequence.pooled.resize(width);
  for (int32_t row = std::max(begin, sequence.scored()); row < end; ++row) {
    const size_t output = static_cast<size_t>(slice.first_output + row - begin);
    const absl::Span<const float> hidden = absl::MakeConstSpan(step.hidden_states).subspan(output * width, width);
    for (size_t i = 0; i < width; ++i) sequence.pooled[i] += static_cast<double>(hidden[i]);
  }
  sequence.set_scored(sequence.ScoreEnd(end));
}

}  // namespace baton::engine
