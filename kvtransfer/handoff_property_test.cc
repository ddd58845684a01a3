// Both ends of many hand-offs over a network that delays, reorders between streams and cuts, with memory that is reused
// the moment it may be: whatever the interleaving, the rules hold and the bytes are right.
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "common/check.h"
#include "common/random.h"
#include "common/testing/virtual_time.h"
#include "gtest/gtest.h"
#include "kvtransfer/kv_sink.h"
#include "kvtransfer/kv_source.h"
#include "kvtransfer/testing/describe_handoff.h"
#include "kvtransfer/testing/fake_block_access.h"

namespace baton::kvtransfer {
namespace {

constexpr uint64_t kPropertyBlockBytes = 64;
constexpr int32_t kPoolBlocks = 40;
// The most blocks of one job.
constexpr int32_t kMaxBlocks = 8;
constexpr int kJobs = 30;
constexpr int kSources = 2;
constexpr int kSinks = 2;
constexpr int64_t kPropertyLeaseMs = 400;
constexpr int kMaxEvents = 200'000;

struct PlannedJob {
  JobKey key;
  int source = 0;
  int sink = 0;
  KvGroups groups = {};
  int32_t prompt_tokens = 0;
  // Whole blocks of tokens that the sink holds.
  int32_t cached = 0;
  bool solo = false;
  bool ends_with_first_token = false;
  TimeNs deadline = kNever;

  int32_t blocks() const { return groups.HandedOver(prompt_tokens); }
  int32_t first_block() const { return groups.HandedOverBefore(cached, prompt_tokens); }
};

uint8_t PlannedByte(const PlannedJob& job, int32_t index) {
  return static_cast<uint8_t>(NumberOf(job.key) * 8 + static_cast<uint64_t>(index));
}

struct Pool {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kPoolBlocks * kPropertyBlockBytes);
  HostKvPool blocks{absl::MakeSpan(bytes), kPropertyBlockBytes};
  std::set<BlockId> free;

  Pool() {
    for (BlockId block = 0; block < kPoolBlocks; ++block) free.insert(block);
  }
  uint8_t* At(BlockId block) { return bytes.data() + static_cast<uint64_t>(block) * kPropertyBlockBytes; }
  std::vector<BlockId> Take(int32_t count) {
    std::vector<BlockId> taken;
    if (static_cast<int32_t>(free.size()) < count) return taken;
    while (static_cast<int32_t>(taken.size()) < count) taken.push_back(free.extract(free.begin()).value());
    return taken;
  }
  // Writes over the blocks at once, as their next owner would.
  void Free(const std::vector<BlockId>& blocks) {
    for (BlockId block : blocks) {
      BATON_CHECK(free.insert(block).second) << "block " << block << " is freed twice";
      std::memset(At(block), 0xEE, kPropertyBlockBytes);
    }
  }
};

// One Fetch stream, as the network knows it.
struct Stream {
  int sink = 0;
  int source = 0;
  FetchStreamId at_sink = 0;
  FetchStreamId at_source = 0;
  bool cut = false;
  // When the last message of each direction arrives: the next one arrives later.
  TimeNs last_to_source = 0;
  TimeNs last_to_sink = 0;
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed), owners_serve_reads_(seed % 3 == 0) {
    for (int i = 0; i < kSources; ++i) {
      sources_.push_back(std::make_unique<Source>(clock_));
      sources_.back()->access.stops_readers = owners_serve_reads_;
    }
    for (int i = 0; i < kSinks; ++i) sinks_.push_back(std::make_unique<Sink>(clock_));
  }

  // Empty, or what went wrong.
  std::string Run() {
    for (int i = 0; i < kJobs; ++i) PlanJob(static_cast<uint64_t>(i + 1));
    for (int events = 0; Step() && error_.empty(); ++events) {
      if (events > kMaxEvents) return "does not come to an end";
    }
    if (error_.empty()) CheckQuiet();
    return error_;
  }

  int commits() const { return commits_; }
  // Those of which a part was read before its blocks were ready.
  int early_commits() const { return early_commits_; }
  int failures() const { return failures_; }

