#include "simulator/prefill_node.h"

#include <utility>
#include <variant>

#include "common/check.h"

namespace baton::simulator {
namespace {

// The reader of a dead process's stream notices within this time.
constexpr int64_t kMaxPrefillNoticeMs = 500;

}  // namespace

PrefillNode::PrefillNode(Simulation& sim, RouterNode& router, const WorkerSetup& setup)
    : WorkerNode(sim, router, setup), core_(worker_, *this) {
  worker_.MakeLoop();
}

void PrefillNode::OpenPrefill(const std::shared_ptr<Call>& call, WorkerJob job, bool solo) {
  AddCall(call);
  if (solo) solo_.insert(job.key);
  PostToLoop([this, job = std::move(job), solo] { core_.OnPrefill(job, solo); });
}

void PrefillNode::OpenDecode(const std::shared_ptr<Call>&, WorkerJob, const decode_worker::DecodeSource&) {
  sim_.Fail("a prefill worker is asked to decode");
}

void PrefillNode::Update(const JobKey& key, const WorkerUpdate& update) {
  if (update.kind == WorkerUpdate::Kind::kStarted && !solo_.contains(key)) sim_.Acquire(key, Hold::kPrefillBlocks);
  WorkerNode::Update(key, update);
}

void PrefillNode::CancelJob(const JobKey& key) { core_.OnCancel(key, absl::CancelledError("the router cancelled")); }

void PrefillNode::OpenFetch(const std::shared_ptr<FetchStream>& stream, const kvtransfer::FetchOpen& open) {
  stream->source = this;
  stream->at_source = ++last_stream_;
  streams_[stream->at_source] = stream;
  PostToLoop([this, id = stream->at_source, open] { worker_.kv_server().OnFetchRequest(id, open); });
}

void PrefillNode::OnFetchRequest(const std::shared_ptr<FetchStream>& stream, const kvtransfer::FetchRequest& request) {
  if (const auto* renew = std::get_if<kvtransfer::FetchRenew>(&request); renew != nullptr && stream->muted) {
    stream->to_sink.Send(sim_, [stream, sequence = renew->sequence] {
      if (!stream->cut) stream->sink->OnReply(stream->at_sink, kvtransfer::FetchRenewed{sequence});
    });
    return;
  }
  PostToLoop([this, id = stream->at_source, request] { worker_.kv_server().OnFetchRequest(id, request); });
}

void PrefillNode::OnFetchFinished(const std::shared_ptr<FetchStream>& stream) {
  if (!alive() || streams_.erase(stream->at_source) == 0) return;
  PostToLoop([this, id = stream->at_source] { worker_.kv_server().OnFetchClosed(id); });
}

void PrefillNode::Reply(kvtransfer::FetchStreamId id, const kvtransfer::FetchReply& reply) {
  if (sim_.bug == PlantedBug::kLeaseIgnored && std::holds_alternative<kvtransfer::FetchComplete>(reply)) {
    if (const auto it = streams_.find(id); it != streams_.end()) it->second->muted = true;
    PostToLoop([this, id] { worker_.kv_server().OnFetchRequest(id, kvtransfer::FetchRelease{}); });
  }
  Emit([this, id, reply] {
    const auto it = streams_.find(id);
    if (it == streams_.end()) return;
    const std::shared_ptr<FetchStream> stream = it->second;
    stream->to_sink.Send(sim_, [stream, reply] {
      if (!stream->cut) stream->sink->OnReply(stream->at_sink, reply);
    });
  });
}

void PrefillNode::Close(kvtransfer::FetchStreamId id, const absl::Status& status) {
  if (const auto it = streams_.find(id); it != streams_.end() && it->second->muted) return;
  Emit([this, id, status] {
    const auto it = streams_.find(id);
    if (it == streams_.end()) return;
    const std::shared_ptr<FetchStream> stream = it->second;
    streams_.erase(it);
    stream->to_sink.Send(sim_, [stream, status] {
      if (!stream->cut) stream->sink->OnClosed(stream->at_sink, status);
    });
    // The network reports the end of the stream a little later.
    sim_.queue.After(sim_.NetworkDelay(),
                     [this, id] { PostToLoop([this, id] { worker_.kv_server().OnFetchClosed(id); }); });
  });
}

void PrefillNode::CutStreams() {
  for (const auto& [id, stream] : streams_) {
    stream->to_sink.SendLater(sim_, sim_.MsBetween(0, kMaxPrefillNoticeMs), [stream = stream] {
      stream->sink->OnClosed(stream->at_sink, absl::UnavailableError("the connection broke"));
    });
  }
  streams_.clear();
}

void PrefillNode::CheckQuiet() const {
  WorkerNode::CheckQuiet();
  if (worker_.kv_server().open_jobs() != 0)
    sim_.Fail(absl::StrCat(setup_.target, " has a licence without its release"));
  if (core_.waiting_prompt_tokens() != 0) sim_.Fail(absl::StrCat(setup_.target, " still counts waiting tokens"));
  if (!streams_.empty()) sim_.Fail(absl::StrCat(setup_.target, " has ", streams_.size(), " Fetch streams open"));
}

}  // namespace baton::simulator
