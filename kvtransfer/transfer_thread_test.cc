#include "kvtransfer/transfer_thread.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/mailbox.h"
#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"
#include "kvtransfer/kv_source.h"
#include "kvtransfer/peer_cache.h"
#include "kvtransfer/testing/describe_handoff.h"
#include "kvtransfer/transport_access.h"

namespace baton::kvtransfer {
namespace {

constexpr uint64_t kBlockBytes = 4096;
constexpr int32_t kPoolBlocks = 512;
constexpr absl::Duration kPatience = absl::Seconds(60);

FetchSpec SpecOf(uint64_t job, std::vector<BlockId> blocks) {
  FetchSpec spec;
  spec.key = KeyOf(job);
  spec.secret = SecretOf(spec.key);
  spec.source_target = "prefill:1";
  spec.source = kSourceIncarnation;
  spec.fingerprint = "same";
  spec.blocks = std::move(blocks);
  return spec;
}

// Collects how fetches ended. Any thread.
class Outcomes {
 public:
  TransferThread::Callbacks Callbacks() {
    return {.committed = [this](const Committed& committed) { Add(committed.key, absl::OkStatus()); },
            .failed =
                [this](const FetchFailed& failed) {
                  EXPECT_EQ(failed.path, failed.peer.has_value() ? "fake" : "") << "it is not known how the KV came";
                  Add(failed.key, failed.status);
                }};
  }
  // The fetches that ended, once there are `count`.
  std::map<JobKey, absl::Status> Wait(size_t count) {
    absl::MutexLock lock(&mutex_);
    wanted_ = count;
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(this, &Outcomes::Enough), kPatience));
    return ended_;
  }

 private:
  void Add(const JobKey& key, const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(ended_.emplace(key, status).second) << key.ToString() << " ends twice";
  }
  bool Enough() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_.size() >= wanted_; }

  absl::Mutex mutex_;
  std::map<JobKey, absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  size_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Reads that the test ends. Wait advances time instead when told to.
class FakeTransport final : public Transport {
 public:
  std::string_view name() const override { return "fake"; }
  absl::StatusOr<absl::Span<uint8_t>> AllocateRegion(size_t bytes) override {
    memory_.resize(bytes);
    return absl::MakeSpan(memory_);
  }
  absl::StatusOr<std::string> Address() override { return std::string("fake"); }
  absl::StatusOr<PeerId> Connect(std::string_view address) override {
    absl::MutexLock lock(&mutex_);
    if (address == "nowhere") return absl::UnavailableError("no route");
    ++connects_;
    return ++last_peer_;
  }
  std::string_view PathOf(PeerId peer) const override {
    absl::MutexLock lock(&mutex_);
    return absl::c_linear_search(disconnected_, peer) ? "" : "fake";
  }
  bool shares_memory() const override { return true; }
  absl::StatusOr<ReadId> StartRead(PeerId peer, const Id128&, absl::Span<const CopyRange>) override {
    absl::MutexLock lock(&mutex_);
    if (!refuse_.ok()) return refuse_;
    reads_[++last_read_] = peer;
    return last_read_;
  }
  void Poll(std::vector<ReadCompletion>& completions) override {
    absl::MutexLock lock(&mutex_);
    for (ReadId read : cancelled_) completions.push_back({read, absl::CancelledError("disconnected")});
    cancelled_.clear();
  }
  void WaitForEvent(int64_t timeout_ns) override {
    if (advance_) {
      clock.Advance(timeout_ns);
      return;
    }
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&awake_), absl::Nanoseconds(timeout_ns));
    awake_ = false;
  }
  void Wake() override {
    absl::MutexLock lock(&mutex_);
    awake_ = true;
  }
  void Disconnect(PeerId peer) override {
    absl::MutexLock lock(&mutex_);
    disconnected_.push_back(peer);
    for (auto it = reads_.begin(); it != reads_.end();) {
      if (it->second == peer) {
        cancelled_.push_back(it->first);
        it = reads_.erase(it);
      } else {
        ++it;
      }
    }
  }

  void Refuse(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    refuse_ = std::move(status);
  }
  int connects() {
    absl::MutexLock lock(&mutex_);
    return connects_;
  }
  std::vector<PeerId> disconnected() {
    absl::MutexLock lock(&mutex_);
    return disconnected_;
  }
  void AwaitRead() {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](FakeTransport* t) ABSL_NO_THREAD_SAFETY_ANALYSIS { return !t->reads_.empty(); }, this),
        kPatience));
  }
  void AdvanceTimeInsteadOfWaiting() {
    advance_ = true;
    Wake();
  }

  ManualClock clock;

 private:
  mutable absl::Mutex mutex_;
  bool awake_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status refuse_ ABSL_GUARDED_BY(mutex_);
  int connects_ ABSL_GUARDED_BY(mutex_) = 0;
  PeerId last_peer_ ABSL_GUARDED_BY(mutex_) = 0;
  ReadId last_read_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<ReadId, PeerId> reads_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReadId> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::vector<PeerId> disconnected_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> advance_ = false;
  std::vector<uint8_t> memory_;
};