 private:
  struct Licensed {
    std::vector<BlockId> blocks;
    // Blocks of tokens, and those of them that are handed over.
    int32_t computed_tokens = 0;
    int32_t computed = 0;
    // The chunk that is being computed ends behind so many blocks of tokens; 0: there is none. So many quarters of each
    // of its blocks are there.
    int32_t chunk_end = 0;
    int32_t quarters = 0;
    bool stopped = false;
  };
  struct Source {
    explicit Source(const Clock& clock) : core(Options(), clock, access) {}
    static KvSourceOptions Options() {
      KvSourceOptions options;
      options.incarnation = kSourceIncarnation;
      options.fingerprint = "same";
      options.transport_address = "address";
      options.block_bytes = kPropertyBlockBytes;
      options.parked_ms = 300;
      options.unlicensed_ms = 600;
      options.grace_ms = 50;
      options.max_lease_ms = 1'000;
      return options;
    }
    Pool pool;
    FakeBlockAccess access;
    KvSource core;
    std::map<JobKey, Licensed> licensed;
    std::set<JobKey> ever_licensed;
    FetchStreamId last_stream = 0;
    std::map<FetchStreamId, size_t> streams;
  };
  struct ReadInFlight {
    FetchStreamId stream = 0;
    Id128 fetch;
    std::vector<CopyRange> ranges;
    // The owner no longer served it.
    bool refused = false;
  };
  struct Fetching {
    JobKey key;
    std::vector<BlockId> blocks;
    size_t stream = 0;
    int reads = 0;
    bool over = false;
    // When the last renewal that was answered was sent: the reader counts the lease from it.
    TimeNs confirmed = 0;
    std::map<uint64_t, TimeNs> renewals = {};
  };
  struct Sink {
    explicit Sink(const Clock& clock) : core(Options(), clock, pool.blocks) {}
    static KvSinkOptions Options() {
      KvSinkOptions options;
      options.lease_ms = kPropertyLeaseMs;
      options.renew_ms = 50;
      options.max_blocks_per_read = 3;
      options.max_reads_per_peer = 3;
      return options;
    }
    Pool pool;
    KvSink core;
    std::map<FetchStreamId, Fetching> fetches;
    std::map<uint64_t, ReadInFlight> reads;
  };

  bool Chance(uint64_t percent) { return random_.Below(100) < percent; }
  TimeNs DelayOf(int64_t most_ms) {
    return static_cast<TimeNs>(random_.Below(static_cast<uint64_t>(most_ms * kNsPerMs)));
  }
  // Most messages are quick, and few take longer than a lease.
  TimeNs NetworkDelay() { return Chance(2) ? DelayOf(600) : Chance(20) ? DelayOf(60) : DelayOf(2); }
  void At(TimeNs time, std::function<void()> run) { clock_.At(time, std::move(run)); }
  void After(int64_t delay_ns, std::function<void()> run) { clock_.After(delay_ns, std::move(run)); }
  void Fail(const std::string& what) {
    if (error_.empty()) error_ = what;
  }

  void PlanJob(uint64_t number) {
    PlannedJob job;
    job.key = KeyOf(number);
    job.source = static_cast<int>(random_.Below(kSources));
    job.sink = static_cast<int>(random_.Below(kSinks));
    do {
      if (Chance(50)) {
        job.groups = {.full = static_cast<int32_t>(random_.Below(3)),
                      .sliding = 1 + static_cast<int32_t>(random_.Below(3)),
                      .window = 2 + static_cast<int32_t>(random_.Below(60))};
      }
      job.prompt_tokens = 1 + static_cast<int32_t>(random_.Below(kMaxBlocks * kBlockTokens));
    } while (job.blocks() > kMaxBlocks || job.blocks() == 0);
    const uint64_t token_blocks = static_cast<uint64_t>(BlocksForTokens(job.prompt_tokens));
    job.cached = Chance(30) ? static_cast<int32_t>(random_.Below(token_blocks)) : 0;
    job.solo = Chance(8);
    job.ends_with_first_token = Chance(10);
    const TimeNs begin = clock_.Now() + DelayOf(800);
    if (Chance(30)) job.deadline = begin + DelayOf(500);
    jobs_[job.key] = job;
    At(begin + NetworkDelay(), [this, job] { Prefill(job); });
    if (!job.solo) At(begin + NetworkDelay(), [this, job] { StartFetch(job); });
    if (Chance(30)) {
      const TimeNs cancel = begin + DelayOf(300);
      At(cancel + NetworkDelay(), [this, job] {
        sources_[static_cast<size_t>(job.source)]->core.OnCancel(job.key, absl::AbortedError("router"));
      });
      if (Chance(80)) At(cancel + NetworkDelay(), [this, job] { CancelFetch(job); });
    }
  }

