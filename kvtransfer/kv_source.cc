#include "kvtransfer/kv_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/limits.h"
#include "common/status.h"
#include "kvtransfer/tombstones.h"

namespace baton::kvtransfer {
namespace {

// A fingerprint from a peer, shortened so that it fits into an error message.
std::string Shown(const std::string& text) {
  return text.size() <= 80 ? text : absl::StrCat(text.substr(0, 80), "...");
}

}  // namespace

class KvSource::Impl {
 public:
  Impl(KvSourceOptions options, const Clock& clock, BlockAccess& access)
      : options_(std::move(options)),
        clock_(clock),
        access_(access),
        tombstones_(static_cast<size_t>(options_.max_tombstones)) {
    BATON_CHECK(options_.parked_ms <= options_.max_tombstone_ms);
    BATON_CHECK(options_.min_lease_ms <= options_.max_lease_ms);
  }

  absl::Status OnPrefill(const JobKey& key, const ReaderRules& rules, TimeNs deadline, bool solo);
  void OnFetchOpen(FetchStreamId stream, const FetchOpen& open);
  void OnFetchRenew(FetchStreamId stream, const FetchRenew& renew);
  void OnFetchRelease(FetchStreamId stream);
  void OnFetchClosed(FetchStreamId stream);
  void OnBlocksBegun(const JobKey& key, BlocksBegun blocks);
  void OnBlocksComputed(const JobKey& key, BlocksReady blocks);
  void OnPromptFinished(const JobKey& key, const FetchComplete& complete);
  void OnEnded(const JobKey& key, const absl::Status& why);
  void OnTimer();
  TimeNs NextTimer() const { return timers_.empty() ? kNever : timers_.begin()->first; }
  std::vector<SourceAction> TakeActions() { return std::exchange(actions_, {}); }
  int32_t open_jobs() const { return licensed_; }

 private:
  enum class State : uint8_t { kUnlicensed, kParked, kLicensed, kServing, kDraining, kQuarantine };

  struct Job {
    JobKey key;
    // The Prefill's; while parked, the FetchOpen's secret alone.
    ReaderRules rules;
    // The FetchOpen's, while parked.
    absl::StatusOr<CapabilityTerms> terms = FetchOpen().terms;
    State state = State::kUnlicensed;
    bool solo = false;
    // The reader was told where blocks lie, so it may be reading.
    bool announced = false;
    // While parked, the FetchOpen's; else the Prefill's.
    TimeNs arrived = 0;
    TimeNs deadline = kNever;
    // Zero when the job has no reader.
    FetchStreamId stream = 0;
    ReaderProcess reader;
    bool takes_begun = false;
    int32_t first_block = 0;
    int64_t lease_ms = 0;
    // When the last message that prolonged the lease arrived.
    TimeNs renewed = 0;
    // What the reader is told at the end of kDraining.
    absl::Status ended;
    // Its entry in timers_.
    TimeNs timer = kNever;

    TimeNs LeaseEnd() const { return After(renewed, lease_ms); }
    bool HasPrefill() const { return state != State::kParked; }
  };

  absl::Status CheckOpen(FetchStreamId stream, const FetchOpen& open) const;
  Job* Find(const JobKey& key);
  Job* FindByStream(FetchStreamId stream);
  Job& Insert(const JobKey& key, State state);
  void BindReader(Job& job, FetchStreamId stream, const FetchOpen& open);
  void UnbindReader(Job& job, const absl::Status& why);
  void License(Job& job);
  void EnterState(Job& job, State state);
  void LoseReader(Job& job, const absl::Status& why);
  // Stops the reader. False when it cannot be reading: it was not told where the blocks lie, or it is known to be over.
  bool MayBeRead(const Job& job) const { return job.announced && !access_.Stop(job.rules.secret, job.reader); }
  void OnTimerOf(Job& job);
  template <typename Blocks, typename BytesOf>
  void Announce(Job* job, Blocks blocks, const BytesOf& bytes_of);
  void Revoke(Job& job, const absl::Status& why);
  void ReleaseAndBury(Job& job);
  void Bury(Job& job);
  void Reply(const Job& job, FetchReply reply) { actions_.emplace_back(SendReply{job.stream, std::move(reply)}); }
  void Close(FetchStreamId stream, const absl::Status& status);
  TimeNs TimerOf(const Job& job) const;

