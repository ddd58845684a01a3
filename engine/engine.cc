#include "engine/engine.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/limits.h"
#include "common/status.h"
#include "common/test_fault.h"
#include "engine/batch_builder.h"
#include "engine/batch_scheduler.h"
#include "engine/block_ledger.h"
#include "engine/block_pool.h"
#include "engine/sequence.h"
#include "engine/step_queue.h"

namespace baton::engine {
namespace {

// The logits of the rows of a step that give log-probabilities of a prompt take at most so much memory, or those of one
// block.
constexpr int64_t kMaxScoredLogitBytes = int64_t{32} << 20;

int32_t ScoredRows(const EngineOptions& options, int32_t vocab_size) {
  const int64_t rows = kMaxScoredLogitBytes / (int64_t{vocab_size} * static_cast<int64_t>(sizeof(float)));
  return static_cast<int32_t>(std::clamp<int64_t>(rows, kBlockTokens, options.chunk_tokens));
}

}  // namespace

class Engine::Impl {
 public:
  Impl(const EngineOptions& options, ModelRunner& runner, KvPool& memory, const PrefixNames& prefix_names,
       WorkNote* work);

  absl::StatusOr<SequenceId> Reserve(SequenceSpec spec, int32_t headroom_blocks);
  bool AcceptsFirst(SequenceId id, const OutputToken& first);
  void StartDecode(SequenceId id, const OutputToken& first);
  std::vector<BlockId> Freeze(SequenceId id);
  void Stop(SequenceId id);
  void Release(SequenceId id);
  absl::Span<const StepEvent> Step(absl::FunctionRef<void(const LayerEvent&)> on_layers);
  void ForgetStep();
  EngineCounters Counters() const;
  HoldersOfBlocks holders() const { return {.sequences = sequences_, .pool = pool_, .withheld = steps_.withheld()}; }
  const KvPool& memory() const { return memory_; }
  Digest128 PromptDigest(const Sequence& sequence) const;

  Sequence& at(SequenceId id) { return **Position(id); }
  bool HasWork() const { return steps_.is_in_flight() || scheduler_.HasWork(sequences_); }
  int32_t available_blocks() const { return pool_.available() + steps_.withheld(); }
  ModelRunner& runner() { return runner_; }

 private:
  using Sequences = std::vector<std::unique_ptr<Sequence>>;

  Sequences::iterator Position(SequenceId id);
  absl::Status Validate(const SequenceSpec& spec, int32_t token_limit) const;
  absl::Status Constrain(Sequence& sequence) const;
  // The token is one that the sequence's constraint allows.
  static void Append(Sequence& sequence, int32_t token);
  int32_t TokenLimit(const SequenceSpec& spec) const;
  void ZeroPromptTail(Sequence& sequence);
  // Whether steps_.next() is a step that was ahead; one that nobody wants any more is brought to its end.
  bool GoOnWithStepAhead();
  // Whether there was anything to do.
  bool SubmitStep();
  // Submits steps_.ahead(), if it can be.
  void SubmitStepAhead();
  void BuildBatch(absl::Span<const PlannedSlice> plan, EngineStep& step);
  void NoteComputed(const PlannedSlice& planned);
  void FinishSlice(const PlannedSlice& planned, const SequenceSlice& slice);
  // How the sequence would finish if its next output were `next`, and whether it would, whatever that is.
  FinishReason FinishOf(const Sequence& sequence, int32_t next) const;
  bool FinishesByLength(const Sequence& sequence) const;

  const EngineOptions options_;
  ModelRunner& runner_;
  KvPool& memory_;
  const KvGroups groups_;
  const PrefixNames prefix_names_;
  WorkNote* const work_;
  BlockPool pool_;
  BatchScheduler scheduler_;
  // Oldest first, which is in order of id.
  Sequences sequences_;
  SequenceId next_id_ = 1;
  // Without the preemptions, which the scheduler counts.
  EngineCounters counters_;