  void Prefill(const PlannedJob& job) {
    const absl::Status status = sources_[static_cast<size_t>(job.source)]->core.OnPrefill(
        job.key, {.secret = SecretOf(job.key)}, job.deadline, job.solo);
    if (!status.ok() && !absl::IsCancelled(status)) Fail("Prefill: " + status.ToString());
  }

  void StartFetch(const PlannedJob& job) {
    Sink& sink = *sinks_[static_cast<size_t>(job.sink)];
    FetchSpec spec;
    spec.key = job.key;
    spec.secret = SecretOf(job.key);
    spec.source_target = std::to_string(job.source);
    spec.source = kSourceIncarnation;
    spec.fingerprint = "same";
    spec.deadline = job.deadline;
    spec.first_block = job.first_block();
    spec.blocks = sink.pool.Take(job.blocks());
    // The decode worker refuses the job, so the router cancels its prefill.
    if (spec.blocks.empty()) {
      return sources_[static_cast<size_t>(job.source)]->core.OnCancel(job.key, absl::AbortedError("refused"));
    }
    for (int32_t i = 0; i < job.first_block(); ++i) {
      std::memset(sink.pool.At(spec.blocks[static_cast<size_t>(i)]), PlannedByte(job, i), kPropertyBlockBytes);
    }
    ++started_;
    starting_ = spec;
    sink.core.Start(spec);
  }

  void CancelFetch(const PlannedJob& job) {
    Sink& sink = *sinks_[static_cast<size_t>(job.sink)];
    for (auto& [stream, fetch] : sink.fetches) {
      if (fetch.key == job.key) fetch.over = true;
    }
    sink.core.Cancel(job.key, absl::AbortedError("router"));
  }

  // One event or timer, then all actions that it causes.
  bool Step() {
    TimeNs timer = kNever;
    for (auto& source : sources_) timer = std::min(timer, source->core.NextTimer());
    for (auto& sink : sinks_) timer = std::min(timer, sink->core.NextTimer());
    if (timer == kNever && clock_.empty()) return false;
    if (!clock_.RunNext(std::max(clock_.Now(), timer))) {
      for (auto& source : sources_) source->core.OnTimer();
      for (auto& sink : sinks_) sink->core.OnTimer();
      // Sometimes the next timers are served late.
      if (Chance(30)) clock_.Advance(DelayOf(10));
    }
    for (size_t i = 0; i < sinks_.size(); ++i) {
      for (auto& action : sinks_[i]->core.TakeActions()) {
        std::visit([&](const auto& a) { Apply(static_cast<int>(i), *sinks_[i], a); }, action);
      }
    }
    for (size_t i = 0; i < sources_.size(); ++i) {
      for (auto& action : sources_[i]->core.TakeActions()) {
        std::visit([&](const auto& a) { Apply(static_cast<int>(i), *sources_[i], a); }, action);
      }
    }
    return true;
  }

