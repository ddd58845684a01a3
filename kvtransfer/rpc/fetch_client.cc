#include "kvtransfer/rpc/fetch_client.h"

#include "common/rpc/wire.h"
#include "common/test_partition.h"
#include "kvtransfer/rpc/fetch_wire.h"

namespace baton::kvtransfer {
namespace pb = internal::v1;

FetchClient::~FetchClient() {
  absl::MutexLock lock(&mutex_);
  for (auto& [id, stream] : streams_) stream->Cancel();
  mutex_.Await(absl::Condition(this, &FetchClient::Idle));
}

void FetchClient::Open(FetchStreamId stream, const std::string& target, const FetchOpen& open) {
  pb::KvService::Stub stub(channels_.Get(TestTarget(target), open.source));
  // The lock is held while the call starts: an answer that comes at once must find the stream.
  absl::MutexLock lock(&mutex_);
  auto call =
      Stream::Create([&stub](grpc::ClientContext* context, auto* reactor) { stub.async()->Fetch(context, reactor); },
                     {.on_message = [this, stream](const pb::FetchResponse& proto) { OnMessage(stream, proto); },
                      .on_done =
                          [this, stream](const grpc::Status& status) {
                            events_.on_closed(stream, rpc::FromGrpc(status));
                            absl::MutexLock inner(&mutex_);
                            streams_.erase(stream);
                          }});
  call->Push(ToProto(FetchRequest(open)));
  streams_[stream] = std::move(call);
}

void FetchClient::Send(FetchStreamId stream, const FetchRequest& request) {
  if (auto call = Find(stream); call != nullptr && !call->Push(ToProto(request))) call->Cancel();
}

void FetchClient::Finish(FetchStreamId stream) {
  if (auto call = Find(stream); call != nullptr) call->HalfClose();
}

void FetchClient::OnMessage(FetchStreamId id, const pb::FetchResponse& proto) {
  const absl::StatusOr<FetchReply> reply = FromProto(proto);
  if (reply.ok()) return events_.on_reply(id, *reply);
  if (auto call = Find(id); call != nullptr) call->Cancel();
}

std::shared_ptr<FetchClient::Stream> FetchClient::Find(FetchStreamId id) {
  absl::MutexLock lock(&mutex_);
  const auto it = streams_.find(id);
  return it == streams_.end() ? nullptr : it->second;
}

}  // namespace baton::kvtransfer
