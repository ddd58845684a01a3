// A KvSink whose sources and transport do what a fuzzer's input says: sources may say anything at any time, while the
// transfer thread around the sink keeps to its rules. Every action is checked as it comes. For fuzzers.
#ifndef BATON_KVTRANSFER_TESTING_FUZZED_SINK_H_
#define BATON_KVTRANSFER_TESTING_FUZZED_SINK_H_

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.h"
#include "common/testing/fuzz_input.h"
#include "common/testing/manual_clock.h"
#include "kvtransfer/kv_sink.h"
#include "kvtransfer/rpc/fetch_wire.h"
#include "kvtransfer/testing/describe_handoff.h"

namespace baton::kvtransfer {

class FuzzedSink {
 public:
  explicit FuzzedSink(FuzzInput& input) : input_(input) {
    for (BlockId block = 0; block < kPoolBlocks; ++block) free_.insert(block);
  }

  void Run() {
    while (!input_.empty()) {
      Step();
      Settle();
    }
    EndAll();
  }

 private:
  static constexpr int kJobs = 4;
  static constexpr int kMostBlocks = 6;
  static constexpr BlockId kPoolBlocks = 16;
  static constexpr uint64_t kBlockBytes = 64;

  struct Fetch {
    FetchSpec spec;
    bool stream_lives = true;
    bool released = false;
    // Committed or FetchFailed has come; FinishStream follows at once.
    bool ended = false;
    int reads = 0;
    int32_t announced = 0;
    std::map<int32_t, Digest128> digests = {};
    // The beginnings that were named last.
    std::map<int32_t, uint64_t> begun = {};
    // The lease counts from here.
    TimeNs confirmed = 0;
    std::map<uint64_t, TimeNs> renewals = {};
  };
  struct Read {
    FetchStreamId stream = 0;
    PeerId peer = 0;
    std::vector<CopyRange> ranges;
  };

  static KvSinkOptions Options() {
    KvSinkOptions options;
    options.lease_ms = 2'000;
    options.max_blocks_per_read = 2;
    options.max_reads_per_peer = 2;
    options.max_rereads = 1;
    return options;
  }

  // 0: none.
  FetchStreamId DrawFetch() {
    if (fetches_.empty()) return 0;
    return std::next(fetches_.begin(), input_.Below(kJobs) % static_cast<int>(fetches_.size()))->first;
  }

  void Step() {
    switch (input_.Below(9)) {
      case 0:
        return Start();
      case 1:
        return core_.Cancel(KeyOf(1 + static_cast<uint64_t>(input_.Below(kJobs))), absl::AbortedError("router"));
      case 2:
        return Say(DrawFetch(), ToProto(DrawAccepted()));
      case 3:
        return Say(DrawFetch());
      case 4:
        return Say(DrawFetch(), ToProto(FetchReply(DrawRenewed())));
      case 5:
        return SayComplete(DrawFetch());
      case 6:
        return Connect();
      case 7:
        return EndRead();
      default:
        return Other();
    }
  }

  void Other() {
    const FetchStreamId stream = DrawFetch();
    if (!input_.Rarely()) {
      clock_.AdvanceMs(int64_t{8} * input_.Byte());
      return RunTimers();
    }
    if (input_.Flag()) return CloseStream(stream, input_.Flag() ? absl::OkStatus() : absl::UnavailableError("cut"));
    internal::v1::FetchResponse any;
    if (any.ParseFromString(input_.Text(128))) Say(stream, any);
  }

  void Start() {
    const JobKey key = KeyOf(1 + static_cast<uint64_t>(input_.Below(kJobs)));
    const int32_t count = input_.Below(kMostBlocks);
    FetchSpec spec{.key = key,
                   .secret = SecretOf(key),
                   .source_target = "source:1",
                   .source = kSourceIncarnation,
                   .fingerprint = "same",
                   .deadline = input_.Flag() ? kNever : After(clock_.Now(), 20 * int64_t{input_.Byte()}),
                   .first_block = input_.Rarely() ? input_.Below(count + 1) : 0,
                   .first_output = input_.Rarely() ? 3 : 0,
                   .blocks = {}};
    const auto is_here = [&](const auto& fetch) { return fetch.second.spec.key == key; };
    if (std::any_of(fetches_.begin(), fetches_.end(), is_here) || free_.size() < static_cast<size_t>(count)) return;
    while (static_cast<int32_t>(spec.blocks.size()) < count) {
      spec.blocks.push_back(free_.extract(free_.begin()).value());
    }
    fetches_[++last_stream_] = {.spec = spec, .confirmed = clock_.Now()};
    core_.Start(spec);
  }