// Streams to nobody; a test answers on them itself.
class SilentChannel final : public FetchChannel {
 public:
  void Open(FetchStreamId stream, const std::string&, const FetchOpen&) override { opened_.Post(stream); }
  void Send(FetchStreamId, const FetchRequest&) override {}
  void Finish(FetchStreamId) override {}
  FetchStreamId AwaitOpen() {
    opened_.Wait(60 * kNsPerSecond);
    auto streams = opened_.Take();
    EXPECT_EQ(streams.size(), 1u);
    return streams.empty() ? 0 : streams.front();
  }

 private:
  struct Box : Mailbox<FetchStreamId> {
    using Mailbox::Mailbox;
    void Post(FetchStreamId stream) { EXPECT_TRUE(Mailbox::Post(stream)); }
  };
  Box opened_{1024};
};

// A prefill worker whose prompts are computed the moment they are licensed, on a thread of its own.
class SourceHost final : public FetchChannel {
 public:
  SourceHost(Transport& transport, absl::Span<uint8_t> pool)
      : pool_(pool),
        access_(transport),
        core_(Options(transport), MonotonicClock(), access_),
        thread_([this] { Loop(); }) {}
  ~SourceHost() override {
    mail_.Close();
    thread_.join();
  }
  void AnswerTo(TransferThread& reader) { reader_ = &reader; }

  void Prefill(uint64_t job, std::vector<BlockId> blocks) {
    Post([this, job, blocks = std::move(blocks)] {
      prompts_[KeyOf(job)] = blocks;
      EXPECT_TRUE(core_.OnPrefill(KeyOf(job), {.secret = SecretOf(KeyOf(job))}, kNever, false).ok());
    });
  }
  void Open(FetchStreamId stream, const std::string&, const FetchOpen& open) override {
    Post([this, stream, open] { core_.OnFetchOpen(stream, open); });
  }
  void Send(FetchStreamId stream, const FetchRequest& request) override {
    Post([this, stream, request] {
      if (const auto* renew = std::get_if<FetchRenew>(&request)) core_.OnFetchRenew(stream, *renew);
      if (std::holds_alternative<FetchRelease>(request)) core_.OnFetchRelease(stream);
    });
  }
  void Finish(FetchStreamId stream) override {
    Post([this, stream] { core_.OnFetchClosed(stream); });
  }
  int32_t OpenJobs() {
    int32_t jobs = 0;
    absl::Notification done;
    Post([&] {
      jobs = core_.open_jobs();
      done.Notify();
    });
    done.WaitForNotification();
    return jobs;
  }

 private:
  static KvSourceOptions Options(Transport& transport) {
    KvSourceOptions options;
    options.incarnation = kSourceIncarnation;
    options.fingerprint = "same";
    options.transport_address = *transport.Address();
    options.block_bytes = kBlockBytes;
    return options;
  }
  void Post(std::function<void()> event) { EXPECT_TRUE(mail_.Post(std::move(event))); }
  void Loop() {
    while (!mail_.closed()) {
      mail_.Wait(kNsPerSecond);
      for (const auto& event : mail_.Take()) {
        event();
        for (auto actions = core_.TakeActions(); !actions.empty(); actions = core_.TakeActions()) {
          for (const SourceAction& action : actions) Apply(action);
        }
      }
    }
  }
  void Apply(const SourceAction& action) {
    if (const auto* reply = std::get_if<SendReply>(&action)) reader_.load()->OnReply(reply->stream, reply->reply);
    if (const auto* close = std::get_if<CloseStream>(&action))
      reader_.load()->OnStreamClosed(close->stream, close->status);
    const auto* grant = std::get_if<GrantLicence>(&action);
    if (grant == nullptr) return;
    const std::vector<BlockId>& blocks = prompts_.at(grant->key);
    for (size_t i = 0; i < blocks.size(); ++i) {
      const uint64_t offset = static_cast<uint64_t>(blocks[i]) * kBlockBytes;
      core_.OnBlocksComputed(grant->key, {{{.index = static_cast<int32_t>(i),
                                            .offset = offset,
                                            .digest = DigestBytes(pool_.data() + offset, kBlockBytes)}}});
    }
    core_.OnPromptFinished(grant->key, {.block_count = static_cast<int32_t>(blocks.size()), .first = {.token = 3}});
  }

