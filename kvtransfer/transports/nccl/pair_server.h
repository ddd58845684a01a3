// The owner's end of pairs: a gRPC stream for each reader, on which the reader asks for pieces, and a communicator of
// NCCL, in which the owner sends those that it granted.
//
// The stream is the transport's own, at its own port, and not the Fetch stream: a pair outlives many Fetches, one
// process reads for several of them at a time, and the hand-off's state machines know no transport.
#ifndef BATON_KVTRANSFER_TRANSPORTS_NCCL_PAIR_SERVER_H_
#define BATON_KVTRANSFER_TRANSPORTS_NCCL_PAIR_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/kv_pair.grpc.pb.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/memory_access.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/server_stream.h"
#include "kvtransfer/read_grants.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/transport.h"
#include "kvtransfer/transports/nccl/nccl_api.h"
#include "kvtransfer/transports/nccl/pair_wire.h"

namespace baton::kvtransfer {

class PairServer final : public internal::v1::KvPairService::CallbackService {
 public:
  // Listens where `options` say. `grants` says who may read what; `wake` is called from any thread when Poll has
  // something to do. All references outlive the server. UNAVAILABLE when it cannot listen.
  static absl::StatusOr<std::unique_ptr<PairServer>> Create(const TransportOptions& options, const NcclApi& api,
                                                            MemoryAccess& memory, ReadGrants& grants,
                                                            std::function<void()> wake);
  // Ends all pairs, and waits for them.
  ~PairServer() override;

  // The region; before the first Poll. What lies behind it holds no data: anybody may read it.
  void Expose(const Id128& nonce, uint8_t* base, const RegionLayout& layout);
  // host:port by which readers reach it.
  const std::string& target() const { return target_; }

  void Poll() ABSL_LOCKS_EXCLUDED(mutex_);
  // When Poll next has something to do without being woken; kNever when it has not.
  TimeNs NextTimer() const;

 private:
  using Stream = rpc::ServerBidi<internal::v1::KvPairRequest, internal::v1::KvPairReply>;
  using Inbox = PairInbox<internal::v1::KvPairRequest>;
  // A pair.
  struct Link;
  // A stream that Poll has not seen yet.
  struct Arrival {
    std::shared_ptr<Stream> stream;
    std::shared_ptr<Inbox> inbox;
  };

  PairServer(const NcclApi& api, MemoryAccess& memory, ReadGrants& grants, std::function<void()> wake,
             int64_t stall_timeout_ms);

  grpc::ServerBidiReactor<internal::v1::KvPairRequest, internal::v1::KvPairReply>* Pair(
      grpc::CallbackServerContext* context) override ABSL_LOCKS_EXCLUDED(mutex_);

  void TakeArrivals() ABSL_LOCKS_EXCLUDED(mutex_);
  void Advance(Link& link, TimeNs now);
  // These two return why the pair ends, if it does.
  absl::Status Handle(Link& link, const internal::v1::KvPairRequest& request);
  absl::Status Greet(Link& link, const internal::v1::KvPairHello& hello);
  absl::Status Serve(Link& link, const internal::v1::KvPairPiece& piece);
  // Whether all ranges may be sent now; each then counts as a send that has begun.
  bool BeginSends(const Id128& fetch, const std::vector<RegionRange>& ranges);
  void EndSends(const Id128& fetch, const std::vector<RegionRange>& ranges, size_t count);
  void End(Link& link, const absl::Status& why);

  const NcclApi& api_;
  MemoryAccess& memory_;
  ReadGrants& grants_;
  const std::function<void()> wake_;
  const int64_t stall_timeout_ns_;
  rpc::GrpcServer server_;
  std::string target_;
  Id128 nonce_;
  uint8_t* base_ = nullptr;
  RegionLayout layout_{0};
  // At most kMaxPeers.
  std::list<Link> links_;

  absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
  // Streams of which gRPC may still tell something.
  size_t open_streams_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_NCCL_PAIR_SERVER_H_