  FetchReply DrawAccepted() {
    if (!input_.Rarely()) return FetchAccepted{"address", kBlockBytes};
    return FetchAccepted{input_.Text(16), input_.Flag() ? kBlockBytes : input_.Hostile<uint64_t>()};
  }
  FetchRenewed DrawRenewed() { return {.sequence = input_.Hostile<uint64_t>()}; }

  // The next blocks of a prompt, of which few are wrong in some way.
  void Say(FetchStreamId stream) {
    const auto it = fetches_.find(stream);
    if (it == fetches_.end()) return;
    Fetch& fetch = it->second;
    if (input_.Rarely()) return SayBegun(stream, fetch);
    BlocksReady ready;
    for (int count = input_.Below(4); count > 0; --count) {
      const int32_t index = std::max(fetch.spec.first_block, fetch.announced);
      BlockReady block{.index = index, .offset = static_cast<uint64_t>(index) * kBlockBytes};
      block.digest = DigestOf(fetch, index);
      if (input_.Rarely()) block.index = input_.Hostile<int32_t>();
      if (input_.Rarely()) block.offset = input_.Hostile<uint64_t>() * (input_.Flag() ? kBlockBytes : 1);
      if (input_.Rarely()) block.digest.low ^= 1;
      fetch.announced = index + 1;
      fetch.digests.emplace(block.index, block.digest);
      ready.blocks.push_back(block);
    }
    Say(stream, ToProto(FetchReply(ready)));
  }

  // The beginnings of the next blocks, of which few are wrong in some way.
  void SayBegun(FetchStreamId stream, Fetch& fetch) {
    BlocksBegun begun;
    const int32_t first = std::max(fetch.spec.first_block, fetch.announced);
    const int32_t end = std::min(first + input_.Below(4), static_cast<int32_t>(fetch.spec.blocks.size()));
    for (int32_t index = first; index < end; ++index) {
      uint64_t& begun_bytes = fetch.begun[index];
      begun_bytes = std::min(begun_bytes + 1 + static_cast<uint64_t>(input_.Below(32)), kBlockBytes);
      BlockBegun block{.index = index, .offset = static_cast<uint64_t>(index) * kBlockBytes, .bytes = begun_bytes};
      if (input_.Rarely()) block.index = input_.Hostile<int32_t>();
      if (input_.Rarely()) block.offset = input_.Hostile<uint64_t>();
      if (input_.Rarely()) block.bytes = input_.Hostile<uint64_t>();
      begun.blocks.push_back(block);
    }
    Say(stream, ToProto(FetchReply(begun)));
  }

  void SayComplete(FetchStreamId stream) {
    const auto it = fetches_.find(stream);
    if (it == fetches_.end()) return;
    const FetchSpec& spec = it->second.spec;
    FetchComplete complete{.block_count = static_cast<int32_t>(spec.blocks.size()),
                           .first = {.index = spec.first_output, .token = input_.Byte()}};
    if (input_.Rarely()) complete.first.finish = FinishReason::kStop;
    if (input_.Rarely()) complete.block_count = input_.Hostile<int32_t>();
    if (input_.Rarely()) complete.first.index = input_.Hostile<int32_t>();
    Say(stream, ToProto(FetchReply(complete)));
  }

  // As FetchClient does with what comes from a source. Nothing comes once the stream is closed.
  void Say(FetchStreamId stream, const internal::v1::FetchResponse& proto) {
    const auto it = fetches_.find(stream);
    const bool closed = it != fetches_.end() && !it->second.stream_lives;
    const absl::StatusOr<FetchReply> reply = FromProto(proto);
    if (!reply.ok()) return CloseStream(stream, reply.status());
    if (closed) return;
    const auto* renewed = std::get_if<FetchRenewed>(&*reply);
    if (renewed != nullptr && it != fetches_.end() && it->second.renewals.contains(renewed->sequence)) {
      it->second.confirmed = std::max(it->second.confirmed, it->second.renewals.at(renewed->sequence));
    }
    core_.OnReply(stream, *reply);
  }