  absl::Span<uint8_t> pool_;
  std::atomic<TransferThread*> reader_ = nullptr;
  TransportAccess access_;
  KvSource core_;
  std::map<JobKey, std::vector<BlockId>> prompts_;
  Mailbox<std::function<void()>> mail_{1u << 16};
  std::thread thread_;
};

std::unique_ptr<Transport> MakeInproc() {
  TransportOptions options;
  options.kind = TransportKind::kInproc;
  return *MakeTransport(options);
}

TEST(TransferThreadTest, FetchesManyPromptsAndTheSourceGetsItsBlocksBack) {
  constexpr uint64_t kJobs = 24;
  constexpr int32_t kBlocksPerJob = 20;
  auto source_transport = MakeInproc();
  auto sink_transport = MakeInproc();
  const auto source_pool = *source_transport->AllocateRegion(kPoolBlocks * kBlockBytes);
  const auto sink_pool = *sink_transport->AllocateRegion(kPoolBlocks * kBlockBytes);
  HostKvPool pool(sink_pool, kBlockBytes);
  for (size_t i = 0; i < source_pool.size(); ++i) source_pool[i] = static_cast<uint8_t>(i * 31 / 7 + i / kBlockBytes);
  Outcomes outcomes;
  SourceHost source(*source_transport, source_pool);
  TransferThread thread(*sink_transport, KvSinkOptions(), MonotonicClock(), pool, outcomes.Callbacks());
  source.AnswerTo(thread);
  thread.Launch(source);
  // Block i of the pool moves to block kPoolBlocks - 1 - i.
  for (uint64_t job = 0; job < kJobs; ++job) {
    std::vector<BlockId> from, to;
    for (int32_t i = 0; i < kBlocksPerJob; ++i) {
      from.push_back(static_cast<BlockId>(job) * kBlocksPerJob + i);
      to.push_back(kPoolBlocks - 1 - from.back());
    }
    source.Prefill(job, from);
    thread.Start(SpecOf(job, to));
  }
  for (const auto& [key, status] : outcomes.Wait(kJobs)) EXPECT_TRUE(status.ok()) << status;
  thread.Stop();
  EXPECT_EQ(source.OpenJobs(), 0);
  for (uint64_t block = 0; block < kJobs * kBlocksPerJob; ++block) {
    ASSERT_EQ(std::memcmp(source_pool.data() + block * kBlockBytes,
                          sink_pool.data() + (kPoolBlocks - 1 - block) * kBlockBytes, kBlockBytes),
              0)
        << block;
  }
}

TEST(TransferThreadTest, RefusedFetchFailsWithTheSourcesReason) {
  auto source_transport = MakeInproc();
  auto sink_transport = MakeInproc();
  const auto source_pool = *source_transport->AllocateRegion(kPoolBlocks * kBlockBytes);
  const auto sink_pool = *sink_transport->AllocateRegion(kPoolBlocks * kBlockBytes);
  HostKvPool pool(sink_pool, kBlockBytes);
  Outcomes outcomes;
  SourceHost source(*source_transport, source_pool);
  TransferThread thread(*sink_transport, KvSinkOptions(), MonotonicClock(), pool, outcomes.Callbacks());
  source.AnswerTo(thread);
  thread.Launch(source);
  FetchSpec spec = SpecOf(1, {0});
  spec.fingerprint = "other";
  thread.Start(spec);
  EXPECT_EQ(outcomes.Wait(1)[KeyOf(1)].code(), absl::StatusCode::kFailedPrecondition);
  thread.Stop();
}