  // The sink's actions.
  void Apply(int sink_index, Sink& sink, const OpenStream& action) {
    const int source_index = std::stoi(action.target);
    Source& source = *sources_[static_cast<size_t>(source_index)];
    Stream stream{
        .sink = sink_index, .source = source_index, .at_sink = action.stream, .at_source = ++source.last_stream};
    const size_t id = streams_.size();
    source.streams[stream.at_source] = id;
    streams_.push_back(stream);
    if (starting_.key != action.open.key) return Fail("OpenStream out of turn");
    sink.fetches[action.stream] = {
        .key = action.open.key, .blocks = starting_.blocks, .stream = id, .confirmed = clock_.Now()};
    ToSource(id, [this, id, open = action.open] { Core(id).OnFetchOpen(streams_[id].at_source, open); });
    if (Chance(10)) After(DelayOf(500), [this, id] { Cut(id); });
  }
  void Apply(int, Sink& sink, const SendRequest& action) {
    Fetching& fetch = sink.fetches.at(action.stream);
    const size_t id = fetch.stream;
    if (const auto* renew = std::get_if<FetchRenew>(&action.request)) {
      fetch.renewals[renew->sequence] = clock_.Now();
      ToSource(id, [this, id, message = *renew] { Core(id).OnFetchRenew(streams_[id].at_source, message); });
    } else {
      if (fetch.reads > 0) Fail("released with a read in flight");
      fetch.over = true;
      ToSource(id, [this, id] { Core(id).OnFetchRelease(streams_[id].at_source); });
    }
  }
  void Apply(int, Sink& sink, const FinishStream& action) {
    const size_t id = sink.fetches.at(action.stream).stream;
    ToSource(id, [this, id] { Core(id).OnFetchClosed(streams_[id].at_source); });
  }
  void Apply(int sink_index, Sink&, const ConnectPeer& action) {
    After(DelayOf(5), [this, sink_index, stream = action.stream] {
      const auto peer = Chance(3) ? absl::StatusOr<PeerId>(absl::UnavailableError("no route")) : PeerId{5};
      sinks_[static_cast<size_t>(sink_index)]->core.OnConnected(stream, peer);
    });
  }
  void Apply(int sink_index, Sink& sink, const StartRead& action) {
    Fetching& fetch = sink.fetches.at(action.stream);
    if (fetch.over) Fail("a read starts after the end");
    if (clock_.Now() >= fetch.confirmed + kPropertyLeaseMs * kNsPerMs / 4 * 3)
      Fail("a read starts in the lease's last quarter");
    ++fetch.reads;
    sink.reads[action.tag] = {.stream = action.stream, .fetch = action.fetch, .ranges = action.ranges};
    const TimeNs duration = Chance(3) ? DelayOf(800) : DelayOf(10);
    const bool fails = Chance(2);
    // The bytes move at two moments, so that memory may change between them.
    After(duration / 2, [this, sink_index, tag = action.tag] { CopyHalf(sink_index, tag, 0); });
    After(duration, [this, sink_index, tag = action.tag, fails] {
      CopyHalf(sink_index, tag, 1);
      Sink& reader = *sinks_[static_cast<size_t>(sink_index)];
      const bool refused = reader.reads.at(tag).refused;
      --reader.fetches.at(reader.reads.at(tag).stream).reads;
      reader.reads.erase(tag);
      reader.core.OnReadDone(tag, fails || refused ? absl::UnavailableError("lost") : absl::OkStatus());
    });
  }
  void CopyHalf(int sink_index, uint64_t tag, size_t half) {
    Sink& sink = *sinks_[static_cast<size_t>(sink_index)];
    ReadInFlight& read = sink.reads.at(tag);
    Source& source = *sources_[static_cast<size_t>(streams_[sink.fetches.at(read.stream).stream].source)];
    const bool has_stopped = !source.access.allowed.contains(read.fetch);
    if (owners_serve_reads_ && has_stopped) read.refused = true;
    if (read.refused) return;
    for (size_t i = half; i < read.ranges.size(); i += 2) {
      const CopyRange& range = read.ranges[i];
      if (!has_stopped && !source.access.Allows(read.fetch, {.offset = range.remote_offset, .bytes = range.bytes})) {
        Fail("a read of bytes that were not announced");
      }
      std::memcpy(sink.pool.bytes.data() + range.local_offset, source.pool.bytes.data() + range.remote_offset,
                  range.bytes);
      if (Chance(3)) sink.pool.bytes[range.local_offset] ^= 1;
    }
  }
  void Apply(int, Sink& sink, const Committed& action) {
    Fetching fetch = Ended(sink, action.key);
    const PlannedJob& job = jobs_.at(action.key);
    ++commits_;
    early_commits_ += action.early_bytes > 0 ? 1 : 0;
    if (action.first.token != static_cast<int32_t>(NumberOf(action.key))) Fail("wrong first token");
    for (int32_t i = 0; i < job.blocks() && !action.first.is_last(); ++i) {
      const std::vector<uint8_t> want(kPropertyBlockBytes, PlannedByte(job, i));
      if (std::memcmp(sink.pool.At(fetch.blocks[static_cast<size_t>(i)]), want.data(), kPropertyBlockBytes) != 0) {
        Fail("wrong bytes in block " + std::to_string(i));
      }
    }
    sink.pool.Free(fetch.blocks);
  }
  void Apply(int, Sink& sink, const FetchFailed& action) {
    if (action.status.ok()) Fail("failed with OK");
    if (action.status.code() == absl::StatusCode::kInternal) Fail("broke its own rules: " + action.status.ToString());
    ++failures_;
    sink.pool.Free(Ended(sink, action.key).blocks);
  }
  Fetching Ended(Sink& sink, const JobKey& key) {
    if (!ended_.insert(key).second) Fail("a fetch ends twice");
    for (const auto& [stream, fetch] : sink.fetches) {
      if (fetch.key != key) continue;
      if (fetch.reads > 0) Fail("a fetch ends with a read in flight");
      return fetch;
    }
    Fail("a fetch ends that was not started");
    return {};
  }