  // The steps refer to the sequences and to what the builder has as long as they live.
  BatchBuilder builder_;
  StepQueue steps_;
  std::vector<StepEvent> events_;
};

Engine::Impl::Impl(const EngineOptions& options, ModelRunner& runner, KvPool& memory, const PrefixNames& prefix_names,
                   WorkNote* work)
    : options_(options),
      runner_(runner),
      memory_(memory),
      groups_(runner.kv_layout().groups()),
      prefix_names_(prefix_names),
      work_(work),
      pool_(memory.block_count()),
      scheduler_({.chunk_tokens = options.chunk_tokens,
                  .max_sequences = options.max_sequences,
                  .prefix_cache = options.prefix_cache,
                  .scored_rows = ScoredRows(options, runner.vocab_size())},
                 pool_),
      builder_({.eos_ids = options.eos_ids,
                .scored_rows = ScoredRows(options, runner.vocab_size()),
                .hidden_size = runner.hidden_size()}),
      steps_({.rows = scheduler_.max_rows(),
              .sequences = options.max_sequences,
              .outputs = options.max_sequences + ScoredRows(options, runner.vocab_size())},
             runner, pool_) {
  BATON_CHECK(memory.block_bytes() == runner.kv_layout().block_bytes()) << memory.block_bytes();
  for (int32_t id : options.eos_ids) BATON_CHECK(id >= 0 && id < runner.vocab_size()) << "eos id " << id;
  sequences_.reserve(static_cast<size_t>(kMaxSequences));
  events_.reserve(static_cast<size_t>(options.max_sequences));
  runner.SetKvPool(memory);
}

// Prompt and outputs exceed neither the context nor the request's max_tokens. The spec is not validated yet.
int32_t Engine::Impl::TokenLimit(const SequenceSpec& spec) const {
  const int64_t outputs = spec.prefill_only ? 1 : int64_t{spec.sampling.max_tokens} - spec.emitted;
  return static_cast<int32_t>(
      std::min<int64_t>(static_cast<int64_t>(spec.prompt.size()) + outputs, runner_.context_length()));
}

absl::Status Engine::Impl::Validate(const SequenceSpec& spec, int32_t token_limit) const {
  if (spec.prompt.empty()) return absl::InvalidArgumentError("prompt: must hold at least one token");
  if (spec.prompt.size() >= static_cast<size_t>(runner_.context_length())) {
    return absl::InvalidArgumentError(absl::StrCat("prompt: ", spec.prompt.size(),
                                                   " tokens leave no room for output in ", "the context of ",
                                                   runner_.context_length()));
  }
  for (int32_t token : spec.prompt) {
    if (token < 0 || token >= runner_.vocab_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("prompt: token id ", token, " is not in the vocabulary of ", runner_.vocab_size()));
    }
  }
  if (spec.emitted < 0 || spec.emitted >= std::min(static_cast<int64_t>(spec.prompt.size()),
                                                   static_cast<int64_t>(spec.sampling.max_tokens))) {
    return absl::InvalidArgumentError(absl::StrCat("emitted: ", spec.emitted, " of the ", spec.prompt.size(),
                                                   " tokens of the prompt, and of ", spec.sampling.max_tokens,
                                                   " outputs"));
  }
  // The row of the last token is never run, so it needs no block.
  const int32_t blocks = groups_.MostBlocks(token_limit - 1, options_.chunk_tokens);
  if (blocks > pool_.total()) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt: with its output it needs ", blocks, " KV blocks of a pool of ", pool_.total()));
  }
  if (spec.sampling.pooling != Pooling::kNone && runner_.hidden_size() == 0) {
    return absl::UnimplementedError("pooling: this engine gives no hidden states");
  }
  return ValidateSamplingParams(spec.sampling, runner_.vocab_size());
}

