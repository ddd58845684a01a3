// The source's end of Fetch streams: gRPC to events and back.
#ifndef BATON_KVTRANSFER_RPC_FETCH_SERVICE_H_
#define BATON_KVTRANSFER_RPC_FETCH_SERVICE_H_

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/kv.grpc.pb.h"
#include "common/rpc/server_stream.h"
#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/fetch_replies.h"

namespace baton::kvtransfer {

// Thread-safe.
class FetchService final : public internal::v1::KvService::CallbackService, public FetchReplies {
 public:
  // Both run on gRPC threads. The events of one stream come in order, `on_closed` last.
  struct Events {
    std::function<void(FetchStreamId, const FetchRequest&)> on_request;
    std::function<void(FetchStreamId)> on_closed;
  };

  explicit FetchService(Events events) : events_(std::move(events)) {}

  grpc::ServerBidiReactor<internal::v1::FetchRequest, internal::v1::FetchResponse>* Fetch(
      grpc::CallbackServerContext* context) override;

  void Reply(FetchStreamId stream, const FetchReply& reply) override;
  void Close(FetchStreamId stream, const absl::Status& status) override;

 private:
  using Stream = rpc::ServerBidi<internal::v1::FetchRequest, internal::v1::FetchResponse>;

  std::shared_ptr<Stream> Find(FetchStreamId id) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMessage(FetchStreamId id, const internal::v1::FetchRequest& proto);

  const Events events_;
  absl::Mutex mutex_;
  FetchStreamId next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<FetchStreamId, std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_RPC_FETCH_SERVICE_H_