  // The source's actions.
  void Apply(int source_index, Source& source, const GrantLicence& action) {
    if (!source.ever_licensed.insert(action.key).second) return Fail("licensed twice");
    source.licensed[action.key] = {};
    After(DelayOf(20), [this, source_index, key = action.key] { Compute(source_index, key); });
  }
  void Compute(int source_index, const JobKey& key) {
    Source& source = *sources_[static_cast<size_t>(source_index)];
    const auto it = source.licensed.find(key);
    if (it == source.licensed.end() || it->second.stopped) return;
    const PlannedJob& job = jobs_.at(key);
    Licensed& work = it->second;
    if (work.blocks.empty()) work.blocks = source.pool.Take(job.blocks());
    if (!work.blocks.empty()) {
      if (Chance(3)) return source.core.OnFailed(key, absl::AbortedError("worker"));
      const int32_t token_blocks = BlocksForTokens(job.prompt_tokens);
      if (work.chunk_end == 0) {
        work.chunk_end = std::min(token_blocks, work.computed_tokens + 1 + static_cast<int32_t>(random_.Below(3)));
      }
      const int32_t until = job.groups.HandedOverBefore(work.chunk_end, job.prompt_tokens);
      if (work.quarters < 4 && Chance(50)) {
        ComputeQuarter(source, job, work, until);
        return After(DelayOf(5), [this, source_index, key] { Compute(source_index, key); });
      }
      BlocksReady ready;
      work.computed_tokens = std::exchange(work.chunk_end, 0);
      work.quarters = 0;
      for (; work.computed < until; ++work.computed) {
        const BlockId block = work.blocks[static_cast<size_t>(work.computed)];
        std::memset(source.pool.At(block), PlannedByte(job, work.computed), kPropertyBlockBytes);
        ready.blocks.push_back({.index = work.computed,
                                .offset = static_cast<uint64_t>(block) * kPropertyBlockBytes,
                                .digest = source.pool.blocks.Digest(block)});
      }
      if (!ready.blocks.empty()) source.core.OnBlocksComputed(key, ready);
      if (work.computed_tokens == token_blocks) {
        work.stopped = true;
        FetchComplete complete{.block_count = job.blocks()};
        complete.first.token = static_cast<int32_t>(NumberOf(key));
        complete.first.finish = job.ends_with_first_token ? FinishReason::kStop : FinishReason::kNone;
        return source.core.OnPromptFinished(key, complete);
      }
    }
    After(DelayOf(30), [this, source_index, key] { Compute(source_index, key); });
  }
  // The first layers of a chunk.
  void ComputeQuarter(Source& source, const PlannedJob& job, Licensed& work, int32_t until) {
    BlocksBegun begun;
    const uint64_t bytes = static_cast<uint64_t>(++work.quarters) * kPropertyBlockBytes / 4;
    for (int32_t i = work.computed; i < until; ++i) {
      const BlockId block = work.blocks[static_cast<size_t>(i)];
      std::memset(source.pool.At(block), PlannedByte(job, i), bytes);
      begun.blocks.push_back(
          {.index = i, .offset = static_cast<uint64_t>(block) * kPropertyBlockBytes, .bytes = bytes});
    }
    if (!begun.blocks.empty()) source.core.OnBlocksBegun(job.key, begun);
  }
  void Apply(int, Source& source, const Revoke& action) {
    if (auto it = source.licensed.find(action.key); it != source.licensed.end()) it->second.stopped = true;
  }
  void Apply(int source_index, Source& source, const ReleaseBlocks& action) {
    const auto it = source.licensed.find(action.key);
    if (it == source.licensed.end()) return Fail("blocks are released without a licence");
    for (auto& sink : sinks_) {
      for (const auto& [tag, read] : sink->reads) {
        const Fetching& fetch = sink->fetches.at(read.stream);
        if (fetch.key != action.key || streams_[fetch.stream].source != source_index) continue;
        if (!owners_serve_reads_ && clock_.Now() < fetch.confirmed + kPropertyLeaseMs * kNsPerMs)
          Fail("blocks are released under a reader's lease");
      }
    }
    if (source.access.allowed.contains(SecretOf(action.key))) Fail("blocks are released that may still be read");
    source.pool.Free(it->second.blocks);
    source.licensed.erase(it);
  }
  void Apply(int, Source& source, const SendReply& action) {
    const size_t id = source.streams.at(action.stream);
    ToSink(id, [this, id, reply = action.reply] {
      Sink& sink = *sinks_[static_cast<size_t>(streams_[id].sink)];
      if (const auto* renewed = std::get_if<FetchRenewed>(&reply)) {
        Fetching& fetch = sink.fetches.at(streams_[id].at_sink);
        fetch.confirmed = std::max(fetch.confirmed, fetch.renewals.at(renewed->sequence));
      }
      sink.core.OnReply(streams_[id].at_sink, reply);
    });
  }
  void Apply(int, Source& source, const CloseStream& action) {
    const size_t id = source.streams.at(action.stream);
    ToSink(id, [this, id, status = action.status] {
      streams_[id].cut = true;
      CloseAtSink(id, status);
    });
  }