  const KvSourceOptions options_;
  const Clock& clock_;
  BlockAccess& access_;
  absl::flat_hash_map<JobKey, Job> jobs_;
  absl::flat_hash_map<FetchStreamId, JobKey> streams_;
  std::set<std::pair<TimeNs, JobKey>> timers_;
  Tombstones tombstones_;
  int32_t parked_ = 0;
  // Jobs with a GrantLicence and without their ReleaseBlocks so far.
  int32_t licensed_ = 0;
  std::vector<SourceAction> actions_;
};

absl::Status KvSource::Impl::OnPrefill(const JobKey& key, const ReaderRules& rules, TimeNs deadline, bool solo) {
  if (tombstones_.Contains(key, clock_.Now())) {
    return absl::CancelledError(absl::StrCat("job ", key.ToString(), " is over at this prefill worker"));
  }
  Job* job = Find(key);
  if (job != nullptr && job->HasPrefill()) {
    return absl::AlreadyExistsError(absl::StrCat("job ", key.ToString(), " is already at this prefill worker"));
  }
  absl::Status refused;
  if (static_cast<int64_t>(jobs_.size()) - parked_ >= kMaxPendingJobs) {
    refused = absl::ResourceExhaustedError(absl::StrCat("this prefill worker holds ", kMaxPendingJobs, " jobs"));
  } else if (solo && job != nullptr) {
    refused = absl::FailedPreconditionError(absl::StrCat("job ", key.ToString(), " needs no reader, yet has one"));
  }
  if (!refused.ok()) {
    if (job == nullptr) return refused;
    Close(job->stream, refused);
    Bury(*job);
    return refused;
  }
  if (job != nullptr) {
    const ReaderProof shown = {.secret = job->rules.secret, .terms = job->terms, .first_block = job->first_block};
    const absl::Status checked = CheckReader(key, options_.incarnation, rules, shown);
    if (!checked.ok()) UnbindReader(*job, checked);
  }
  if (job == nullptr) job = &Insert(key, State::kUnlicensed);
  job->rules = rules;
  job->deadline = deadline;
  job->solo = solo;
  job->arrived = clock_.Now();
  if (solo || job->stream != 0) {
    License(*job);
  } else {
    EnterState(*job, State::kUnlicensed);
  }
  return absl::OkStatus();
}

absl::Status KvSource::Impl::CheckOpen(FetchStreamId stream, const FetchOpen& open) const {
  if (streams_.contains(stream)) return absl::InvalidArgumentError("a second FetchOpen on one stream");
  if (open.source != options_.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat("this process is incarnation ", options_.incarnation.ToHex(),
                                                      ", the Fetch is for ", open.source.ToHex()));
  }
  if (open.fingerprint != options_.fingerprint) {
    return absl::FailedPreconditionError(absl::StrCat("the prefill worker's fingerprint is ",
                                                      Shown(options_.fingerprint), ", the decode worker's is ",
                                                      Shown(open.fingerprint), ": KV moves between equal ones only"));
  }
  if (open.first_block < 0) return absl::InvalidArgumentError(absl::StrCat("first_block is ", open.first_block));
  if (open.lease_ms <= 0 || open.lease_ms > options_.max_lease_ms) {
    return absl::InvalidArgumentError(
        absl::StrCat("a lease of ", open.lease_ms, " ms: from 1 to ", options_.max_lease_ms, " are allowed"));
  }
  if (tombstones_.Contains(open.key, clock_.Now())) {
    return absl::CancelledError(absl::StrCat("job ", open.key.ToString(), " is over at this prefill worker"));
  }
  const auto it = jobs_.find(open.key);
  if (it == jobs_.end()) {
    if (parked_ < options_.max_parked) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(options_.max_parked, " Fetches wait for their Prefill"));
  }
  if (it->second.HasPrefill()) {
    BATON_RETURN_IF_ERROR(CheckReader(open.key, options_.incarnation, it->second.rules,
                                      {.secret = open.secret, .terms = open.terms, .first_block = open.first_block}));
  }
  if (it->second.state == State::kUnlicensed) return absl::OkStatus();
  if (it->second.solo) return absl::FailedPreconditionError("this job needs no reader");
  if (it->second.state == State::kQuarantine) return absl::CancelledError("this job has lost its reader");
  return absl::AlreadyExistsError(absl::StrCat("job ", open.key.ToString(), " has an open Fetch"));
}