  void CloseStream(FetchStreamId stream, const absl::Status& status) {
    const auto it = fetches_.find(stream);
    if (it == fetches_.end() || !std::exchange(it->second.stream_lives, false)) return;
    core_.OnStreamClosed(stream, status);
  }

  void Connect() {
    if (connecting_.empty()) return;
    const FetchStreamId stream = *connecting_.begin();
    connecting_.erase(stream);
    if (input_.Rarely()) return core_.OnConnected(stream, absl::UnavailableError("no route"));
    core_.OnConnected(stream, PeerId{1} + static_cast<PeerId>(input_.Below(2)));
  }

  // The transport writes the blocks of a read, and says so.
  void EndRead() {
    if (reads_.empty()) return;
    const auto it = std::next(reads_.begin(), input_.Below(8) % static_cast<int>(reads_.size()));
    const uint64_t tag = it->first;
    const Read read = std::move(it->second);
    reads_.erase(it);
    Fetch& fetch = fetches_.at(read.stream);
    --fetch.reads;
    const bool damaged = input_.Rarely();
    for (const CopyRange& range : read.ranges) {
      for (uint64_t at = range.local_offset; at < range.local_offset + range.bytes; ++at) {
        memory_[at] = ByteOf(fetch, IndexOf(fetch, static_cast<BlockId>(at / kBlockBytes)));
      }
      if (damaged) memory_[range.local_offset] ^= 1;
    }
    core_.OnReadDone(tag, input_.Rarely() ? absl::UnavailableError("lost") : absl::OkStatus());
  }

  static uint8_t ByteOf(const Fetch& fetch, int32_t index) {
    return static_cast<uint8_t>(NumberOf(fetch.spec.key) * 16 + static_cast<uint64_t>(index));
  }
  static Digest128 DigestOf(const Fetch& fetch, int32_t index) {
    const std::vector<uint8_t> bytes(kBlockBytes, ByteOf(fetch, index));
    return DigestBytes(bytes.data(), bytes.size());
  }
  static int32_t IndexOf(const Fetch& fetch, BlockId block) {
    const auto at = std::find(fetch.spec.blocks.begin(), fetch.spec.blocks.end(), block);
    BATON_CHECK(at != fetch.spec.blocks.end()) << "block " << block << " is another's";
    return static_cast<int32_t>(at - fetch.spec.blocks.begin());
  }

  void RunTimers() {
    if (core_.NextTimer() <= clock_.Now()) core_.OnTimer();
    BATON_CHECK(core_.NextTimer() > clock_.Now()) << "the loop would spin";
  }

  void Settle() {
    for (const SinkAction& action : core_.TakeActions()) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
    BATON_CHECK(core_.open_jobs() == static_cast<int32_t>(fetches_.size()));
  }

