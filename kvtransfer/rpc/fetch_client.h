// The reader's end of Fetch streams: the sink's actions to gRPC, and gRPC's answers back.
#ifndef BATON_KVTRANSFER_RPC_FETCH_CLIENT_H_
#define BATON_KVTRANSFER_RPC_FETCH_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/kv.grpc.pb.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/client_stream.h"
#include "kvtransfer/transfer_thread.h"

namespace baton::kvtransfer {

// Thread-safe.
class FetchClient final : public FetchChannel {
 public:
  // Both run on gRPC threads. The events of one stream come in order, `on_closed` last.
  struct Events {
    std::function<void(FetchStreamId, const FetchReply&)> on_reply;
    std::function<void(FetchStreamId, const absl::Status&)> on_closed;
  };

  // As ChannelCache.
  explicit FetchClient(Events events, rpc::Credentials* credentials = nullptr)
      : events_(std::move(events)), channels_(credentials) {}
  // Cancels what is open and waits for the last event.
  ~FetchClient() override;

  void Open(FetchStreamId stream, const std::string& target, const FetchOpen& open) override;
  void Send(FetchStreamId stream, const FetchRequest& request) override;
  void Finish(FetchStreamId stream) override;

 private:
  using Stream = rpc::ClientBidi<internal::v1::FetchRequest, internal::v1::FetchResponse>;

  std::shared_ptr<Stream> Find(FetchStreamId id) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMessage(FetchStreamId id, const internal::v1::FetchResponse& proto);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return streams_.empty(); }

  const Events events_;
  rpc::ChannelCache channels_;
  absl::Mutex mutex_;
  absl::flat_hash_map<FetchStreamId, std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_RPC_FETCH_CLIENT_H_