void KvSource::Impl::OnFetchOpen(FetchStreamId stream, const FetchOpen& open) {
  if (absl::Status refused = CheckOpen(stream, open); !refused.ok()) {
    // The stream may already belong to a job, which then loses its reader.
    OnFetchClosed(stream);
    Close(stream, refused);
    return;
  }
  if (Job* job = Find(open.key); job != nullptr) {
    BindReader(*job, stream, open);
    License(*job);
    return;
  }
  Job& parked = Insert(open.key, State::kParked);
  parked.rules = {.secret = open.secret};
  parked.terms = open.terms;
  parked.arrived = clock_.Now();
  BindReader(parked, stream, open);
  EnterState(parked, State::kParked);
}

void KvSource::Impl::OnFetchRenew(FetchStreamId stream, const FetchRenew& renew) {
  Job* job = FindByStream(stream);
  if (job == nullptr) return Close(stream, absl::CancelledError("no Fetch is open on this stream"));
  // The renewal stays unanswered, so that a draining job ends with its lease, whatever the reader does.
  if (job->state == State::kDraining) return;
  job->renewed = clock_.Now();
  EnterState(*job, job->state);
  Reply(*job, FetchRenewed{renew.sequence});
}

void KvSource::Impl::OnFetchRelease(FetchStreamId stream) {
  Job* job = FindByStream(stream);
  if (job == nullptr) return Close(stream, absl::CancelledError("no Fetch is open on this stream"));
  Close(stream, job->ended);
  if (job->state == State::kParked) return Bury(*job);
  if (job->state == State::kLicensed) Revoke(*job, absl::CancelledError("the decode worker gave the prompt up"));
  ReleaseAndBury(*job);
}

void KvSource::Impl::OnFetchClosed(FetchStreamId stream) {
  Job* job = FindByStream(stream);
  if (job == nullptr) return;
  if (job->state == State::kParked) return Bury(*job);
  LoseReader(*job, absl::UnavailableError("the decode worker's Fetch stream was cut"));
}

void KvSource::Impl::OnBlocksBegun(const JobKey& key, BlocksBegun blocks) {
  Job* job = Find(key);
  if (job == nullptr || !job->takes_begun) return;
  Announce(job, std::move(blocks), [](const BlockBegun& block) { return block.bytes; });
}

void KvSource::Impl::OnBlocksComputed(const JobKey& key, BlocksReady blocks) {
  Announce(Find(key), std::move(blocks), [this](const BlockReady&) { return options_.block_bytes; });
}

// `bytes_of` says how much of each block may be read.
template <typename Blocks, typename BytesOf>
void KvSource::Impl::Announce(Job* job, Blocks blocks, const BytesOf& bytes_of) {
  if (job == nullptr || job->state != State::kLicensed || job->solo) return;
  std::erase_if(blocks.blocks, [&](const auto& block) { return block.index < job->first_block; });
  if (blocks.blocks.empty()) return;
  job->announced = true;
  std::vector<RegionRange> ranges;
  ranges.reserve(blocks.blocks.size());
  for (const auto& block : blocks.blocks) ranges.push_back({.offset = block.offset, .bytes = bytes_of(block)});
  access_.Allow(job->rules.secret, ranges);
  Reply(*job, std::move(blocks));
}

void KvSource::Impl::OnPromptFinished(const JobKey& key, const FetchComplete& complete) {
  Job* job = Find(key);
  if (job == nullptr || job->state != State::kLicensed) return;
  if (job->solo) return ReleaseAndBury(*job);
  if (job->first_block > complete.block_count) {
    Close(job->stream, absl::InvalidArgumentError(absl::StrCat("first_block is ", job->first_block, ", the prompt has ",
                                                               complete.block_count, " blocks")));
    return ReleaseAndBury(*job);
  }
  Reply(*job, complete);
  EnterState(*job, State::kServing);
}