class TransferThreadFakeTest : public testing::Test {
 protected:
  TransferThreadFakeTest()
      : pool_(*transport_.AllocateRegion(kPoolBlocks * kBlockBytes), kBlockBytes),
        thread_(transport_, KvSinkOptions(), transport_.clock, pool_, outcomes_.Callbacks()) {
    thread_.Launch(channel_);
  }
  // Waits until a read of job `job` starts or is refused.
  FetchStreamId StartAndAnnounce(uint64_t job, const std::string& address = "fake") {
    thread_.Start(SpecOf(job, {static_cast<BlockId>(job)}));
    const FetchStreamId stream = channel_.AwaitOpen();
    thread_.OnReply(stream, FetchAccepted{address, kBlockBytes});
    thread_.OnReply(stream, BlocksReady{{{.index = 0}}});
    return stream;
  }

  FakeTransport transport_;
  HostKvPool pool_;
  Outcomes outcomes_;
  SilentChannel channel_;
  TransferThread thread_;
};

TEST_F(TransferThreadFakeTest, CancelEndsAFetch) {
  thread_.Start(SpecOf(1, {0}));
  channel_.AwaitOpen();
  thread_.Cancel(KeyOf(1), absl::AbortedError("router"));
  EXPECT_EQ(outcomes_.Wait(1)[KeyOf(1)].code(), absl::StatusCode::kAborted);
}

TEST_F(TransferThreadFakeTest, ClosedStreamEndsAFetch) {
  thread_.Start(SpecOf(1, {0}));
  thread_.OnStreamClosed(channel_.AwaitOpen(), absl::NotFoundError("no such job"));
  EXPECT_EQ(outcomes_.Wait(1)[KeyOf(1)].code(), absl::StatusCode::kNotFound);
}

TEST_F(TransferThreadFakeTest, UnreachablePeerEndsAFetch) {
  StartAndAnnounce(1, "nowhere");
  EXPECT_EQ(outcomes_.Wait(1)[KeyOf(1)].code(), absl::StatusCode::kUnavailable);
}

TEST_F(TransferThreadFakeTest, RefusedReadEndsAFetchAndKeepsTheConnection) {
  transport_.Refuse(absl::OutOfRangeError("outside of the region"));
  StartAndAnnounce(1);
  EXPECT_EQ(outcomes_.Wait(1)[KeyOf(1)].code(), absl::StatusCode::kOutOfRange);
  StartAndAnnounce(2);
  outcomes_.Wait(2);
  EXPECT_EQ(transport_.connects(), 1);
}

TEST_F(TransferThreadFakeTest, LostPeerIsConnectedAnew) {
  transport_.Refuse(absl::UnavailableError("peer is gone"));
  StartAndAnnounce(1);
  EXPECT_EQ(outcomes_.Wait(1)[KeyOf(1)].code(), absl::StatusCode::kUnavailable);
  StartAndAnnounce(2);
  outcomes_.Wait(2);
  EXPECT_EQ(transport_.connects(), 2);
}

TEST_F(TransferThreadFakeTest, PeerWhoseStreamBreaksIsConnectedAnew) {
  const FetchStreamId first = StartAndAnnounce(1);
  transport_.AwaitRead();
  transport_.Refuse(absl::OutOfRangeError("no further read"));
  thread_.OnStreamClosed(first, absl::UnavailableError("connection reset"));
  StartAndAnnounce(2);
  outcomes_.Wait(1);
  EXPECT_EQ(transport_.connects(), 2);
  transport_.AdvanceTimeInsteadOfWaiting();
}

TEST_F(TransferThreadFakeTest, StreamThatTheSourceClosesKeepsTheConnection) {
  const FetchStreamId first = StartAndAnnounce(1);
  transport_.AwaitRead();
  transport_.Refuse(absl::OutOfRangeError("no further read"));
  thread_.OnStreamClosed(first, absl::CancelledError("the router cancelled"));
  StartAndAnnounce(2);
  outcomes_.Wait(1);
  EXPECT_EQ(transport_.connects(), 1);
  transport_.AdvanceTimeInsteadOfWaiting();
}