  void Handle(const OpenStream& action) { BATON_CHECK(action.open.secret == fetches_.at(action.stream).spec.secret); }
  void Handle(const ConnectPeer& action) {
    BATON_CHECK(!fetches_.at(action.stream).ended);
    connecting_.insert(action.stream);
  }
  void Handle(const SendRequest& action) {
    Fetch& fetch = fetches_.at(action.stream);
    BATON_CHECK(fetch.stream_lives && !fetch.released) << "a request on a stream that is over";
    if (const auto* renew = std::get_if<FetchRenew>(&action.request)) {
      fetch.renewals[renew->sequence] = clock_.Now();
    } else {
      BATON_CHECK(fetch.reads == 0) << "released with a read in flight";
      fetch.released = true;
    }
  }
  void Handle(const StartRead& action) {
    Fetch& fetch = fetches_.at(action.stream);
    const KvSinkOptions options = Options();
    BATON_CHECK(!fetch.ended && !fetch.released) << "a read starts after the end";
    BATON_CHECK(clock_.Now() < fetch.confirmed + options.lease_ms * kNsPerMs / 4 * 3) << "in the lease's last quarter";
    const Read read{.stream = action.stream, .peer = action.peer, .ranges = action.ranges};
    std::set<BlockId> blocks;
    for (const CopyRange& range : action.ranges) {
      BATON_CHECK(range.bytes > 0 && range.remote_offset % kBlockBytes == range.local_offset % kBlockBytes);
      BATON_CHECK(range.remote_offset <= std::numeric_limits<uint64_t>::max() - range.bytes);
      for (uint64_t at = range.local_offset; at < range.local_offset + range.bytes; ++at) {
        blocks.insert(static_cast<BlockId>(at / kBlockBytes));
      }
    }
    for (const BlockId block : blocks) {
      BATON_CHECK(IndexOf(fetch, block) >= fetch.spec.first_block) << "a block that was in place";
    }
    BATON_CHECK(blocks.size() <= static_cast<size_t>(options.max_blocks_per_read));
    CheckNobodyWrites(read);
    ++fetch.reads;
    BATON_CHECK(reads_.emplace(action.tag, read).second) << "a tag twice";
  }
  void CheckNobodyWrites(const Read& read) {
    int of_peer = 1;
    for (const auto& [tag, other] : reads_) {
      if (other.peer == read.peer) ++of_peer;
      for (const CopyRange& theirs : other.ranges) {
        for (const CopyRange& ours : read.ranges) {
          BATON_CHECK(theirs.local_offset + theirs.bytes <= ours.local_offset ||
                      ours.local_offset + ours.bytes <= theirs.local_offset)
              << "two reads write what lies at " << ours.local_offset;
        }
      }
    }
    BATON_CHECK(of_peer <= Options().max_reads_per_peer) << of_peer;
  }
  void Handle(const Committed& action) {
    Fetch& fetch = fetches_.at(action.stream);
    BATON_CHECK(action.bytes >= 0 && action.tail_ns >= 0 && action.read_ns >= 0 && action.damaged_blocks >= 0);
    BATON_CHECK(action.first.index == fetch.spec.first_output) << action.first.index;
    for (size_t i = static_cast<size_t>(fetch.spec.first_block); i < fetch.spec.blocks.size(); ++i) {
      if (action.first.is_last()) break;
      const auto said = fetch.digests.find(static_cast<int32_t>(i));
      BATON_CHECK(said != fetch.digests.end() && pool_.Digest(fetch.spec.blocks[i]) == said->second)
          << "block " << i << " is committed and was not verified";
    }
    End(fetch, action.key);
  }
  void Handle(const FetchFailed& action) {
    BATON_CHECK(!action.status.ok());
    End(fetches_.at(action.stream), action.key);
  }
  void End(Fetch& fetch, const JobKey& key) {
    BATON_CHECK(fetch.spec.key == key && !std::exchange(fetch.ended, true)) << "a fetch ends twice";
    BATON_CHECK(fetch.reads == 0) << "a fetch ends with a read in flight";
    BATON_CHECK(fetch.released == fetch.stream_lives) << "the source is told when its stream lives";
  }
  void Handle(const FinishStream& action) {
    const Fetch& fetch = fetches_.at(action.stream);
    BATON_CHECK(fetch.ended) << "a stream is finished without the end of its fetch";
    free_.insert(fetch.spec.blocks.begin(), fetch.spec.blocks.end());
    fetches_.erase(action.stream);
  }

  void EndAll() {
    while (!connecting_.empty() || !reads_.empty()) {
      Connect();
      EndRead();
      Settle();
    }
    constexpr int kMaxTimers = 10'000;
    for (int i = 0; core_.NextTimer() != kNever; ++i) {
      BATON_CHECK(i < kMaxTimers) << "the sink does not come to rest";
      clock_.Set(std::max(clock_.Now(), core_.NextTimer()));
      RunTimers();
      Settle();
    }
    BATON_CHECK(fetches_.empty() && free_.size() == kPoolBlocks) << "a fetch is left";
  }

  FuzzInput& input_;
  ManualClock clock_;
  uint8_t memory_[kPoolBlocks * kBlockBytes] = {};
  HostKvPool pool_{absl::MakeSpan(memory_), kBlockBytes};
  KvSink core_{Options(), clock_, pool_};
  std::set<BlockId> free_;
  // Fetches that have not ended. The sink counts its streams from 1.
  std::map<FetchStreamId, Fetch> fetches_;
  FetchStreamId last_stream_ = 0;
  std::map<uint64_t, Read> reads_;
  std::set<FetchStreamId> connecting_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_FUZZED_SINK_H_