// The router or the worker gives the job up.
void KvSource::Impl::OnEnded(const JobKey& key, const absl::Status& why) {
  Job* job = Find(key);
  if (job == nullptr) {
    // The job's Fetch, or a second Prefill of it, may still be on the way.
    tombstones_.Add(key, After(clock_.Now(), options_.max_tombstone_ms), clock_.Now());
    return;
  }
  switch (job->state) {
    case State::kParked:
      Close(job->stream, why);
      return Bury(*job);
    case State::kUnlicensed:
      Revoke(*job, why);
      return Bury(*job);
    case State::kLicensed:
    case State::kServing:
      if (job->state == State::kLicensed) Revoke(*job, why);
      if (MayBeRead(*job)) {
        job->ended = why;
        return EnterState(*job, State::kDraining);
      }
      if (job->stream != 0) Close(job->stream, why);
      return ReleaseAndBury(*job);
    case State::kDraining:
    case State::kQuarantine:
      return;
  }
}

void KvSource::Impl::OnTimer() {
  const TimeNs now = clock_.Now();
  while (!timers_.empty() && timers_.begin()->first <= now) OnTimerOf(jobs_.at(timers_.begin()->second));
}

void KvSource::Impl::OnTimerOf(Job& job) {
  const TimeNs now = clock_.Now();
  switch (job.state) {
    case State::kParked:
      Close(job.stream, absl::NotFoundError(absl::StrCat("no Prefill of job ", job.key.ToString(), " came in ",
                                                         options_.parked_ms, " ms")));
      return Bury(job);
    case State::kUnlicensed:
    case State::kLicensed:
    case State::kServing:
      if (job.deadline <= now) {
        return OnEnded(job.key, absl::DeadlineExceededError("the deadline passed at the prefill worker"));
      }
      if (job.state == State::kUnlicensed) {
        return OnEnded(job.key, absl::UnavailableError(absl::StrCat("no decode worker fetched the prompt within ",
                                                                    options_.unlicensed_ms, " ms")));
      }
      [[fallthrough]];
    case State::kDraining: {
      if (job.state == State::kDraining && !MayBeRead(job)) {
        Close(job.stream, job.ended);
        return ReleaseAndBury(job);
      }
      if (now < job.LeaseEnd()) return EnterState(job, job.state);
      const absl::Status over = absl::UnavailableError("the decode worker's lease is over");
      Close(job.stream, job.state == State::kDraining ? job.ended : over);
      return LoseReader(job, over);
    }
    case State::kQuarantine:
      if (now < After(job.LeaseEnd(), options_.grace_ms) && MayBeRead(job)) return EnterState(job, job.state);
      return ReleaseAndBury(job);
  }
}

KvSource::Impl::Job* KvSource::Impl::Find(const JobKey& key) {
  const auto it = jobs_.find(key);
  return it == jobs_.end() ? nullptr : &it->second;
}

KvSource::Impl::Job* KvSource::Impl::FindByStream(FetchStreamId stream) {
  const auto it = streams_.find(stream);
  return it == streams_.end() ? nullptr : Find(it->second);
}

KvSource::Impl::Job& KvSource::Impl::Insert(const JobKey& key, State state) {
  const auto [it, inserted] = jobs_.try_emplace(key);
  BATON_CHECK(inserted) << key.ToString();
  it->second.key = key;
  it->second.state = state;
  if (state == State::kParked) ++parked_;
  return it->second;
}

void KvSource::Impl::BindReader(Job& job, FetchStreamId stream, const FetchOpen& open) {
  job.stream = stream;
  job.reader = open.reader;
  job.takes_begun = open.takes_begun;
  job.first_block = open.first_block;
  job.lease_ms = std::max(open.lease_ms, options_.min_lease_ms);
  job.renewed = clock_.Now();
  streams_[stream] = job.key;
}

void KvSource::Impl::UnbindReader(Job& job, const absl::Status& why) {
  Close(job.stream, why);
  streams_.erase(job.stream);
  job.stream = 0;
}

void KvSource::Impl::License(Job& job) {
  if (!job.solo) Reply(job, FetchAccepted{options_.transport_address, options_.block_bytes});
  actions_.emplace_back(GrantLicence{job.key, job.first_block});
  ++licensed_;
  EnterState(job, State::kLicensed);
}

// Every change of state goes through here, because the job's timer depends on the state.
void KvSource::Impl::EnterState(Job& job, State state) {
  if (job.state == State::kParked && state != State::kParked) --parked_;
  job.state = state;
  if (job.timer != kNever) timers_.erase({job.timer, job.key});
  job.timer = TimerOf(job);
  if (job.timer != kNever) timers_.insert({job.timer, job.key});
}

