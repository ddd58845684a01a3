#include "simulator/fetch_server.h"

#include <utility>

#include "simulator/puller.h"

namespace baton::simulator {
namespace {

// The reader of a dead process's stream notices within this time.
constexpr int64_t kMaxSourceNoticeMs = 500;

}  // namespace

void FetchServer::OnOpen(const std::shared_ptr<FetchStream>& stream, const kvtransfer::FetchOpen& open) {
  stream->source = this;
  stream->at_source = ++last_stream_;
  streams_[stream->at_source] = stream;
  OnRequest(stream, open);
}

void FetchServer::OnRequest(const std::shared_ptr<FetchStream>& stream, const kvtransfer::FetchRequest& request) {
  process_.Reach([this, id = stream->at_source, request] {
    process_.PostToLoop([this, id, request] { process_.worker().kv_server().OnFetchRequest(id, request); });
  });
}

void FetchServer::OnFinished(const std::shared_ptr<FetchStream>& stream) {
  process_.Reach([this, stream] {
    if (streams_.erase(stream->at_source) == 0) return;
    process_.PostToLoop([this, id = stream->at_source] { process_.worker().kv_server().OnFetchClosed(id); });
  });
}

void FetchServer::Reply(kvtransfer::FetchStreamId id, const kvtransfer::FetchReply& reply) {
  process_.Emit([this, id, reply] {
    const auto it = streams_.find(id);
    if (it == streams_.end()) return;
    const std::shared_ptr<FetchStream> stream = it->second;
    SendToSink(stream, [stream, reply] { stream->sink->OnReply(stream->at_sink, reply); });
  });
}

void FetchServer::Close(kvtransfer::FetchStreamId id, const absl::Status& status) {
  process_.Emit([this, id, status] {
    const auto it = streams_.find(id);
    if (it == streams_.end()) return;
    const std::shared_ptr<FetchStream> stream = it->second;
    streams_.erase(it);
    SendToSink(stream, [stream, status] { stream->sink->OnClosed(stream->at_sink, status); });
    // The network reports the end of the stream a little later.
    process_.After(process_.sim().NetworkDelay(), [this, id] {
      process_.PostToLoop([this, id] { process_.worker().kv_server().OnFetchClosed(id); });
    });
  });
}

void FetchServer::SendToSink(const std::shared_ptr<FetchStream>& stream, Task handle) {
  if (stream->sink_is_deaf) return;
  stream->to_sink.Send(process_.sim(), [stream, handle = std::move(handle)] {
    if (!stream->cut && !stream->sink_is_deaf) handle();
  });
}

void FetchServer::CutStreams() {
  for (const auto& [id, stream] : streams_) {
    stream->to_sink.SendLater(process_.sim(), process_.sim().MsBetween(0, kMaxSourceNoticeMs), [stream = stream] {
      stream->sink->OnClosed(stream->at_sink, absl::UnavailableError("the connection broke"));
    });
  }
  streams_.clear();
}

void FetchServer::CheckQuiet() const {
  const std::string& who = process_.setup().target;
  if (process_.worker().kv_server().open_jobs() != 0) {
    process_.sim().Fail(absl::StrCat(who, " has a licence without its release"));
  }
  if (!streams_.empty()) process_.sim().Fail(absl::StrCat(who, " has ", streams_.size(), " Fetch streams open"));
}

}  // namespace baton::simulator
