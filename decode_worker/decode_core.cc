#include "decode_worker/decode_core.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/test_leak.h"

namespace baton::decode_worker {
namespace {

// What a maximal prompt takes, but at most half of the pool.
int32_t HeadroomBlocks(worker::WorkerCore& worker) {
  const engine::ModelRunner& runner = worker.engine().runner();
  const int32_t prompt_blocks =
      runner.kv_layout().groups().MostBlocks(runner.context_length(), worker.options().engine.chunk_tokens);
  return std::min(prompt_blocks, worker.pool().block_count() / 2);
}

// The workers that the prompt's KV comes through.
std::vector<KvOrigin> OriginsOf(const DecodeSource& source) {
  if (source.local) return {};
  std::vector<KvOrigin> origins = source.earlier;
  origins.push_back({.incarnation = source.prefill_incarnation, .target = source.prefill_target});
  return origins;
}

// For TestLeak("memory").
void LoseMemory() {
  static auto* const kLost = new std::vector<std::string>();
  kLost->emplace_back(1'024, 'x');
}

}  // namespace

DecodeCore::DecodeCore(const DecodeOptions& options, worker::WorkerCore& worker, UpdateSink& updates)
    : clock_(worker.clock()),
      engine_(worker.engine()),
      fetcher_(worker.fetcher()),
      kv_server_(worker.kv_server()),
      max_sequences_(worker.options().engine.max_sequences),
      headroom_blocks_(options.leaves_room_for_prompt ? HeadroomBlocks(worker) : 0),
      constraints_(worker.options().engine.constraints),
      updates_(updates) {
  worker.AddPhase(*this);
  worker.SetReceiver(*this);
  kv_server_.AddOwner(*this);
}

void DecodeCore::OnDecode(WorkerJob job, const DecodeSource& source) {
  const JobKey key = job.key;
  if (const absl::Status refused = FindSlot(key); !refused.ok()) {
    updates_.End(key, refused);
    return;
  }
  const std::shared_ptr<const engine::PreparedGrammar> grammar = Prepare(job);
  deadlines_.emplace(job.deadline, key);
  jobs_.emplace(key, Job{.job = std::move(job), .source = source, .grammar = grammar, .started = clock_.Now()});
  if (grammar != nullptr && !grammar->is_ready()) {
    preparing_.push_back(key);
  } else {
    Begin(key);
  }
}

absl::Status DecodeCore::FindSlot(const JobKey& key) const {
  if (jobs_.contains(key)) return absl::AlreadyExistsError(absl::StrCat("job ", key.ToString(), " is here"));
  if (job_count() < max_sequences_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("all ", max_sequences_, " decode slots are taken"));
}

std::shared_ptr<const engine::PreparedGrammar> DecodeCore::Prepare(const WorkerJob& job) {
  const OutputGrammar& grammar = job.sampling.grammar;
  return grammar.empty() || constraints_ == nullptr ? nullptr : constraints_->Prepare(grammar);
}

void DecodeCore::Begin(const JobKey& key) {
  Job& job = jobs_.at(key);
  const absl::StatusOr<engine::SequenceId> sequence = Reserve(job);
  job.grammar.reset();
  if (!sequence.ok()) {
    EndCall(key, job.job.deadline, sequence.status());
    jobs_.erase(key);
    return;
  }
  job.sequence = *sequence;
  by_sequence_[*sequence] = key;
  const int32_t cached_tokens = engine_.cached_tokens(*sequence);
  updates_.Update(key, {.kind = WorkerUpdate::Kind::kStarted, .cached_tokens = cached_tokens});
  if (job.source.local) {
    job.state = State::kRunning;
    job.running_since = clock_.Now();
    engine_.StartPrefill(*sequence);
  } else {
    job.state = State::kFetching;
    Fetch(job, cached_tokens);
  }
}

absl::StatusOr<engine::SequenceId> DecodeCore::Reserve(const Job& job) {
  const engine::EngineLoad load = engine_.Load();
  // Preempted jobs get blocks before new ones.
  if (load.preempted > 0) return absl::ResourceExhaustedError("preempted requests wait for KV blocks");
  return engine_.Reserve({.prompt = job.job.prompt,
                          .emitted = job.job.emitted,
                          .sampling = job.job.sampling,
                          .tenant = job.job.tenant,
                          .pulls_prompt = !job.source.local,
                          .origins = OriginsOf(job.source),
                          .alone_outputs = job.job.alone_outputs,
                          .job = job.job.key},
                         load.used_blocks == 0 ? 0 : headroom_blocks_);
}

void DecodeCore::Fetch(const Job& job, int32_t cached_tokens) {
  const KvGroups groups = engine_.runner().kv_layout().groups();
  fetcher_.Start({.key = job.job.key,
                  .secret = job.job.secret,
                  .capability = job.job.capability,
                  .source_target = job.source.prefill_target,
                  .source = job.source.prefill_incarnation,
                  .fingerprint = engine_.runner().fingerprint(),
                  .deadline = job.job.deadline,
                  .first_block = groups.HandedOverBefore(cached_tokens / kBlockTokens,
                                                         static_cast<int64_t>(job.job.prompt.size())),
                  .first_output = job.job.emitted,
                  .blocks = engine_.PromptBlocks(job.sequence)});
}

void DecodeCore::OnCommitted(const kvtransfer::Committed& committed) {
  const auto it = jobs_.find(committed.key);
  BATON_CHECK(it != jobs_.end()) << committed.key.ToString();
  Job& job = it->second;
  if (job.state == State::kAbandoned) return Forget(committed.key);
  job.report.transfer_bytes = committed.bytes;
  job.report.transfer_tail_ns = committed.tail_ns;
  job.report.read_ns = committed.read_ns;
  job.report.digest_ns = committed.digest_ns;
  if (committed.bytes > 0) job.report.transport = committed.path;
  job.state = State::kRunning;
  job.running_since = clock_.Now();
  const OutputToken& first = committed.first;
  if (!engine_.AcceptsFirst(job.sequence, first)) {
    EndCall(
        committed.key, job.job.deadline,
        absl::InternalError(absl::StrCat("the prefill worker sent token ", first.token, ", which cannot be right")));
    return Forget(committed.key);
  }
  if (!first.is_last()) {
    updates_.Update(committed.key, {.kind = WorkerUpdate::Kind::kKvCommitted, .report = job.report});
    engine_.StartDecode(job.sequence, first);
  }
  OnToken(job, first);
}

void DecodeCore::OnFetchFailed(const kvtransfer::FetchFailed& failed) {
  const auto it = jobs_.find(failed.key);
  BATON_CHECK(it != jobs_.end()) << failed.key.ToString();
  if (it->second.state != State::kAbandoned) EndCall(failed.key, it->second.job.deadline, failed.status);
  Forget(failed.key);
}

void DecodeCore::OnCancel(const JobKey& key, const absl::Status& why) {
  const auto it = jobs_.find(key);
  if (it == jobs_.end()) return;
  Job& job = it->second;
  if (job.state == State::kAbandoned || job.frozen.call_ended) return;
  EndCall(key, job.job.deadline, why);
  switch (job.state) {
    case State::kPreparing:
      std::erase(preparing_, key);
      jobs_.erase(it);
      return;
    case State::kFetching:
      job.state = State::kAbandoned;
      return fetcher_.Cancel(key, why);
    case State::kFrozen:
      job.frozen.call_ended = true;
      kv_server_.Cancel(job.hand_over->next, why);
      return kv_server_.Settle();
    default:
      return Forget(key);
  }
}

void DecodeCore::OnHandOver(const JobKey& key, const HandOver& hand_over) {
  const auto it = jobs_.find(key);
  if (it == jobs_.end()) return;
  if (hand_over.is_taken_back()) return TakeBack(it->second);
  if (it->second.state == State::kRunning) it->second.hand_over = hand_over;
}

void DecodeCore::TakeBack(Job& job) {
  if (job.state == State::kFrozen) {
    // Nobody else knows the secret yet, so nobody reads.
    if (job.frozen.licensed || job.frozen.call_ended) return;
    const JobKey next = job.hand_over->next;
    handed_over_.erase(next);
    job.state = State::kRunning;
    engine_.Thaw(job.sequence);
    kv_server_.Cancel(next, absl::CancelledError("the job goes on where it was"));
    kv_server_.Settle();
  }
  job.hand_over.reset();
}

// The sequence stands between two steps, and `last` is its latest token.
void DecodeCore::Freeze(Job& job, const OutputToken& last) {
  const HandOver& hand_over = *job.hand_over;
  const absl::Status offered = kv_server_.Offer(
      hand_over.next, {.secret = hand_over.secret, .reader = hand_over.reader, .tenant = job.job.tenant},
      job.job.deadline, /*solo=*/false);
  if (offered.ok()) {
    job.state = State::kFrozen;
    job.frozen = {.blocks = engine_.Freeze(job.sequence), .last = last};
    handed_over_.emplace(hand_over.next, job.job.key);
    updates_.Update(job.job.key, {.kind = WorkerUpdate::Kind::kFrozen, .token = last, .kv_digest = job.kv_digest});
  }
  kv_server_.Settle();
}

void DecodeCore::OnLicence(const JobKey& key, int32_t first_block) {
  Frozen& frozen = JobOf(key).frozen;
  frozen.licensed = true;
  const int32_t count = static_cast<int32_t>(frozen.blocks.size());
  kv_server_.Announce(key, frozen.blocks, first_block, count);
  kv_server_.Complete(key, {.block_count = count, .first = frozen.last});
}

void DecodeCore::OnRevoke(const JobKey& key, const absl::Status& why) {
  Job& job = JobOf(key);
  if (!std::exchange(job.frozen.call_ended, true)) EndCall(job.job.key, job.job.deadline, why);
  // With a licence, OnRelease follows.
  if (!job.frozen.licensed) Forget(job.job.key);
}

void DecodeCore::OnRelease(const JobKey& key) {
  const Job& job = JobOf(key);
  if (!job.frozen.call_ended) EndCall(job.job.key, job.job.deadline, absl::OkStatus());
  Forget(job.job.key);
}

bool DecodeCore::OnStepEvent(const engine::StepEvent& event) {
  const auto owner = by_sequence_.find(event.sequence);
  if (owner == by_sequence_.end()) return false;
  Job& job = jobs_.at(owner->second);
  worker::CountStep(event, job.report);
  worker::UpdatePrompt(event, job.job.key, updates_);
  if (!event.token) return true;
  // Only a local prefill samples index 0 here; the next step would write into the prompt's last block.
  if (event.token->index == 0 && job.job.want_kv_digest) job.kv_digest = engine_.PromptDigest(job.sequence).ToHex();
  const bool freezes = job.hand_over.has_value() && !event.token->is_last();
  OnToken(job, *event.token);
  if (freezes) Freeze(job, *event.token);
  return true;
}

worker::Holding DecodeCore::HoldingOf(const engine::HeldBlocks& held) const {
  const Job& job = jobs_.at(by_sequence_.at(held.sequence));
  const BlockHold hold = job.state == State::kFetching    ? BlockHold::kPulling
                         : job.state == State::kAbandoned ? BlockHold::kQuarantined
                         : job.state == State::kFrozen    ? BlockHold::kForReader
                                                          : worker::HoldOf(held.state);
  return {.hold = hold, .since = job.started};
}

void DecodeCore::OnToken(Job& job, const OutputToken& token) {
  updates_.Update(job.job.key, {.kind = WorkerUpdate::Kind::kToken, .token = token});
  if (token.is_last()) FinishJob(job);
}

void DecodeCore::FinishJob(Job& job) {
  const JobKey key = job.job.key;
  WorkerUpdate update{.kind = WorkerUpdate::Kind::kFinished};
  update.kv_digest = job.kv_digest;
  update.report = job.report;
  update.report.queue_ns = job.running_since - job.started;
  update.report.compute_ns = clock_.Now() - job.running_since;
  updates_.Update(key, update);
  EndCall(key, job.job.deadline, absl::OkStatus());
  Forget(key);
}

void DecodeCore::OnTimer() {
  while (!deadlines_.empty() && deadlines_.begin()->first <= clock_.Now()) {
    // A copy, because OnCancel erases the entry.
    const JobKey key = deadlines_.begin()->second;
    OnCancel(key, absl::DeadlineExceededError("the deadline passed at the decode worker"));
  }
  const auto waits = [this](const JobKey& key) { return !IsPrepared(key); };
  const auto ready = std::stable_partition(preparing_.begin(), preparing_.end(), waits);
  const std::vector<JobKey> begin(ready, preparing_.end());
  preparing_.erase(ready, preparing_.end());
  for (const JobKey& key : begin) Begin(key);
}

TimeNs DecodeCore::NextTimer() const {
  const auto is_prepared = [this](const JobKey& key) { return IsPrepared(key); };
  if (std::any_of(preparing_.begin(), preparing_.end(), is_prepared)) return clock_.Now();
  return deadlines_.empty() ? kNever : deadlines_.begin()->first;
}

void DecodeCore::EndCall(const JobKey& key, TimeNs deadline, const absl::Status& status) {
  deadlines_.erase({deadline, key});
  updates_.End(key, status);
}

void DecodeCore::Forget(const JobKey& key) {
  if (TestLeak("job")) return;
  if (TestLeak("memory")) LoseMemory();
  const auto it = jobs_.find(key);
  if (it->second.state == State::kFrozen) handed_over_.erase(it->second.hand_over->next);
  by_sequence_.erase(it->second.sequence);
  if (!TestLeak("sequence")) engine_.Release(it->second.sequence);
  jobs_.erase(it);
}

}  // namespace baton::decode_worker
