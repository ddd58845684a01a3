#include "simulator/puller.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

namespace baton::simulator {
namespace {

// The other end of a broken stream notices within this time, perhaps only after the lease is over.
constexpr int64_t kMaxSinkNoticeMs = 700;
// The network cuts this share of the Fetch streams, each within kMaxCutMs of its opening.
constexpr int kCutPercent = 5;
constexpr int64_t kMaxCutMs = 60;
// A read takes this long, one in twenty much longer.
constexpr int64_t kMaxReadNs = 4 * kNsPerMs;
constexpr int64_t kMaxSlowReadNs = 600 * kNsPerMs;
// The piece of a copy, smaller than a block, so that a block is read in several pieces.
constexpr uint64_t kPieceBytes = 160;

}  // namespace

Puller::Puller(LoopProcess& process, PeerDirectory& directory)
    : process_(process),
      sim_(process.sim()),
      directory_(directory),
      sink_({.lease_ms = process.setup().lease_ms, .renew_ms = process.setup().renew_ms}, process.clock(),
            process.pool()) {}

void Puller::Start(const kvtransfer::FetchSpec& spec) {
  sim_.Acquire(spec.key, Hold::kDecodeBlocks);
  process_.Emit([this, spec] { RunSink([this, &spec] { sink_.Start(spec); }); });
}

void Puller::Cancel(const JobKey& key, const absl::Status& why) {
  process_.Emit([this, key, why] { RunSink([this, &key, &why] { sink_.Cancel(key, why); }); });
}

void Puller::OnReply(kvtransfer::FetchStreamId stream, const kvtransfer::FetchReply& reply) {
  process_.Reach([this, stream, reply] {
    if (streams_.contains(stream)) RunSink([this, stream, &reply] { sink_.OnReply(stream, reply); });
  });
}

void Puller::OnClosed(kvtransfer::FetchStreamId stream, const absl::Status& status) {
  process_.Reach([this, stream, status] {
    if (streams_.contains(stream)) RunSink([this, stream, &status] { sink_.OnStreamClosed(stream, status); });
  });
}

void Puller::RunSink(const Task& task) {
  task();
  for (auto actions = sink_.TakeActions(); !actions.empty(); actions = sink_.TakeActions()) {
    for (const kvtransfer::SinkAction& action : actions) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
  }
  ScheduleSinkTimer();
}

void Puller::ScheduleSinkTimer() {
  const TimeNs at = std::max(process_.clock().ToVirtual(sink_.NextTimer()), sim_.queue.Now());
  if (at >= next_sink_timer_) return;
  next_sink_timer_ = at;
  // At times the timer is served a little late.
  process_.At(at + (sim_.Chance(20) ? sim_.MsBetween(0, 5) : 0), [this, at] {
    if (next_sink_timer_ != at) return;
    next_sink_timer_ = kNever;
    RunSink([this] { sink_.OnTimer(); });
  });
}

void Puller::Handle(const kvtransfer::OpenStream& action) {
  auto stream = std::make_shared<FetchStream>();
  stream->key = action.open.key;
  stream->sink = this;
  stream->at_sink = action.stream;
  streams_[action.stream] = stream;
  stream->target = action.target;
  if (sim_.Chance(kCutPercent) && sim_.weather.cuts_streams) {
    sim_.queue.After(sim_.MsBetween(0, kMaxCutMs), [this, stream] { CutFetch(stream); });
  }
  if (const PairCut* const cut = sim_.FindCut(action.target, process_.setup().target)) {
    sim_.cut_jobs.insert(stream->key.job);
    // Nothing connects, and the reader hears of that; or what it sends is lost.
    if (cut->to_source && cut->to_reader) return CutFetch(stream);
    Deafen(*stream, *cut);
  }
  if (stream->source_is_deaf) return;
  stream->to_source.Send(sim_, [this, stream, target = action.target, open = action.open] {
    if (stream->cut || stream->source_is_deaf) return;
    FetchServer* source = directory_.FindSource(target);
    if (source != nullptr) {
      source->OnOpen(stream, open);
      if (sim_.Twice()) OpenTwice(stream, open);
      return;
    }
    stream->to_sink.Send(
        sim_, [this, stream] { OnClosed(stream->at_sink, absl::UnavailableError("no prefill worker listens there")); });
  });
}

void Puller::OpenTwice(const std::shared_ptr<FetchStream>& stream, const kvtransfer::FetchOpen& open) {
  auto twin = std::make_shared<FetchStream>();
  twin->key = stream->key;
  twin->sink = this;
  twin->target = stream->target;
  FetchServer* const source = stream->source;
  twin->to_source.SendLater(sim_, sim_.MsBetween(0, kMaxCutMs), [source, twin, open] { source->OnOpen(twin, open); });
  twin->to_source.SendLater(sim_, sim_.MsBetween(0, kMaxSinkNoticeMs), [source, twin] { source->OnFinished(twin); });
}

void Puller::SendToSource(const std::shared_ptr<FetchStream>& stream, std::function<void(FetchServer&)> handle) {
  if (stream->source_is_deaf) return;
  stream->to_source.Send(sim_, [stream, handle = std::move(handle)] {
    if (stream->source != nullptr && !stream->cut && !stream->source_is_deaf) handle(*stream->source);
  });
}

void Puller::Handle(const kvtransfer::SendRequest& action) {
  const std::shared_ptr<FetchStream> stream = streams_.at(action.stream);
  SendToSource(stream, [stream, request = action.request](FetchServer& source) { source.OnRequest(stream, request); });
}

void Puller::Handle(const kvtransfer::FinishStream& action) {
  const auto it = streams_.find(action.stream);
  const std::shared_ptr<FetchStream> stream = it->second;
  streams_.erase(it);
  SendToSource(stream, [stream](FetchServer& source) { source.OnFinished(stream); });
}

void Puller::Handle(const kvtransfer::ConnectPeer& action) {
  LoopProcess* peer = directory_.FindMemory(action.address);
  const kvtransfer::PeerId id = peers_.size() + 1;
  peers_[id] = peer;
  process_.After(sim_.Between(0, kMaxReadNs), [this, stream = action.stream, id, peer] {
    const bool reachable = peer->alive() || sim_.Chance(50);
    RunSink([&] {
      sink_.OnConnected(stream, reachable ? absl::StatusOr<kvtransfer::PeerId>(id)
                                          : absl::UnavailableError("the peer cannot be reached"));
    });
  });
}

void Puller::Handle(const kvtransfer::StartRead& action) {
  ++sim_.counts.reads;
  const FetchStream& stream = *streams_.at(action.stream);
  sim_.Acquire(stream.key, Hold::kPullSlot);
  ++reads_in_flight_;
  LoopProcess* peer = peers_.at(action.peer);
  const bool unreachable = sim_.FindCut(stream.target, process_.setup().target) != nullptr;
  if (unreachable || sim_.queue.Now() < sim_.weather.damages_until) sim_.cut_jobs.insert(stream.key.job);
  const int64_t duration = sim_.Between(20'000, sim_.Chance(5) ? kMaxSlowReadNs : kMaxReadNs);
  for (const kvtransfer::CopyRange& range : action.ranges) {
    for (uint64_t done = 0; done < range.bytes && !unreachable; done += kPieceBytes) {
      const kvtransfer::CopyRange piece{.remote_offset = range.remote_offset + done,
                                        .local_offset = range.local_offset + done,
                                        .bytes = std::min(kPieceBytes, range.bytes - done)};
      process_.After(sim_.Between(0, duration), [this, peer, piece] { Copy(*peer, piece); });
    }
  }
  process_.After(duration, [this, peer, unreachable, tag = action.tag] {
    --reads_in_flight_;
    const bool lost = unreachable || (!peer->alive() && sim_.Chance(50));
    RunSink([&] { sink_.OnReadDone(tag, lost ? absl::UnavailableError("the peer is gone") : absl::OkStatus()); });
  });
}

void Puller::Copy(LoopProcess& peer, const kvtransfer::CopyRange& range) {
  uint8_t* const to = process_.memory().data() + range.local_offset;
  std::memcpy(to, peer.memory().data() + range.remote_offset, range.bytes);
  if (sim_.Damages()) to[sim_.Between(0, static_cast<int64_t>(range.bytes) - 1)] ^= 1 << sim_.Between(0, 7);
}

void Puller::Handle(const kvtransfer::Committed& action) {
  sim_.counts.early += action.early_bytes > 0 ? 1 : 0;
  process_.PostToLoop([this, action] { process_.worker().receiver().OnCommitted(action); });
}

void Puller::Handle(const kvtransfer::FetchFailed& action) {
  sim_.Trace(process_.setup().target, ": fetch ", action.key.ToString(), " failed: ", action.status.ToString());
  process_.PostToLoop([this, action] { process_.worker().receiver().OnFetchFailed(action); });
}

void Puller::Deafen(FetchStream& stream, const PairCut& cut) {
  stream.source_is_deaf |= cut.to_source;
  stream.sink_is_deaf |= cut.to_reader;
}

void Puller::OnPairCut(const PairCut& cut) {
  std::vector<std::shared_ptr<FetchStream>> felt;
  for (const auto& [id, stream] : streams_) {
    if (stream->target == cut.source) felt.push_back(stream);
  }
  for (const std::shared_ptr<FetchStream>& stream : felt) {
    sim_.cut_jobs.insert(stream->key.job);
    cut.to_source&& cut.to_reader ? CutFetch(stream) : Deafen(*stream, cut);
  }
}

// Each end notices in its own time.
void Puller::CutFetch(const std::shared_ptr<FetchStream>& stream) {
  if (!process_.alive() || !streams_.contains(stream->at_sink)) return;
  sim_.Trace("the Fetch stream of ", stream->key.ToString(), " is cut");
  ++sim_.counts.cut_streams;
  sim_.cut_jobs.insert(stream->key.job);
  stream->cut = true;
  sim_.queue.After(sim_.MsBetween(0, kMaxSinkNoticeMs), [stream] {
    if (stream->source != nullptr) stream->source->OnFinished(stream);
  });
  sim_.queue.After(sim_.MsBetween(0, kMaxSinkNoticeMs),
                   [this, stream] { OnClosed(stream->at_sink, absl::UnavailableError("the stream was cut")); });
}

void Puller::CutStreams() {
  for (const auto& [id, stream] : streams_) {
    stream->to_source.SendLater(sim_, sim_.MsBetween(0, kMaxSinkNoticeMs), [stream = stream] {
      if (stream->source != nullptr) stream->source->OnFinished(stream);
    });
  }
  streams_.clear();
}

void Puller::CheckQuiet() const {
  const std::string& who = process_.setup().target;
  if (sink_.open_jobs() != 0) sim_.Fail(absl::StrCat(who, " still fetches"));
  if (reads_in_flight_ != 0) sim_.Fail(absl::StrCat(who, " still reads"));
  if (!streams_.empty()) sim_.Fail(absl::StrCat(who, " has ", streams_.size(), " Fetch streams open"));
}

}  // namespace baton::simulator
