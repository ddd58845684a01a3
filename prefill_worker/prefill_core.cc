#include "prefill_worker/prefill_core.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "worker/side_work.h"

namespace baton::prefill_worker {

using engine::StepEvent;

namespace {

// The half of the pool that a prompt may need next stays free of finished prompts.
constexpr int32_t kUnfetchedShare = 2;

}  // namespace

PrefillCore::PrefillCore(worker::WorkerCore& worker, UpdateSink& updates)
    : clock_(worker.clock()),
      engine_(worker.engine()),
      kv_server_(worker.kv_server()),
      updates_(updates),
      constraints_(worker.options().engine.constraints),
      max_unfetched_blocks_(worker.pool().block_count() / kUnfetchedShare) {
  worker.AddPhase(*this);
  kv_server_.AddOwner(*this);
}

void PrefillCore::OnPrefill(WorkerJob job, bool solo) {
  const JobKey key = job.key;
  const kvtransfer::ReaderRules rules = {.secret = job.secret, .reader = job.reader, .tenant = job.tenant};
  if (absl::Status refused = kv_server_.Offer(key, rules, job.deadline, solo); !refused.ok()) {
    updates_.End(key, refused);
    kv_server_.Settle();
    return;
  }
  waiting_prompt_tokens_ += static_cast<int64_t>(job.prompt.size());
  const bool inserted = jobs_.emplace(key, Job{.job = std::move(job), .arrived = clock_.Now()}).second;
  BATON_CHECK(inserted) << key.ToString();
  kv_server_.Settle();
}

void PrefillCore::OnCancel(const JobKey& key, const absl::Status& why) {
  kv_server_.Cancel(key, why);
  kv_server_.Settle();
}

void PrefillCore::OnLicence(const JobKey& key, int32_t first_block) {
  auto it = jobs_.find(key);
  BATON_CHECK(it != jobs_.end()) << key.ToString();
  Job& job = it->second;
  job.first_block = first_block;
  const bool waits = constraints_ != nullptr && !job.job.sampling.grammar.empty();
  job.state = waits ? State::kPreparing : State::kReady;
  (waits ? preparing_ : ready_).push_back(key);
}

void PrefillCore::OnRevoke(const JobKey& key, const absl::Status& why) {
  auto it = jobs_.find(key);
  if (it == jobs_.end() || it->second.state == State::kHeld) return;
  Job& job = it->second;
  const bool licensed = job.state != State::kUnlicensed;
  if (job.state == State::kReady) std::erase(ready_, key);
  if (job.state == State::kPreparing) std::erase(preparing_, key);
  if (job.has_sequence) engine_.Stop(job.sequence);
  EndCall(job, why);
  // A licensed job is forgotten in OnRelease.
  if (!licensed) jobs_.erase(it);
}

void PrefillCore::OnRelease(const JobKey& key) {
  auto it = jobs_.find(key);
  BATON_CHECK(it != jobs_.end()) << key.ToString();
  Job& job = it->second;
  BATON_CHECK(job.state == State::kHeld) << key.ToString() << " is released before its call has ended";
  if (job.has_sequence) {
    unfetched_blocks_ -= HandedOver(job);
    by_sequence_.erase(job.sequence);
    engine_.Release(job.sequence);
  }
  jobs_.erase(it);
}

// A prompt whose grammar is not compiled yet holds up nobody.
void PrefillCore::Prepare() {
  for (auto it = preparing_.begin(); it != preparing_.end();) {
    Job& job = jobs_.at(*it);
    if (job.grammar == nullptr) {
      if (prepared_ == worker::kMaxPreparedPrompts) return;
      job.grammar = constraints_->Prepare(job.job.sampling.grammar);
      if (job.grammar != nullptr) ++prepared_;
    }
    if (job.grammar != nullptr && !job.grammar->is_ready()) {
      ++it;
      continue;
    }
    job.state = State::kReady;
    ready_.push_back(*it);
    it = preparing_.erase(it);
  }
}

bool PrefillCore::HasPrepared() const {
  for (const JobKey& key : preparing_) {
    const Job& job = jobs_.at(key);
    if (job.grammar == nullptr) return false;
    if (job.grammar->is_ready()) return true;
  }
  return false;
}

void PrefillCore::DropGrammar(Job& job) {
  if (job.grammar == nullptr) return;
  job.grammar.reset();
  --prepared_;
}

// Prompts start in the order of the line. One that does not fit holds up those behind it, so it cannot starve.
void PrefillCore::StartReady() {
  Prepare();
  while (!ready_.empty() && unfetched_blocks_ <= max_unfetched_blocks_) {
    const JobKey key = ready_.front();
    const absl::Status status = Start(jobs_.at(key));
    if (absl::IsResourceExhausted(status)) {
      available_when_refused_ = engine_.available_blocks();
      return;
    }
    ready_.pop_front();
    if (!status.ok()) kv_server_.Fail(key, status);
    // There may be room for another grammar.
    Prepare();
  }
}

TimeNs PrefillCore::NextTimer() const {
  if (HasPrepared()) return clock_.Now();
  const bool has_more_blocks = engine_.available_blocks() > available_when_refused_;
  const bool may_start = !ready_.empty() && has_more_blocks && unfetched_blocks_ <= max_unfetched_blocks_;
  return may_start ? clock_.Now() : kNever;
}

void PrefillCore::OnTimer() {
  StartReady();
  kv_server_.Settle();
}

absl::Status PrefillCore::Start(Job& job) {
  absl::StatusOr<engine::SequenceId> sequence = engine_.Reserve({.prompt = job.job.prompt,
                                                                 .emitted = job.job.emitted,
                                                                 .sampling = job.job.sampling,
                                                                 .tenant = job.job.tenant,
                                                                 .prefill_only = true,
                                                                 .alone_outputs = job.job.alone_outputs,
                                                                 .job = job.job.key});
  if (!sequence.ok()) return sequence.status();
  DropGrammar(job);
  job.sequence = *sequence;
  job.has_sequence = true;
  job.state = State::kComputing;
  job.started = clock_.Now();
  by_sequence_[job.sequence] = job.job.key;
  const int64_t prompt_tokens = static_cast<int64_t>(job.job.prompt.size());
  waiting_prompt_tokens_ -= prompt_tokens;
  unfetched_blocks_ += HandedOver(job);
  const int32_t cached_tokens = engine_.cached_tokens(job.sequence);
  updates_.Update(job.job.key, {.kind = WorkerUpdate::Kind::kStarted, .cached_tokens = cached_tokens});
  engine_.StartPrefill(job.sequence);
  Announce(job, cached_tokens);
  return absl::OkStatus();
}

bool PrefillCore::OnStepEvent(const StepEvent& event) {
  const auto owner = by_sequence_.find(event.sequence);
  if (owner == by_sequence_.end()) return false;
  Job& job = jobs_.at(owner->second);
  if (job.state != State::kComputing) return true;
  worker::CountStep(event, job.report);
  worker::UpdatePrompt(event, job.job.key, updates_);
  Announce(job, event.computed_tokens);
  if (event.token) OnFirstToken(job, *event.token);
  kv_server_.Settle();
  return true;
}

worker::Holding PrefillCore::HoldingOf(const engine::HeldBlocks& held) const {
  const Job& job = jobs_.at(by_sequence_.at(held.sequence));
  return {.hold = job.state == State::kComputing ? BlockHold::kPrefilling : BlockHold::kForReader,
          .since = job.arrived};
}

int32_t PrefillCore::HandedOver(const Job& job) const {
  return engine_.runner().kv_layout().groups().HandedOver(static_cast<int64_t>(job.job.prompt.size()));
}

// A block is complete when its last prompt token is computed.
int32_t PrefillCore::ReadyBlocks(const Job& job, int32_t computed_tokens) const {
  const int32_t prompt_tokens = static_cast<int32_t>(job.job.prompt.size());
  const bool complete = computed_tokens >= prompt_tokens;
  const int32_t end = complete ? BlocksForTokens(computed_tokens) : computed_tokens / kBlockTokens;
  return engine_.runner().kv_layout().groups().HandedOverBefore(end, prompt_tokens);
}

void PrefillCore::Announce(Job& job, int32_t computed_tokens) {
  const int32_t ready = ReadyBlocks(job, computed_tokens);
  kv_server_.Announce(job.job.key, engine_.PromptBlocks(job.sequence), FirstToAnnounce(job), ready);
  job.announced_blocks = std::max(job.announced_blocks, ready);
}

void PrefillCore::OnLayers(const engine::LayerEvent& event) {
  const auto owner = by_sequence_.find(event.sequence);
  if (owner == by_sequence_.end()) return;
  const Job& job = jobs_.at(owner->second);
  if (job.state != State::kComputing) return;
  const std::vector<BlockId> blocks = engine_.PromptBlocks(job.sequence);
  kv_server_.AnnounceBegun(job.job.key, {.blocks = blocks,
                                         .begin = FirstToAnnounce(job),
                                         .end = ReadyBlocks(job, event.computed_tokens),
                                         .prompt_tokens = static_cast<int64_t>(job.job.prompt.size()),
                                         .layers = event.layers,
                                         .layers_before = event.layers_before});
}

void PrefillCore::OnFirstToken(Job& job, const OutputToken& first) {
  const JobKey key = job.job.key;
  updates_.Update(key, {.kind = WorkerUpdate::Kind::kToken, .token = first});
  WorkerUpdate finished{.kind = WorkerUpdate::Kind::kFinished};
  finished.report = job.report;
  finished.report.queue_ns = job.started - job.arrived;
  finished.report.compute_ns = clock_.Now() - job.started;
  if (job.job.want_kv_digest) finished.kv_digest = engine_.PromptDigest(job.sequence).ToHex();
  updates_.Update(key, finished);
  EndCall(job, absl::OkStatus());
  kv_server_.Complete(key, {.block_count = HandedOver(job), .first = first});
}

void PrefillCore::EndCall(Job& job, const absl::Status& status) {
  DropGrammar(job);
  if (!job.has_sequence) waiting_prompt_tokens_ -= static_cast<int64_t>(job.job.prompt.size());
  job.state = State::kHeld;
  updates_.End(job.job.key, status);
}

}  // namespace baton::prefill_worker