absl::Status Engine::Impl::Constrain(Sequence& sequence) const {
  const OutputGrammar& grammar = sequence.spec().sampling.grammar;
  if (grammar.empty()) return absl::OkStatus();
  if (options_.constraints == nullptr) return absl::UnimplementedError("grammar: this engine knows none");
  BATON_ASSIGN_OR_RETURN(sequence.constraint, options_.constraints->Make(grammar));
  for (size_t i = 0; i < sequence.outputs().size(); ++i) {
    if (!sequence.constraint->Accept(sequence.outputs()[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("grammar: it does not allow output ", i, " of those that are there"));
    }
  }
  return absl::OkStatus();
}

void Engine::Impl::Append(Sequence& sequence, int32_t token) {
  BATON_CHECK(sequence.constraint == nullptr || sequence.constraint->Accept(token)) << "token " << token;
  sequence.Append(token);
}

absl::StatusOr<SequenceId> Engine::Impl::Reserve(SequenceSpec spec, int32_t headroom_blocks) {
  const int32_t token_limit = TokenLimit(spec);
  BATON_RETURN_IF_ERROR(Validate(spec, token_limit));
  if (sequences_.size() >= static_cast<size_t>(kMaxSequences)) {
    return absl::ResourceExhaustedError(absl::StrCat("all ", kMaxSequences, " sequences of the worker are taken"));
  }
  auto sequence =
      std::make_unique<Sequence>(next_id_, std::move(spec), token_limit, prefix_names_, groups_, options_.chunk_tokens);
  BATON_RETURN_IF_ERROR(Constrain(*sequence));
  const PrefixHits hits = options_.prefix_cache ? FindPrefix(*sequence, pool_) : PrefixHits{};
  const int32_t blocks = BlocksForTokens(sequence->prompt_length());
  const int32_t wanted = BlocksToTake(*sequence, hits, blocks);
  if (wanted + headroom_blocks > available_blocks()) {
    return absl::ResourceExhaustedError(absl::StrCat("needs ", wanted, " KV blocks and ", headroom_blocks,
                                                     " to spare; ", available_blocks(), " are free"));
  }
  if (wanted > pool_.available()) steps_.Await();
  TakeBlocks(*sequence, hits, blocks, pool_);
  sequence->set_cached_tokens(sequence->computed());
  counters_.prefix_queried_tokens += sequence->prompt_length();
  counters_.prefix_hit_tokens += sequence->cached_tokens();
  ZeroPromptTail(*sequence);
  ++next_id_;
  sequences_.push_back(std::move(sequence));
  return sequences_.back()->id();
}

// The digest of a partial block covers its unused rows as well, so these must hold the same bytes at both ends.
void Engine::Impl::ZeroPromptTail(Sequence& sequence) {
  sequence.tail_is_zero = true;
  if (sequence.prompt_length() % kBlockTokens == 0) return;
  for (int32_t group = 0; group < groups_.count(); ++group) {
    const BlockId tail = sequence.block(group, sequence.prompt_length() / kBlockTokens);
    if (tail == kNoBlock) {
      sequence.tail_is_zero = false;
    } else {
      memory_.Zero(tail);
    }
  }
}

bool Engine::Impl::AcceptsFirst(SequenceId id, const OutputToken& first) {
  if (first.index != at(id).spec().emitted || first.token < 0 || first.token >= runner_.vocab_size()) return false;
  if (at(id).constraint != nullptr && !at(id).constraint->Allows(first.token)) return false;
  return FinishOf(at(id), first.token) == first.finish;
}

void Engine::Impl::StartDecode(SequenceId id, const OutputToken& first) {
  Sequence& sequence = at(id);
  BATON_CHECK(sequence.state == SequenceState::kReserved) << "sequence " << id;
  BATON_CHECK(first.token >= 0 && first.token < runner_.vocab_size()) << first.token;
  BATON_CHECK(groups_.sliding == 0 || sequence.spec().pulls_prompt) << "sequence " << id;
  sequence.set_computed(sequence.prompt_length());
  if (options_.prefix_cache) sequence.PublishFullBlocks(pool_);
  BATON_CHECK(FinishOf(sequence, first.token) == FinishReason::kNone)
      << "sequence " << id << " is finished by its first token";
  Append(sequence, first.token);
  sequence.state = SequenceState::kDecode;
}

std::vector<BlockId> Engine::Impl::Freeze(SequenceId id) {
  Sequence& sequence = at(id);
  BATON_CHECK(sequence.state == SequenceState::kDecode) << "sequence " << id;
  BATON_CHECK(sequence.computed() == sequence.length() - 1) << "sequence " << id;
  // A step ahead may write behind the last row that is computed. The others keep what it gives them.
  steps_.Await();
  steps_.Drop(sequence);
  Stop(id);
  if (const int32_t used_rows = sequence.computed() % kBlockTokens; used_rows > 0) {
    // Nobody shares a block that is not full.
    for (int32_t group = 0; group < groups_.count(); ++group) {
      runner_.ZeroRows(sequence.block(group, sequence.computed() / kBlockTokens), used_rows);
    }
  }
  return sequence.HandedOver(sequence.computed());
}

void Engine::Impl::Stop(SequenceId id) {
  Sequence& sequence = at(id);
  sequence.ReturnPromised(pool_);
  sequence.state = SequenceState::kFinished;
}

void Engine::Impl::Release(SequenceId id) {
  const auto position = Position(id);
  steps_.Release(std::move(*position));
  sequences_.erase(position);
}

absl::Span<const StepEvent> Engine::Impl::Step(absl::FunctionRef<void(const LayerEvent&)> on_layers) {
  events_.clear();
  if (!GoOnWithStepAhead() && !SubmitStep()) return {};
  // The bookkeeping that needs no token is done while the step is in flight.
  EngineStep& step = steps_.next();
  for (const PlannedSlice& planned : step.plan) NoteComputed(planned);
  SubmitStepAhead();
  steps_.ShowLayers(on_layers);
  steps_.Await();
  for (size_t i = 0; i < step.plan.size(); ++i) FinishSlice(step.plan[i], step.slices[i]);
  steps_.Pop();
  return events_;
}

bool Engine::Impl::GoOnWithStepAhead() {
  EngineStep& step = steps_.next();
  if (step.stage == EngineStep::Stage::kNone) return false;
  if (!step.IsLive()) {
    steps_.Await();
    steps_.Pop();
    return false;
  }
  for (const PlannedSlice& planned : step.plan) {
    if (const Sequence* const sequence = EngineStep::Live(planned)) {
      TestFault(sequence->tokens().subspan(static_cast<size_t>(planned.first_position), 1));
    }
  }
  return true;
}

bool Engine::Impl::SubmitStep() {
  const absl::Span<const PlannedSlice> plan = scheduler_.Plan(sequences_);
  if (plan.empty()) return false;
  EngineStep& step = steps_.next();
  BuildBatch(plan, step);
  if (work_ != nullptr) {
    for (const PlannedSlice& planned : plan) work_->Add(planned.sequence->spec().job);
  }
  TestFault(step.tokens);
  steps_.Submit(step);
  return true;
}

// Sequences that are in both steps are noted for the first already.
void Engine::Impl::SubmitStepAhead() {
  if (!steps_.TakesStepAhead()) return;
  const absl::Span<const PlannedSlice> plan =
      scheduler_.PlanAhead(sequences_, [this](const Sequence& sequence) { return FinishesByLength(sequence); });
  if (plan.empty()) return;
  EngineStep& step = steps_.ahead();
  BuildBatch(plan, step);
  if (work_ != nullptr) {
    for (const PlannedSlice& planned : plan) {
      if (!planned.sequence->awaits_token()) work_->Add(planned.sequence->spec().job);
    }
  }
  steps_.Submit(step);
}

// A step ahead goes on.
void Engine::Impl::ForgetStep() {
  if (work_ == nullptr) return;
  work_->Clear();
  const EngineStep& step = steps_.next();
  if (step.stage == EngineStep::Stage::kNone) return;
  for (const PlannedSlice& planned : step.plan) {
    if (planned.sequence != nullptr) work_->Add(planned.sequence->spec().job);
  }
}

void Engine::Impl::BuildBatch(absl::Span<const PlannedSlice> plan, EngineStep& step) {
  for (const PlannedSlice& planned : plan) {
    Sequence& sequence = *planned.sequence;
    const int32_t end = planned.first_position + planned.row_count;
    // This chunk begins the last block of the prompt, which is not written yet.
    if (!sequence.tail_is_zero && sequence.length() == sequence.prompt_length() && end >= sequence.length())
      ZeroPromptTail(sequence);
  }
  builder_.Build(plan, &step == &steps_.ahead(), step);
  for (const SequenceSlice& slice : step.slices) {
    (slice.row_class == RowClass::kDecode ? counters_.decode_rows : counters_.prefill_rows) += slice.row_count;
  }
  counters_.step_sequences += static_cast<int64_t>(plan.size());
}

// Runs ahead of the runner. No block is looked up before the step has ended, and by then the KV is in place.
void Engine::Impl::NoteComputed(const PlannedSlice& planned) {
  Sequence* const sequence = EngineStep::Live(planned);
  if (sequence == nullptr) return;
  sequence->set_computed(planned.first_position + planned.row_count);
  if (options_.prefix_cache) sequence->PublishFullBlocks(pool_);
}

void Engine::Impl::FinishSlice(const PlannedSlice& planned, const SequenceSlice& slice) {
  if (EngineStep::Live(planned) == nullptr) return;
  EngineStep& step = steps_.next();
  Sequence& sequence = *planned.sequence;
  sequence.Slide(pool_);
  StepEvent& event = events_.emplace_back();
  event.sequence = sequence.id();
  event.computed_tokens = std::min(sequence.computed(), sequence.prompt_length());
  event.step_sequences = static_cast<int32_t>(step.slices.size());
  event.preemptions = sequence.preemptions;
  builder_.TakePromptRows(step, slice, sequence, event);
  if (planned.first_position + planned.row_count < sequence.length()) return;
  sequence.ReturnPromised(pool_);
  const int32_t output = slice.first_output + (slice.output_rows == OutputRows::kAll ? slice.row_count - 1 : 0);
  OutputToken& next = event.token.emplace(std::move(step.chosen[static_cast<size_t>(output)]));
  next.finish = FinishOf(sequence, next.token);
  if (sequence.pools()) next.embedding = sequence.Embedding();
  Append(sequence, next.token);
  const bool ends = next.is_last() || sequence.spec().prefill_only;
  sequence.state = ends ? SequenceState::kFinished : SequenceState::kDecode;
}

FinishReason Engine::Impl::FinishOf(const Sequence& sequence, int32_t next) const {
  const SamplingParams& sampling = sequence.spec().sampling;
  const auto contains = [next](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), next) != ids.end();
  };
  if ((!sampling.ignore_eos && contains(options_.eos_ids)) || contains(sampling.stop_token_ids)) {
    return FinishReason::kStop;
  }
  return FinishesByLength(sequence) ? FinishReason::kLength : FinishReason::kNone;
}

