#include "simulator/decode_node.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

namespace baton::simulator {
namespace {

// The other end of a broken stream notices within this time, perhaps only after the lease is over.
constexpr int64_t kMaxDecodeNoticeMs = 700;
// The network cuts this share of the Fetch streams, each within kMaxCutMs of its opening.
constexpr int kCutPercent = 5;
constexpr int64_t kMaxCutMs = 60;
// A read takes this long, one in twenty much longer.
constexpr int64_t kMaxReadNs = 4 * kNsPerMs;
constexpr int64_t kMaxSlowReadNs = 600 * kNsPerMs;
// The piece of a copy, smaller than a block, so that a block is read in several pieces.
constexpr uint64_t kPieceBytes = 160;

}  // namespace

DecodeNode::DecodeNode(Simulation& sim, RouterNode& router, PeerDirectory& directory, const WorkerSetup& setup)
    : WorkerNode(sim, router, setup),
      directory_(directory),
      sink_({.lease_ms = setup.lease_ms, .renew_ms = setup.renew_ms}, sim.queue, pool_),
      core_({}, worker_, *this) {
  worker_.MakeLoop();
}

void DecodeNode::OpenPrefill(const std::shared_ptr<Call>&, WorkerJob, bool) {
  sim_.Fail("a decode worker is asked to prefill for another");
}

void DecodeNode::OpenDecode(const std::shared_ptr<Call>& call, WorkerJob job,
                            const decode_worker::DecodeSource& source) {
  AddCall(call);
  PostToLoop([this, job = std::move(job), source] { core_.OnDecode(job, source); });
}

void DecodeNode::CancelJob(const JobKey& key) { core_.OnCancel(key, absl::CancelledError("the router cancelled")); }

void DecodeNode::Start(const kvtransfer::FetchSpec& spec) {
  sim_.Acquire(spec.key, Hold::kDecodeBlocks);
  Emit([this, spec] { RunSink([this, &spec] { sink_.Start(spec); }); });
}

void DecodeNode::Cancel(const JobKey& key, const absl::Status& why) {
  Emit([this, key, why] { RunSink([this, &key, &why] { sink_.Cancel(key, why); }); });
  if (sim_.bug != PlantedBug::kFreedTwice) return;
  if (freed_early_.insert(key).second) {
    PostToLoop([this, key, why] { core_.OnFetchFailed({key, why}); });
  }
}

void DecodeNode::OnReply(kvtransfer::FetchStreamId stream, const kvtransfer::FetchReply& reply) {
  if (!alive() || !streams_.contains(stream)) return;
  RunSink([this, stream, &reply] { sink_.OnReply(stream, reply); });
}

void DecodeNode::OnClosed(kvtransfer::FetchStreamId stream, const absl::Status& status) {
  if (!alive() || !streams_.contains(stream)) return;
  RunSink([this, stream, &status] { sink_.OnStreamClosed(stream, status); });
}

void DecodeNode::RunSink(const Task& task) {
  task();
  for (auto actions = sink_.TakeActions(); !actions.empty(); actions = sink_.TakeActions()) {
    for (const kvtransfer::SinkAction& action : actions) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
  }
  ScheduleSinkTimer();
}

void DecodeNode::ScheduleSinkTimer() {
  const TimeNs at = std::max(sink_.NextTimer(), sim_.queue.Now());
  if (at >= next_sink_timer_) return;
  next_sink_timer_ = at;
  // At times the timer is served a little late.
  sim_.queue.At(at + (sim_.Chance(20) ? sim_.MsBetween(0, 5) : 0), [this, at] {
    if (!alive() || next_sink_timer_ != at) return;
    next_sink_timer_ = kNever;
    RunSink([this] { sink_.OnTimer(); });
  });
}

void DecodeNode::Handle(const kvtransfer::OpenStream& action) {
  auto stream = std::make_shared<FetchStream>();
  stream->key = action.open.key;
  stream->sink = this;
  stream->at_sink = action.stream;
  streams_[action.stream] = stream;
  if (sim_.Chance(kCutPercent)) {
    sim_.queue.After(sim_.MsBetween(0, kMaxCutMs), [this, stream] { CutFetch(stream); });
  }
  stream->to_source.Send(sim_, [this, stream, target = action.target, open = action.open] {
    if (stream->cut) return;
    PrefillNode* source = directory_.FindPrefill(target);
    if (source != nullptr) return source->OpenFetch(stream, open);
    stream->to_sink.Send(
        sim_, [this, stream] { OnClosed(stream->at_sink, absl::UnavailableError("no prefill worker listens there")); });
  });
}

void DecodeNode::Handle(const kvtransfer::SendRequest& action) {
  const std::shared_ptr<FetchStream> stream = streams_.at(action.stream);
  stream->to_source.Send(sim_, [stream, request = action.request] {
    if (stream->source != nullptr && !stream->cut) stream->source->OnFetchRequest(stream, request);
  });
}

void DecodeNode::Handle(const kvtransfer::FinishStream& action) {
  const auto it = streams_.find(action.stream);
  const std::shared_ptr<FetchStream> stream = it->second;
  streams_.erase(it);
  stream->to_source.Send(sim_, [stream] {
    if (stream->source != nullptr && !stream->cut) stream->source->OnFetchFinished(stream);
  });
}

void DecodeNode::Handle(const kvtransfer::ConnectPeer& action) {
  PrefillNode* peer = directory_.FindMemory(action.address);
  const kvtransfer::PeerId id = peers_.size() + 1;
  peers_[id] = peer;
  sim_.queue.After(sim_.Between(0, kMaxReadNs), [this, stream = action.stream, id, peer] {
    if (!alive()) return;
    const bool reachable = peer->alive() || sim_.Chance(50);
    RunSink([&] {
      sink_.OnConnected(stream, reachable ? absl::StatusOr<kvtransfer::PeerId>(id)
                                          : absl::UnavailableError("the peer cannot be reached"));
    });
  });
}

void DecodeNode::Handle(const kvtransfer::StartRead& action) {
  ++sim_.counts.reads;
  sim_.Acquire(streams_.at(action.stream)->key, Hold::kPullSlot);
  ++reads_in_flight_;
  PrefillNode* peer = peers_.at(action.peer);
  const int64_t duration = sim_.Between(20'000, sim_.Chance(5) ? kMaxSlowReadNs : kMaxReadNs);
  for (const kvtransfer::CopyRange& range : action.ranges) {
    for (uint64_t done = 0; done < range.bytes; done += kPieceBytes) {
      const kvtransfer::CopyRange piece{.remote_offset = range.remote_offset + done,
                                        .local_offset = range.local_offset + done,
                                        .bytes = std::min(kPieceBytes, range.bytes - done)};
      sim_.queue.After(sim_.Between(0, duration), [this, peer, piece] { Copy(*peer, piece); });
    }
  }
  sim_.queue.After(duration, [this, peer, tag = action.tag] {
    if (!alive()) return;
    --reads_in_flight_;
    const bool lost = !peer->alive() && sim_.Chance(50);
    RunSink([&] { sink_.OnReadDone(tag, lost ? absl::UnavailableError("the peer is gone") : absl::OkStatus()); });
  });
}

void DecodeNode::Copy(PrefillNode& peer, const kvtransfer::CopyRange& range) {
  if (!alive()) return;
  std::memcpy(memory().data() + range.local_offset, peer.memory().data() + range.remote_offset, range.bytes);
}

void DecodeNode::Handle(const kvtransfer::Committed& action) {
  if (freed_early_.contains(action.key)) return;
  PostToLoop([this, action] {
    if (!freed_early_.contains(action.key)) core_.OnCommitted(action);
  });
}

void DecodeNode::Handle(const kvtransfer::FetchFailed& action) {
  sim_.Trace(setup_.target, ": fetch ", action.key.ToString(), " failed: ", action.status.ToString());
  if (freed_early_.contains(action.key)) return;
  PostToLoop([this, action] {
    if (!freed_early_.contains(action.key)) core_.OnFetchFailed(action);
  });
}

// Each end notices in its own time.
void DecodeNode::CutFetch(const std::shared_ptr<FetchStream>& stream) {
  if (!alive() || !streams_.contains(stream->at_sink)) return;
  sim_.Trace("the Fetch stream of ", stream->key.ToString(), " is cut");
  ++sim_.counts.cut_streams;
  sim_.cut_jobs.insert(stream->key.job);
  stream->cut = true;
  sim_.queue.After(sim_.MsBetween(0, kMaxDecodeNoticeMs), [stream] {
    if (stream->source != nullptr) stream->source->OnFetchFinished(stream);
  });
  sim_.queue.After(sim_.MsBetween(0, kMaxDecodeNoticeMs),
                   [this, stream] { OnClosed(stream->at_sink, absl::UnavailableError("the stream was cut")); });
}

void DecodeNode::CutStreams() {
  for (const auto& [id, stream] : streams_) {
    stream->to_source.SendLater(sim_, sim_.MsBetween(0, kMaxDecodeNoticeMs), [stream = stream] {
      if (stream->source != nullptr) stream->source->OnFetchFinished(stream);
    });
  }
  streams_.clear();
}

void DecodeNode::CheckQuiet() const {
  WorkerNode::CheckQuiet();
  if (core_.job_count() != 0) sim_.Fail(absl::StrCat(setup_.target, " still has a job"));
  if (sink_.open_jobs() != 0) sim_.Fail(absl::StrCat(setup_.target, " still fetches"));
  if (reads_in_flight_ != 0) sim_.Fail(absl::StrCat(setup_.target, " still reads"));
  if (!streams_.empty()) sim_.Fail(absl::StrCat(setup_.target, " has ", streams_.size(), " Fetch streams open"));
}

}  // namespace baton::simulator