  KvSource& Core(size_t id) { return sources_[static_cast<size_t>(streams_[id].source)]->core; }
  void CloseAtSink(size_t id, const absl::Status& status) {
    Sink& sink = *sinks_[static_cast<size_t>(streams_[id].sink)];
    sink.fetches.at(streams_[id].at_sink).over = true;
    sink.core.OnStreamClosed(streams_[id].at_sink, status);
  }
  void ToSource(size_t id, std::function<void()> run) { Deliver(id, streams_[id].last_to_source, std::move(run)); }
  void ToSink(size_t id, std::function<void()> run) { Deliver(id, streams_[id].last_to_sink, std::move(run)); }
  // Messages of one direction arrive in order. Those on their way when the stream is cut are lost.
  void Deliver(size_t id, TimeNs& last, std::function<void()> run) {
    last = std::max(last, clock_.Now() + NetworkDelay());
    At(last, [this, id, run = std::move(run)] {
      if (!streams_[id].cut) run();
    });
  }
  // Each end notices in its own time. Messages on their way are lost.
  void Cut(size_t id) {
    if (streams_[id].cut) return;
    streams_[id].cut = true;
    After(DelayOf(700), [this, id] { Core(id).OnFetchClosed(streams_[id].at_source); });
    After(DelayOf(700), [this, id] { CloseAtSink(id, absl::UnavailableError("cut")); });
  }

  void CheckQuiet() {
    for (auto& source : sources_) {
      if (source->core.open_jobs() != 0 || !source->licensed.empty()) Fail("a licence without its ReleaseBlocks");
      if (source->pool.free.size() != kPoolBlocks) Fail("blocks of a source are lost");
    }
    for (auto& sink : sinks_) {
      if (sink->core.open_jobs() != 0 || !sink->reads.empty()) Fail("a fetch is left");
      if (sink->pool.free.size() != kPoolBlocks) Fail("blocks of a sink are lost");
    }
    if (started_ != commits_ + failures_) Fail("a fetch has no end");
  }

  VirtualTime clock_;
  SeededRandom random_;
  // As over a network: a source that has stopped a reader gives its blocks up at once.
  const bool owners_serve_reads_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<Stream> streams_;
  std::map<JobKey, PlannedJob> jobs_;
  FetchSpec starting_;
  std::set<JobKey> ended_;
  int started_ = 0;
  int commits_ = 0;
  int early_commits_ = 0;
  int failures_ = 0;
  std::string error_;
};

TEST(HandoffPropertyTest, RulesHoldUnderRandomInterleavings) {
  constexpr uint64_t kSeeds = 1'000;
  int commits = 0;
  int early = 0;
  int failures = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    World world(seed);
    const std::string error = world.Run();
    ASSERT_EQ(error, "") << "seed " << seed;
    commits += world.commits();
    early += world.early_commits();
    failures += world.failures();
  }
  std::cout << kSeeds << " seeds from 1: " << commits << " commits, " << early << " of them early in part, " << failures
            << " failures\n";
  // The test needs many of both.
  EXPECT_GT(commits, static_cast<int>(kSeeds) * 5);
  EXPECT_GT(early, static_cast<int>(kSeeds));
  EXPECT_GT(failures, static_cast<int>(kSeeds) * 5);
}

}  // namespace
}  // namespace baton::kvtransfer
