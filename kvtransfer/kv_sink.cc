#include "kvtransfer/kv_sink.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/limits.h"
#include "common/status.h"
#include "kvtransfer/pulled_blocks.h"

namespace baton::kvtransfer {
namespace {

// How many unanswered renewals are remembered. The oldest are forgotten first.
constexpr size_t kMaxUnansweredRenewals = 64;

}  // namespace

class KvSink::Impl {
 public:
  Impl(const KvSinkOptions& options, const Clock& clock, const KvPool& pool);

  void Start(const FetchSpec& spec);
  void Cancel(const JobKey& key, const absl::Status& why);
  void OnReply(FetchStreamId stream, const FetchReply& reply);
  void OnStreamClosed(FetchStreamId stream, const absl::Status& status);
  void OnConnected(FetchStreamId stream, const absl::StatusOr<PeerId>& peer);
  void OnReadDone(uint64_t tag, const absl::Status& status);
  void OnTimer();
  TimeNs NextTimer() const { return timers_.empty() ? kNever : timers_.begin()->first; }
  std::vector<SinkAction> TakeActions() { return std::exchange(actions_, {}); }
  int32_t open_jobs() const { return static_cast<int32_t>(fetches_.size()); }

 private:
  enum class State : uint8_t { kOpening, kPulling, kClosing };

  struct Fetch {
    FetchStreamId stream = 0;
    FetchSpec spec;
    State state = State::kOpening;
    bool stream_lives = true;
    PulledBlocks blocks;
    // Whether the fetch is listed in its peer's turns.
    bool in_turns = false;
    std::optional<PeerId> peer;
    int32_t reads_in_flight = 0;

    // When the last renewal that the source has confirmed was sent. The open is the first.
    TimeNs confirmed = 0;
    TimeNs next_renewal = 0;
    uint64_t last_sequence = 0;
    // Sequence and sending time of unanswered renewals.
    std::deque<std::pair<uint64_t, TimeNs>> unanswered;

    std::optional<FetchComplete> complete;
    TimeNs completed = 0;
    // From kClosing on: what FetchFailed will say, or OK when the job will end in Committed.
    absl::Status outcome;
    FetchFault fault = FetchFault::kOther;
    int64_t read_ns = 0;
    int64_t digest_ns = 0;
    TimeNs reading_since = 0;
    TimeNs timer = kNever;
  };

  struct Read {
    FetchStreamId stream = 0;
    PeerId peer = 0;
    std::vector<int32_t> indices;
  };
  struct Peer {
    int32_t reads_in_flight = 0;
    // Streams that may have something to read, in the order of their turns.
    std::deque<FetchStreamId> turns;
  };

  Fetch* FindByStream(FetchStreamId stream);
  absl::Status Handle(Fetch& fetch, const FetchAccepted& accepted);
  absl::Status Handle(Fetch& fetch, const BlocksBegun& begun);
  absl::Status Handle(Fetch& fetch, const BlocksReady& ready);
  absl::Status Handle(Fetch& fetch, const FetchRenewed& renewed);
  absl::Status Handle(Fetch& fetch, const FetchComplete& complete);
  absl::Status CheckComplete(const Fetch& fetch, const FetchComplete& complete) const;
  absl::Status VerifyWhole(Fetch& fetch);
  TimeNs LeaseEnd(const Fetch& fetch) const { return After(fetch.confirmed, options_.lease_ms); }
  bool MayStartRead(const Fetch& fetch) const;
  void TakeTurn(Fetch& fetch);
  void StartReads();
  void StartReadsFrom(Peer& peer);
  void StartOneRead(Fetch& fetch);
  void Renew(Fetch& fetch);
  void OnTimerOf(Fetch& fetch);
  void SetTimer(Fetch& fetch);
  void CommitIfDone(Fetch& fetch);
  void End(Fetch& fetch, const absl::Status& outcome, FetchFault fault = FetchFault::kOther);
  void Finish(Fetch& fetch);
  void SendCommitted(const Fetch& fetch);