TEST_F(TransferThreadFakeTest, StopFailsWhatIsOpenAndLaterStartsAtOnce) {
  for (uint64_t job = 1; job <= 3; ++job) thread_.Start(SpecOf(job, {0}));
  thread_.Stop();
  thread_.Start(SpecOf(4, {0}));
  thread_.Cancel(KeyOf(4), absl::AbortedError("router"));
  thread_.OnReply(1, FetchRenewed{1});
  thread_.OnStreamClosed(1, absl::OkStatus());
  for (const auto& [key, status] : outcomes_.Wait(4)) EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  thread_.Stop();
}

TEST_F(TransferThreadFakeTest, StopDisconnectsPeersWhoseReadsDoNotEnd) {
  StartAndAnnounce(1);
  transport_.AwaitRead();
  const TimeNs begin = transport_.clock.Now();
  transport_.AdvanceTimeInsteadOfWaiting();
  thread_.Stop();
  EXPECT_EQ(outcomes_.Wait(1)[KeyOf(1)].code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(transport_.disconnected(), std::vector<PeerId>{1});
  EXPECT_GE(transport_.clock.Now() - begin, TransferThread::kStopNs);
}

class PeerCacheTest : public testing::Test {
 protected:
  FakeTransport transport_;
  PeerCache cache_{transport_, transport_.clock};
};

TEST_F(PeerCacheTest, FetchesOfOneAddressShareAConnection) {
  EXPECT_EQ(*cache_.Acquire(1, "a"), *cache_.Acquire(2, "a"));
  EXPECT_NE(*cache_.Acquire(3, "b"), *cache_.Acquire(4, "a"));
  EXPECT_EQ(transport_.connects(), 2);
}

TEST_F(PeerCacheTest, FailedConnectionLeavesNothing) {
  EXPECT_FALSE(cache_.Acquire(1, "nowhere").ok());
  cache_.Release(1);
  EXPECT_EQ(cache_.size(), 0u);
}

TEST_F(PeerCacheTest, ConnectionOfABrokenStreamEndsWithItsLastFetch) {
  const PeerId peer = *cache_.Acquire(1, "a");
  cache_.MarkLostOf(7);
  EXPECT_EQ(*cache_.Acquire(2, "a"), peer);
  cache_.MarkLostOf(1);
  cache_.Release(1);
  EXPECT_TRUE(transport_.disconnected().empty());
  cache_.Release(2);
  EXPECT_EQ(transport_.disconnected(), std::vector<PeerId>{peer});
  EXPECT_EQ(cache_.size(), 0u);
}

TEST_F(PeerCacheTest, IdleConnectionsEndAfterAWhile) {
  cache_.Acquire(1, "a").IgnoreError();
  transport_.clock.Advance(2 * kIdlePeerNs);
  cache_.Trim();
  EXPECT_EQ(cache_.size(), 1u);
  cache_.Release(1);
  transport_.clock.Advance(kIdlePeerNs - 1);
  cache_.Trim();
  EXPECT_EQ(cache_.size(), 1u);
  transport_.clock.Advance(1);
  cache_.Trim();
  EXPECT_EQ(cache_.size(), 0u);
  EXPECT_EQ(transport_.disconnected().size(), 1u);
}

TEST_F(PeerCacheTest, IdleConnectionsAreBoundedAndTheOldestGoes) {
  for (FetchStreamId stream = 1; stream <= kMaxIdlePeers + 1; ++stream) {
    cache_.Acquire(stream, std::to_string(stream)).IgnoreError();
    cache_.Release(stream);
    transport_.clock.Advance(1);
    cache_.Trim();
  }
  EXPECT_EQ(cache_.size(), kMaxIdlePeers);
  EXPECT_EQ(transport_.disconnected(), std::vector<PeerId>{1});
}

TEST_F(PeerCacheTest, LostConnectionServesItsFetchesToTheEnd) {
  const PeerId lost = *cache_.Acquire(1, "a");
  cache_.Acquire(2, "a").IgnoreError();
  cache_.MarkLost(lost);
  EXPECT_NE(*cache_.Acquire(3, "a"), lost);
  cache_.Release(1);
  EXPECT_TRUE(transport_.disconnected().empty());
  cache_.Release(2);
  EXPECT_EQ(transport_.disconnected(), std::vector<PeerId>{lost});
  cache_.Release(3);
  EXPECT_EQ(cache_.size(), 1u);
}

}  // namespace
}  // namespace baton::kvtransfer
