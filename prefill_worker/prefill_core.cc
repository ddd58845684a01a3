#include "prefill_worker/prefill_core.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/check.h"

namespace baton::prefill_worker {

using engine::StepEvent;

PrefillCore::PrefillCore(const PrefillOptions& options, const Clock& clock, engine::Engine& engine,
                         kvtransfer::KvSource& source, UpdateSink& updates, kvtransfer::FetchReplies& replies)
    : options_(options), clock_(clock), engine_(engine), source_(source), updates_(updates), replies_(replies) {}

void PrefillCore::OnPrefill(WorkerJob job, bool solo) {
  const JobKey key = job.key;
  if (absl::Status refused = source_.OnPrefill(key, job.deadline, solo); !refused.ok()) {
    updates_.End(key, refused);
    Apply();
    return;
  }
  waiting_prompt_tokens_ += static_cast<int64_t>(job.prompt.size());
  const bool inserted = jobs_.emplace(key, Job{.job = std::move(job), .arrived = clock_.Now()}).second;
  BATON_CHECK(inserted) << key.ToString();
  Apply();
}

void PrefillCore::OnCancel(const JobKey& key, const absl::Status& why) {
  source_.OnCancel(key, why);
  Apply();
}

void PrefillCore::OnFetchOpen(kvtransfer::FetchStreamId stream, const kvtransfer::FetchOpen& open) {
  source_.OnFetchOpen(stream, open);
  Apply();
}

void PrefillCore::OnFetchRenew(kvtransfer::FetchStreamId stream, const kvtransfer::FetchRenew& renew) {
  source_.OnFetchRenew(stream, renew);
  Apply();
}

void PrefillCore::OnFetchRelease(kvtransfer::FetchStreamId stream) {
  source_.OnFetchRelease(stream);
  Apply();
}

void PrefillCore::OnFetchClosed(kvtransfer::FetchStreamId stream) {
  source_.OnFetchClosed(stream);
  Apply();
}

void PrefillCore::OnTimer() {
  source_.OnTimer();
  Apply();
}

TimeNs PrefillCore::NextTimer() const { return source_.NextTimer(); }

// Handling an action may cause further ones: until none is left.
void PrefillCore::Apply() {
  for (auto actions = source_.TakeActions(); !actions.empty(); actions = source_.TakeActions()) {
    for (const kvtransfer::SourceAction& action : actions) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
    StartReady();
  }
}

void PrefillCore::Handle(const kvtransfer::GrantLicence& action) {
  auto it = jobs_.find(action.key);
  BATON_CHECK(it != jobs_.end()) << action.key.ToString();
  it->second.state = State::kReady;
  it->second.first_block = action.first_block;
  ready_.push_back(action.key);
}

void PrefillCore::Handle(const kvtransfer::Revoke& action) {
  auto it = jobs_.find(action.key);
  if (it == jobs_.end() || it->second.state == State::kHeld) return;
  Job& job = it->second;
  const bool licensed = job.state != State::kUnlicensed;
  if (auto waiting = std::find(ready_.begin(), ready_.end(), action.key); waiting != ready_.end()) {
    ready_.erase(waiting);
  }
  if (job.has_sequence) engine_.Stop(job.sequence);
  EndCall(job, action.status);
  // A licensed job is forgotten with its ReleaseBlocks.
  if (!licensed) jobs_.erase(it);
}

void PrefillCore::Handle(const kvtransfer::ReleaseBlocks& action) {
  auto it = jobs_.find(action.key);
  BATON_CHECK(it != jobs_.end()) << action.key.ToString();
  Job& job = it->second;
  if (job.state != State::kHeld) EndCall(job, absl::CancelledError("released by the decode worker"));
  if (job.has_sequence) {
    unfetched_blocks_ -= HandedOver(job);
    by_sequence_.erase(job.sequence);
    engine_.Release(job.sequence);
  }
  jobs_.erase(it);
}

void PrefillCore::Handle(const kvtransfer::SendReply& action) { replies_.Reply(action.stream, action.reply); }

void PrefillCore::Handle(const kvtransfer::CloseStream& action) { replies_.Close(action.stream, action.status); }

// In order of licence: a prompt that does not fit holds up those behind it, so that it cannot starve.
void PrefillCore::StartReady() {
  while (!ready_.empty() && unfetched_blocks_ <= options_.max_unfetched_blocks) {
    const JobKey key = ready_.front();
    const absl::Status status = Start(jobs_.at(key));
    if (absl::IsResourceExhausted(status)) return;
    ready_.pop_front();
    if (!status.ok()) source_.OnFailed(key, status);
  }
}

absl::Status PrefillCore::Start(Job& job) {
  absl::StatusOr<engine::SequenceId> sequence = engine_.Reserve(
      {.prompt = job.job.prompt, .sampling = job.job.sampling, .tenant = job.job.tenant, .prefill_only = true});
  if (!sequence.ok()) return sequence.status();
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
  Announce(job, event.computed_tokens);
  if (event.token) OnFirstToken(job, *event.token);
  Apply();
  return true;
}

int32_t PrefillCore::HandedOver(const Job& job) const {
  return engine_.runner().kv_layout().groups().HandedOver(static_cast<int64_t>(job.job.prompt.size()));
}

// A block is announced when its last prompt token is computed; the digest is taken now, before any reader.
void PrefillCore::Announce(Job& job, int32_t computed_tokens) {
  const int32_t prompt_tokens = static_cast<int32_t>(job.job.prompt.size());
  const bool complete = computed_tokens >= prompt_tokens;
  const int32_t end = complete ? BlocksForTokens(computed_tokens) : computed_tokens / kBlockTokens;
  const int32_t ready = engine_.runner().kv_layout().groups().HandedOverBefore(end, prompt_tokens);
  const absl::Span<const BlockId> blocks = engine_.prompt_blocks(job.sequence);
  const uint64_t block_bytes = engine_.runner().kv_layout().block_bytes();
  kvtransfer::BlocksReady message;
  for (int32_t i = std::max(job.announced_blocks, job.first_block); i < ready; ++i) {
    message.blocks.push_back({.index = i,
                              .offset = static_cast<uint64_t>(blocks[static_cast<size_t>(i)]) * block_bytes,
                              .digest = engine_.BlockDigest(blocks[static_cast<size_t>(i)])});
  }
  job.announced_blocks = std::max(job.announced_blocks, ready);
  if (!message.blocks.empty()) source_.OnBlocksComputed(job.job.key, std::move(message));
}

void PrefillCore::OnFirstToken(Job& job, const OutputToken& first) {
  const JobKey key = job.job.key;
  updates_.Update(key, {.kind = WorkerUpdate::Kind::kToken, .token = first});
  WorkerUpdate finished{.kind = WorkerUpdate::Kind::kFinished};
  finished.times.queue_ns = job.started - job.arrived;
  finished.times.compute_ns = clock_.Now() - job.started;
  if (job.job.want_kv_digest) finished.kv_digest = engine_.PromptDigest(job.sequence).ToHex();
  updates_.Update(key, finished);
  EndCall(job, absl::OkStatus());
  source_.OnPromptFinished(key, {.block_count = HandedOver(job), .first = first});
}

void PrefillCore::EndCall(Job& job, const absl::Status& status) {
  if (!job.has_sequence) waiting_prompt_tokens_ -= static_cast<int64_t>(job.job.prompt.size());
  job.state = State::kHeld;
  updates_.End(job.job.key, status);
}

}  // namespace baton::prefill_worker