// The sequence's own limit does not count here: it ends a prefill worker's half early.
bool Engine::Impl::FinishesByLength(const Sequence& sequence) const {
  return static_cast<int64_t>(sequence.outputs().size()) + 1 >= sequence.spec().sampling.max_tokens ||
         sequence.length() + 1 >= runner_.context_length();
}

EngineCounters Engine::Impl::Counters() const {
  EngineCounters counters = counters_;
  counters.preemptions = scheduler_.preemptions();
  return counters;
}

Digest128 Engine::Impl::PromptDigest(const Sequence& sequence) const {
  Digest128 chain;
  for (const Digest128& digest : memory_.Digests(sequence.HandedOver(sequence.prompt_length()))) {
    chain = DigestChain(chain, &digest, sizeof(digest));
  }
  return chain;
}

Engine::Impl::Sequences::iterator Engine::Impl::Position(SequenceId id) {
  const auto position = std::lower_bound(sequences_.begin(), sequences_.end(), id,
                                         [](const auto& sequence, SequenceId key) { return sequence->id() < key; });
  BATON_CHECK(position != sequences_.end() && (*position)->id() == id) << "no sequence " << id;
  return position;
}

Engine::Engine(const EngineOptions& options, ModelRunner& runner, KvPool& memory, const PrefixNames& prefix_names,
               WorkNote* work)
    : impl_(std::make_unique<Impl>(options, runner, memory, prefix_names, work)) {}
