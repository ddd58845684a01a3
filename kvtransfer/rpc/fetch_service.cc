#include "kvtransfer/rpc/fetch_service.h"

#include "common/rpc/wire.h"
#include "kvtransfer/rpc/fetch_wire.h"

namespace baton::kvtransfer {
namespace pb = internal::v1;

grpc::ServerBidiReactor<pb::FetchRequest, pb::FetchResponse>* FetchService::Fetch(grpc::CallbackServerContext*) {
  auto stream = Stream::Create();
  FetchStreamId id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = next_id_++;
    streams_[id] = stream;
  }
  stream->Start({.on_message = [this, id](const pb::FetchRequest& proto) { OnMessage(id, proto); },
                 .on_closed =
                     [this, id] {
                       events_.on_closed(id);
                       Close(id, absl::CancelledError("the reader closed the stream"));
                     }});
  return stream.get();
}

void FetchService::OnMessage(FetchStreamId id, const pb::FetchRequest& proto) {
  const absl::StatusOr<FetchRequest> request = FromProto(proto);
  if (request.ok()) {
    events_.on_request(id, *request);
  } else {
    Close(id, request.status());
  }
}

void FetchService::Reply(FetchStreamId stream, const FetchReply& reply) {
  // A reader that does not read loses the stream; its lease then runs out.
  if (auto target = Find(stream); target != nullptr && !target->Push(ToProto(reply))) {
    Close(stream, absl::ResourceExhaustedError("the reader does not read its Fetch stream"));
  }
}

void FetchService::Close(FetchStreamId stream, const absl::Status& status) {
  const auto target = Find(stream);
  if (target == nullptr) return;
  {
    absl::MutexLock lock(&mutex_);
    streams_.erase(stream);
  }
  target->Finish(rpc::ToGrpc(status));
}

std::shared_ptr<FetchService::Stream> FetchService::Find(FetchStreamId id) {
  absl::MutexLock lock(&mutex_);
  const auto it = streams_.find(id);
  return it == streams_.end() ? nullptr : it->second;
}

}  // namespace baton::kvtransfer