  const KvSinkOptions options_;
  const Clock& clock_;
  const KvPool& pool_;
  FetchStreamId last_stream_ = 0;
  uint64_t last_tag_ = 0;
  absl::flat_hash_map<FetchStreamId, Fetch> fetches_;
  absl::flat_hash_map<JobKey, FetchStreamId> by_key_;
  absl::flat_hash_map<uint64_t, Read> reads_;
  // Peers with turns or with reads in flight. The map is ordered, so that a run repeats.
  std::map<PeerId, Peer> peers_;
  std::set<std::pair<TimeNs, FetchStreamId>> timers_;
  std::vector<SinkAction> actions_;
};

KvSink::Impl::Impl(const KvSinkOptions& options, const Clock& clock, const KvPool& pool)
    : options_(options), clock_(clock), pool_(pool) {
  BATON_CHECK(options.max_blocks_per_read > 0 && options.max_reads_per_peer > 0);
  BATON_CHECK(options.max_blocks_per_read <= static_cast<int32_t>(kMaxRangesPerRead));
  BATON_CHECK(options.lease_ms > 0 && options.renew_ms > 0);
}

void KvSink::Impl::Start(const FetchSpec& spec) {
  BATON_CHECK(!by_key_.contains(spec.key)) << spec.key.ToString();
  const int32_t block_count = static_cast<int32_t>(spec.blocks.size());
  BATON_CHECK(spec.first_block >= 0 && spec.first_block <= block_count) << spec.first_block;
  for (BlockId block : spec.blocks) {
    BATON_CHECK(block >= 0 && block < pool_.block_count()) << block;
  }
  const FetchStreamId stream = ++last_stream_;
  Fetch& fetch = fetches_[stream];
  fetch.stream = stream;
  fetch.spec = spec;
  fetch.blocks = PulledBlocks(spec.blocks, spec.first_block, pool_.block_bytes());
  fetch.confirmed = clock_.Now();
  fetch.next_renewal = After(fetch.confirmed, options_.renew_ms);
  by_key_[spec.key] = stream;
  actions_.emplace_back(OpenStream{stream, spec.source_target,
                                   FetchOpen{.key = spec.key,
                                             .secret = spec.secret,
                                             .source = spec.source,
                                             .fingerprint = spec.fingerprint,
                                             .first_block = spec.first_block,
                                             .lease_ms = options_.lease_ms,
                                             .reader = options_.reader,
                                             .capability = spec.capability,
                                             .takes_begun = true}});
  SetTimer(fetch);
}

void KvSink::Impl::Cancel(const JobKey& key, const absl::Status& why) {
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return;
  End(fetches_.at(it->second), why.ok() ? absl::CancelledError("cancelled") : why);
  StartReads();
}

void KvSink::Impl::OnReply(FetchStreamId stream, const FetchReply& reply) {
  Fetch* fetch = FindByStream(stream);
  // The reply was on its way when the fetch ended.
  if (fetch == nullptr || fetch->state == State::kClosing) return;
  const absl::Status status = std::visit([&](const auto& message) { return Handle(*fetch, message); }, reply);
  if (!status.ok()) {
    End(*fetch, status, FetchFault::kSource);
  } else if (absl::Status verified = VerifyWhole(*fetch); !verified.ok()) {
    End(*fetch, verified, FetchFault::kDigest);
  } else {
    TakeTurn(*fetch);
    CommitIfDone(*fetch);
  }
  StartReads();
}

absl::Status KvSink::Impl::Handle(Fetch& fetch, const FetchAccepted& accepted) {
  if (fetch.state != State::kOpening) return BrokenRules("a second FetchAccepted");
  if (accepted.block_bytes != pool_.block_bytes()) {
    return absl::FailedPreconditionError(absl::StrCat("the prefill worker's blocks have ", accepted.block_bytes,
                                                      " bytes, this decode worker's have ", pool_.block_bytes()));
  }
  if (accepted.transport_address.empty() || accepted.transport_address.size() > kMaxAddressBytes) {
    return BrokenRules(absl::StrCat("a transport address of ", accepted.transport_address.size(), " bytes"));
  }
  fetch.state = State::kPulling;
  actions_.emplace_back(ConnectPeer{fetch.stream, accepted.transport_address});
  return absl::OkStatus();
}

absl::Status KvSink::Impl::Handle(Fetch& fetch, const BlocksBegun& begun) {
  if (fetch.state != State::kPulling) return BrokenRules("BlocksBegun before FetchAccepted");
  return fetch.blocks.Begin(begun);
}

absl::Status KvSink::Impl::Handle(Fetch& fetch, const BlocksReady& ready) {
  if (fetch.state != State::kPulling) return BrokenRules("BlocksReady before FetchAccepted");
  return fetch.blocks.Announce(ready);
}

absl::Status KvSink::Impl::Handle(Fetch& fetch, const FetchRenewed& renewed) {
  if (renewed.sequence == 0 || renewed.sequence > fetch.last_sequence) {
    return BrokenRules(
        absl::StrCat("renewal ", renewed.sequence, " is confirmed, ", fetch.last_sequence, " were sent"));
  }
  while (!fetch.unanswered.empty() && fetch.unanswered.front().first <= renewed.sequence) {
    if (fetch.unanswered.front().first == renewed.sequence) fetch.confirmed = fetch.unanswered.front().second;
    fetch.unanswered.pop_front();
  }
  SetTimer(fetch);
  return absl::OkStatus();
}

absl::Status KvSink::Impl::Handle(Fetch& fetch, const FetchComplete& complete) {
  BATON_RETURN_IF_ERROR(CheckComplete(fetch, complete));
  fetch.complete = complete;
  fetch.completed = clock_.Now();
  return absl::OkStatus();
}

absl::Status KvSink::Impl::CheckComplete(const Fetch& fetch, const FetchComplete& complete) const {
  if (fetch.state != State::kPulling) return BrokenRules("FetchComplete before FetchAccepted");
  if (fetch.complete.has_value()) return BrokenRules("a second FetchComplete");
  if (complete.block_count != fetch.blocks.count()) {
    return BrokenRules(
        absl::StrCat("the prompt has ", complete.block_count, " blocks there and ", fetch.blocks.count(), " here"));
  }
  if (complete.first.index != fetch.spec.first_output) {
    return BrokenRules(
        absl::StrCat("FetchComplete with output token ", complete.first.index, ", not ", fetch.spec.first_output));
  }
  if (!complete.first.is_last() && fetch.blocks.awaited() > 0) {
    return BrokenRules(absl::StrCat("FetchComplete with ", fetch.blocks.awaited(), " blocks never ready"));
  }
  return absl::OkStatus();
}

void KvSink::Impl::OnStreamClosed(FetchStreamId stream, const absl::Status& status) {
  Fetch* fetch = FindByStream(stream);
  if (fetch == nullptr) return;
  fetch->stream_lives = false;
  const absl::Status why = status.ok() ? BrokenRules("the Fetch stream ended before the hand-off did") : status;
  SetTimer(*fetch);
  End(*fetch, absl::Status(why.code(), absl::StrCat("the Fetch stream was closed: ", why.message())),
      FetchFault::kSource);
  StartReads();
}

void KvSink::Impl::OnConnected(FetchStreamId stream, const absl::StatusOr<PeerId>& peer) {
  Fetch* fetch = FindByStream(stream);
  if (fetch == nullptr || fetch->state != State::kPulling || fetch->peer.has_value()) return;
  if (!peer.ok()) {
    End(*fetch,
        absl::Status(peer.status().code(),
                     absl::StrCat("cannot connect to the prefill worker's memory: ", peer.status().message())),
        FetchFault::kRead);
    return;
  }
  fetch->peer = *peer;
  TakeTurn(*fetch);
  StartReads();
}

void KvSink::Impl::OnReadDone(uint64_t tag, const absl::Status& status) {
  const auto it = reads_.find(tag);
  BATON_CHECK(it != reads_.end()) << tag;
  const Read read = std::move(it->second);
  reads_.erase(it);
  --peers_.at(read.peer).reads_in_flight;
  Fetch& fetch = fetches_.at(read.stream);
  if (status.ok()) fetch.blocks.EndRead(read.indices);
  if (--fetch.reads_in_flight == 0) fetch.read_ns += clock_.Now() - fetch.reading_since;
  if (fetch.state == State::kClosing) {
    if (fetch.reads_in_flight == 0) Finish(fetch);
  } else if (!status.ok()) {
    End(fetch, absl::Status(status.code(), absl::StrCat("reading the prompt's KV failed: ", status.message())),
        FetchFault::kRead);
  } else if (absl::Status verified = VerifyWhole(fetch); !verified.ok()) {
    End(fetch, verified, FetchFault::kDigest);
  } else {
    TakeTurn(fetch);
    CommitIfDone(fetch);
  }
  StartReads();
}

absl::Status KvSink::Impl::VerifyWhole(Fetch& fetch) {
  if (!fetch.blocks.HasWhole()) return absl::OkStatus();
  const TimeNs begin = clock_.Now();
  absl::Status status = fetch.blocks.Verify(pool_, options_.max_rereads);
  fetch.digest_ns += clock_.Now() - begin;
  return status;
}

bool KvSink::Impl::MayStartRead(const Fetch& fetch) const {
  return fetch.state == State::kPulling && fetch.peer.has_value() && fetch.blocks.HasReady() &&
         clock_.Now() < fetch.confirmed + options_.lease_ms * kNsPerMs / 4 * 3;
}

// Called whenever something happens that may make a read possible. What still forbids the read is checked when its turn
// comes.
void KvSink::Impl::TakeTurn(Fetch& fetch) {
  if (fetch.in_turns || !MayStartRead(fetch)) return;
  fetch.in_turns = true;
  peers_[*fetch.peer].turns.push_back(fetch.stream);
}

void KvSink::Impl::StartReads() {
  for (auto it = peers_.begin(); it != peers_.end();) {
    Peer& peer = it->second;
    StartReadsFrom(peer);
    it = peer.turns.empty() && peer.reads_in_flight == 0 ? peers_.erase(it) : std::next(it);
  }
}

void KvSink::Impl::StartReadsFrom(Peer& peer) {
  while (!peer.turns.empty() && peer.reads_in_flight < options_.max_reads_per_peer) {
    Fetch* fetch = FindByStream(peer.turns.front());
    peer.turns.pop_front();
    if (fetch == nullptr) continue;
    fetch->in_turns = false;
    if (!MayStartRead(*fetch)) continue;
    ++peer.reads_in_flight;
    StartOneRead(*fetch);
    TakeTurn(*fetch);
  }
}

void KvSink::Impl::StartOneRead(Fetch& fetch) {
  std::vector<CopyRange> ranges;
  Read read{.stream = fetch.stream,
            .peer = *fetch.peer,
            .indices = fetch.blocks.TakeRead(options_.max_blocks_per_read, ranges)};
  if (fetch.reads_in_flight++ == 0) fetch.reading_since = clock_.Now();
  const uint64_t tag = ++last_tag_;
  reads_[tag] = std::move(read);
  actions_.emplace_back(StartRead{fetch.stream, tag, *fetch.peer, fetch.spec.secret, std::move(ranges)});
}

void KvSink::Impl::OnTimer() {
  const TimeNs now = clock_.Now();
  while (!timers_.empty() && timers_.begin()->first <= now) OnTimerOf(fetches_.at(timers_.begin()->second));
  StartReads();
}

void KvSink::Impl::OnTimerOf(Fetch& fetch) {
  const TimeNs now = clock_.Now();
  if (fetch.state != State::kClosing && fetch.spec.deadline <= now) {
    return End(fetch, absl::DeadlineExceededError("the deadline passed while the prompt's KV was fetched"));
  }
  if (fetch.state != State::kClosing && LeaseEnd(fetch) <= now) {
    return End(fetch,
               absl::UnavailableError(absl::StrCat("the prefill worker has not answered for ", options_.lease_ms,
                                                   " ms: the lease is over")),
               FetchFault::kLease);
  }
  if (fetch.stream_lives && fetch.next_renewal <= now) Renew(fetch);
}

void KvSink::Impl::Renew(Fetch& fetch) {
  const TimeNs now = clock_.Now();
  fetch.unanswered.emplace_back(++fetch.last_sequence, now);
  if (fetch.unanswered.size() > kMaxUnansweredRenewals) fetch.unanswered.pop_front();
  fetch.next_renewal = After(now, options_.renew_ms);
  actions_.emplace_back(SendRequest{fetch.stream, FetchRenew{fetch.last_sequence}});
  SetTimer(fetch);
}

// Renewals go on while reads are in flight, so that the source keeps what is being read.
void KvSink::Impl::SetTimer(Fetch& fetch) {
  if (fetch.timer != kNever) timers_.erase({fetch.timer, fetch.stream});
  fetch.timer = fetch.stream_lives ? fetch.next_renewal : kNever;
  if (fetch.state != State::kClosing) fetch.timer = std::min({fetch.timer, LeaseEnd(fetch), fetch.spec.deadline});
  if (fetch.timer != kNever) timers_.insert({fetch.timer, fetch.stream});
}

void KvSink::Impl::CommitIfDone(Fetch& fetch) {
  if (fetch.state != State::kPulling || !fetch.complete.has_value()) return;
  if (fetch.complete->first.is_last() || fetch.blocks.unverified() == 0) End(fetch, absl::OkStatus());
}

// Ends the fetch now, or with its last read in flight. The first cause counts.
void KvSink::Impl::End(Fetch& fetch, const absl::Status& outcome, FetchFault fault) {
  if (fetch.state == State::kClosing) return;
  fetch.state = State::kClosing;
  fetch.outcome = outcome;
  fetch.fault = fault;
  fetch.blocks.DropReady();
  if (fetch.reads_in_flight == 0) return Finish(fetch);
  SetTimer(fetch);
}

void KvSink::Impl::Finish(Fetch& fetch) {
  if (fetch.stream_lives) actions_.emplace_back(SendRequest{fetch.stream, FetchRelease{}});
  if (fetch.outcome.ok()) {
    SendCommitted(fetch);
  } else {
    actions_.emplace_back(FetchFailed{.stream = fetch.stream,
                                      .key = fetch.spec.key,
                                      .status = fetch.outcome,
                                      .source_target = fetch.spec.source_target,
                                      .peer = fetch.peer,
                                      .fault = fetch.fault,
                                      .damaged_blocks = fetch.blocks.damaged()});
  }
  // Last: with the stream, the transfer thread forgets how its blocks came.
  actions_.emplace_back(FinishStream{fetch.stream});
  if (fetch.timer != kNever) timers_.erase({fetch.timer, fetch.stream});
  by_key_.erase(fetch.spec.key);
  fetches_.erase(fetches_.find(fetch.stream));
}

void KvSink::Impl::SendCommitted(const Fetch& fetch) {
  Committed committed;
  committed.stream = fetch.stream;
  committed.key = fetch.spec.key;
  committed.source_target = fetch.spec.source_target;
  committed.peer = fetch.peer;
  committed.damaged_blocks = fetch.blocks.damaged();
  committed.first = fetch.complete->first;
  committed.bytes = fetch.blocks.verified_bytes();
  committed.early_bytes = fetch.blocks.early_bytes();
  committed.tail_ns = clock_.Now() - fetch.completed;
  committed.read_ns = fetch.read_ns;
  committed.digest_ns = fetch.digest_ns;
  actions_.emplace_back(std::move(committed));
}

KvSink::Impl::Fetch* KvSink::Impl::FindByStream(FetchStreamId stream) {
  const auto it = fetches_.find(stream);
  return it == fetches_.end() ? nullptr : &it->second;
}

KvSink::KvSink(const KvSinkOptions& options, const Clock& clock, const KvPool& pool)
    : impl_(std::make_unique<Impl>(options, clock, pool)) {}
KvSink::~KvSink() = default;

void KvSink::Start(const FetchSpec& spec) { impl_->Start(spec); }
void KvSink::Cancel(const JobKey& key, const absl::Status& why) { impl_->Cancel(key, why); }
void KvSink::OnReply(FetchStreamId stream, const FetchReply& reply) { impl_->OnReply(stream, reply); }
void KvSink::OnStreamClosed(FetchStreamId stream, const absl::Status& status) { impl_->OnStreamClosed(stream, status); }
void KvSink::OnConnected(FetchStreamId stream, const absl::StatusOr<PeerId>& peer) { impl_->OnConnected(stream, peer); }
void KvSink::OnReadDone(uint64_t tag, const absl::Status& status) { impl_->OnReadDone(tag, status); }
void KvSink::OnTimer() { impl_->OnTimer(); }
TimeNs KvSink::NextTimer() const { return impl_->NextTimer(); }
std::vector<SinkAction> KvSink::TakeActions() { return impl_->TakeActions(); }
int32_t KvSink::open_jobs() const { return impl_->open_jobs(); }

}  // namespace baton::kvtransfer