Engine::~Engine() = default;

absl::StatusOr<SequenceId> Engine::Reserve(SequenceSpec spec, int32_t headroom_blocks) {
  return impl_->Reserve(std::move(spec), headroom_blocks);
}

int32_t Engine::cached_tokens(SequenceId id) const { return impl_->at(id).cached_tokens(); }

std::vector<BlockId> Engine::PromptBlocks(SequenceId id) const {
  const Sequence& sequence = impl_->at(id);
  return sequence.HandedOver(sequence.prompt_length());
}

void Engine::StartPrefill(SequenceId id) {
  Sequence& sequence = impl_->at(id);
  BATON_CHECK(sequence.state == SequenceState::kReserved && !sequence.spec().pulls_prompt) << "sequence " << id;
  sequence.state = SequenceState::kPrefill;
}

bool Engine::AcceptsFirst(SequenceId id, const OutputToken& first) const { return impl_->AcceptsFirst(id, first); }

void Engine::StartDecode(SequenceId id, const OutputToken& first) { impl_->StartDecode(id, first); }

std::vector<BlockId> Engine::Freeze(SequenceId id) { return impl_->Freeze(id); }

void Engine::Thaw(SequenceId id) {
  Sequence& sequence = impl_->at(id);
  BATON_CHECK(sequence.state == SequenceState::kFinished) << "sequence " << id;
  BATON_CHECK(sequence.computed() == sequence.length() - 1) << "sequence " << id;
  sequence.state = SequenceState::kDecode;
}