TimeNs KvSource::Impl::TimerOf(const Job& job) const {
  switch (job.state) {
    case State::kParked:
      return After(job.arrived, options_.parked_ms);
    case State::kUnlicensed:
      return std::min(job.deadline, After(job.arrived, options_.unlicensed_ms));
    case State::kLicensed:
    case State::kServing:
      return job.solo ? job.deadline : std::min(job.deadline, job.LeaseEnd());
    case State::kDraining:
      return std::min(job.LeaseEnd(), After(clock_.Now(), options_.lost_reader_check_ms));
    case State::kQuarantine:
      return std::min(After(job.LeaseEnd(), options_.grace_ms), After(clock_.Now(), options_.lost_reader_check_ms));
  }
  return kNever;
}

// The stream is gone, so the reader can no longer say that it has stopped reading.
void KvSource::Impl::LoseReader(Job& job, const absl::Status& why) {
  streams_.erase(job.stream);
  job.stream = 0;
  if (job.state == State::kLicensed) Revoke(job, why);
  if (!MayBeRead(job)) return ReleaseAndBury(job);
  EnterState(job, State::kQuarantine);
}

void KvSource::Impl::Revoke(Job& job, const absl::Status& why) {
  actions_.emplace_back(kvtransfer::Revoke{job.key, why});
}

void KvSource::Impl::ReleaseAndBury(Job& job) {
  if (job.announced) access_.Stop(job.rules.secret, job.reader);
  actions_.emplace_back(ReleaseBlocks{job.key});
  --licensed_;
  Bury(job);
}

// The last step of every job. Late messages about it are expected until its deadline, or for a moment when that has
// passed.
void KvSource::Impl::Bury(Job& job) {
  const TimeNs now = clock_.Now();
  const TimeNs expires =
      std::clamp(job.deadline, After(now, options_.parked_ms), After(now, options_.max_tombstone_ms));
  tombstones_.Add(job.key, expires, now);
  if (job.state == State::kParked) --parked_;
  if (job.stream != 0) streams_.erase(job.stream);
  if (job.timer != kNever) timers_.erase({job.timer, job.key});
  jobs_.erase(jobs_.find(job.key));
}

void KvSource::Impl::Close(FetchStreamId stream, const absl::Status& status) {
  actions_.emplace_back(CloseStream{stream, status});
}

KvSource::KvSource(KvSourceOptions options, const Clock& clock, BlockAccess& access)
    : impl_(std::make_unique<Impl>(std::move(options), clock, access)) {}
KvSource::~KvSource() = default;

absl::Status KvSource::OnPrefill(const JobKey& key, const ReaderRules& rules, TimeNs deadline, bool solo) {
  return impl_->OnPrefill(key, rules, deadline, solo);
}
void KvSource::OnFetchOpen(FetchStreamId stream, const FetchOpen& open) { impl_->OnFetchOpen(stream, open); }
void KvSource::OnFetchRenew(FetchStreamId stream, const FetchRenew& renew) { impl_->OnFetchRenew(stream, renew); }
void KvSource::OnFetchRelease(FetchStreamId stream) { impl_->OnFetchRelease(stream); }
void KvSource::OnFetchClosed(FetchStreamId stream) { impl_->OnFetchClosed(stream); }
void KvSource::OnBlocksBegun(const JobKey& key, BlocksBegun blocks) { impl_->OnBlocksBegun(key, std::move(blocks)); }
void KvSource::OnBlocksComputed(const JobKey& key, BlocksReady blocks) {
  impl_->OnBlocksComputed(key, std::move(blocks));
}
void KvSource::OnPromptFinished(const JobKey& key, const FetchComplete& complete) {
  impl_->OnPromptFinished(key, complete);
}
void KvSource::OnFailed(const JobKey& key, const absl::Status& status) { impl_->OnEnded(key, status); }
void KvSource::OnCancel(const JobKey& key, const absl::Status& why) { impl_->OnEnded(key, why); }
void KvSource::OnTimer() { impl_->OnTimer(); }
TimeNs KvSource::NextTimer() const { return impl_->NextTimer(); }
std::vector<SourceAction> KvSource::TakeActions() { return impl_->TakeActions(); }
int32_t KvSource::open_jobs() const { return impl_->open_jobs(); }

}  // namespace baton::kvtransfer
