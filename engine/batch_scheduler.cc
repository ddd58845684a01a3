#include "engine/batch_scheduler.h"

#include <algorithm>

#include "common/check.h"

namespace baton::engine {
namespace {

void Preempt(Sequence& sequence, BlockPool& pool) {
  sequence.ReleaseBlocks(pool);
  sequence.state = SequenceState::kPreempted;
  ++sequence.preemptions;
}

// The youngest sequence that may be preempted, or null.
Sequence* Youngest(BatchScheduler::Sequences sequences) {
  for (auto it = sequences.rbegin(); it != sequences.rend(); ++it) {
    if ((*it)->preemptible()) return it->get();
  }
  return nullptr;
}

Sequence* OldestPreempted(BatchScheduler::Sequences sequences) {
  for (const auto& sequence : sequences) {
    if (sequence->state == SequenceState::kPreempted) return sequence.get();
  }
  return nullptr;
}

// The first in turn after `last` of those that run alone, or null.
Sequence* NextAlone(BatchScheduler::Sequences sequences, SequenceId last) {
  Sequence* first = nullptr;
  for (const auto& sequence : sequences) {
    if (!sequence->runnable() || !sequence->runs_alone() || sequence->waits()) continue;
    if (sequence->id() > last) return sequence.get();
    if (first == nullptr) first = sequence.get();
  }
  return first;
}

int32_t CountRunnable(BatchScheduler::Sequences sequences) {
  int32_t count = 0;
  for (const auto& sequence : sequences) count += sequence->runnable() ? 1 : 0;
  return count;
}

bool NeedsPlan(const Sequence& sequence) {
  return sequence.state == SequenceState::kPrefill || sequence.state == SequenceState::kPreempted ||
         (sequence.runnable() && sequence.runs_alone());
}

}  // namespace

BatchScheduler::BatchScheduler(const SchedulerOptions& options, BlockPool& pool) : options_(options), pool_(pool) {
  BATON_CHECK(options.chunk_tokens >= kBlockTokens) << options.chunk_tokens;
  BATON_CHECK(options.max_sequences >= 1) << options.max_sequences;
  BATON_CHECK(options.scored_rows >= kBlockTokens) << options.scored_rows;
  plan_.reserve(static_cast<size_t>(options.max_sequences));
}

absl::Span<const PlannedSlice> BatchScheduler::Plan(Sequences sequences) {
  plan_.clear();
  scored_rows_left_ = options_.scored_rows;
  was_alone_ = !was_alone_ && PlanAlone(sequences);
  if (was_alone_) return plan_;
  PlanShared(sequences);
  if (plan_.empty()) was_alone_ = PlanAlone(sequences);
  return plan_;
}

absl::Span<const PlannedSlice> BatchScheduler::PlanAhead(Sequences sequences,
                                                         absl::FunctionRef<bool(const Sequence&)> ends) {
  plan_.clear();
  if (std::any_of(sequences.begin(), sequences.end(), [](const auto& s) { return NeedsPlan(*s); })) return plan_;
  for (const auto& sequence : sequences) {
    if (plan_.size() == static_cast<size_t>(options_.max_sequences)) break;
    if (sequence->state != SequenceState::kDecode || (sequence->awaits_token() && ends(*sequence))) continue;
    if (sequence->waits()) continue;
    if (!sequence->Grow(pool_)) {
      plan_.clear();
      break;
    }
    plan_.push_back({.sequence = sequence.get(), .first_position = sequence->computed(), .row_count = 1});
  }
  return plan_;
}

void BatchScheduler::PlanShared(Sequences sequences) {
  const bool prefill_waits = std::any_of(sequences.begin(), sequences.end(), [](const auto& s) {
    return s->state == SequenceState::kPrefill && !s->runs_alone();
  });
  PlanDecode(sequences, options_.max_sequences - (prefill_waits && options_.max_sequences > 1 ? 1 : 0));
  ResumeOldestPreempted(sequences);
  PlanPrefill(sequences);
}

bool BatchScheduler::PlanAlone(Sequences sequences) {
  Sequence* sequence = NextAlone(sequences, last_alone_);
  if (sequence == nullptr) return false;
  last_alone_ = sequence->id();
  if (sequence->state == SequenceState::kPrefill) return PlanChunk(*sequence, options_.chunk_tokens) > 0;
  return PlanDecodeRow(sequences, *sequence);
}

bool BatchScheduler::HasWork(Sequences sequences) const {
  if (std::any_of(sequences.begin(), sequences.end(), [](const auto& s) { return s->runnable() && !s->waits(); })) {
    return true;
  }
  Sequence* preempted = OldestPreempted(sequences);
  PrefixHits hits;
  return preempted != nullptr && CanResume(*preempted, CountRunnable(sequences), hits);
}

void BatchScheduler::PlanDecode(Sequences sequences, int32_t slots) {
  for (const auto& sequence : sequences) {
    if (slots == 0) return;
    if (sequence->state != SequenceState::kDecode || sequence->runs_alone() || sequence->waits()) continue;
    if (PlanDecodeRow(sequences, *sequence)) --slots;
  }
}

bool BatchScheduler::PlanDecodeRow(Sequences sequences, Sequence& sequence) {
  if (!GrowForNextRow(sequences, sequence)) return false;
  plan_.push_back({.sequence = &sequence, .first_position = sequence.computed(), .row_count = 1});
  return true;
}

// Victims are younger than the asking sequence, so none of them is in the plan yet.
bool BatchScheduler::GrowForNextRow(Sequences sequences, Sequence& sequence) {
  while (!sequence.Grow(pool_)) {
    Sequence* victim = Youngest(sequences);
    BATON_CHECK(victim != nullptr && victim->id() >= sequence.id());
    Preempt(*victim, pool_);
    ++preemptions_;
    if (victim == &sequence) return false;
  }
  return true;
}

bool BatchScheduler::CanResume(Sequence& sequence, int32_t runnable, PrefixHits& hits) const {
  if (options_.prefix_cache) hits = FindPrefix(sequence, pool_);
  const int32_t to_spare = runnable * sequence.groups().count();
  return BlocksToTake(sequence, hits, sequence.blocks_to_resume()) + to_spare <= pool_.available();
}

void BatchScheduler::ResumeOldestPreempted(Sequences sequences) {
  Sequence* sequence = OldestPreempted(sequences);
  PrefixHits hits;
  if (sequence == nullptr || !CanResume(*sequence, CountRunnable(sequences), hits)) return;
  TakeBlocks(*sequence, hits, sequence->blocks_to_resume(), pool_);
  sequence->state = SequenceState::kPrefill;
}

void BatchScheduler::PlanPrefill(Sequences sequences) {
  const int32_t decode_rows = static_cast<int32_t>(plan_.size());
  int32_t budget = std::max(options_.chunk_tokens - decode_rows, kBlockTokens);
  int32_t slots = options_.max_sequences - decode_rows;
  for (const auto& sequence : sequences) {
    if (slots == 0) return;
    if (sequence->state != SequenceState::kPrefill || sequence->runs_alone() || sequence->waits()) continue;
    const int32_t rows = PlanChunk(*sequence, budget);
    if (rows == 0 && sequence->scores()) continue;
    if (rows == 0) return;
    budget -= rows;
    --slots;
  }
}

int32_t BatchScheduler::PlanChunk(Sequence& sequence, int32_t budget) {
  const int32_t first = sequence.computed();
  int32_t end = sequence.length();
  if (sequence.scores()) budget = std::min(budget, scored_rows_left_);
  if (end - first > budget) end = (first + budget) / kBlockTokens * kBlockTokens;
  if (end <= first) return 0;
  if (sequence.scores()) scored_rows_left_ -= end - first;
  sequence.TakePromised(end, pool_);
  plan_.push_back({.sequence = &sequence, .first_position = first, .row_count = end - first});
  return end - first;
}

}  // namespace baton::engine