void Engine::Stop(SequenceId id) { impl_->Stop(id); }

void Engine::Release(SequenceId id) { impl_->Release(id); }

EngineCounters Engine::Counters() const { return impl_->Counters(); }

int32_t Engine::OrphanedBlocks(absl::FunctionRef<bool(SequenceId)> is_owned) const {
  return CountOrphanedBlocks(impl_->holders(), is_owned);
}
std::vector<HeldBlocks> Engine::Held() const { return ListHeldBlocks(impl_->holders()); }

bool Engine::HasWork() const { return impl_->HasWork(); }

absl::Span<const StepEvent> Engine::Step(absl::FunctionRef<void(const LayerEvent&)> on_layers) {
  return impl_->Step(on_layers);
}
void Engine::ForgetStep() { impl_->ForgetStep(); }

EngineLoad Engine::Load() const { return LoadOf(impl_->holders()); }

int32_t Engine::available_blocks() const { return impl_->available_blocks(); }

std::vector<Digest128> Engine::BlockDigests(absl::Span<const BlockId> blocks) const {
  return impl_->memory().Digests(blocks);
}

Digest128 Engine::PromptDigest(SequenceId id) const { return impl_->PromptDigest(impl_->at(id)); }

ModelRunner& Engine::runner() { return impl_->runner(); }

}  // namespace baton::engine
