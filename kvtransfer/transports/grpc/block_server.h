// The owner's end of reads over gRPC. gRPC's threads take calls and report writes; all bytes are read by the thread
// that calls Poll, a piece at a time, and calls take turns.
//
//   state    | event                              | next     | what happens
//   ---------+------------------------------------+----------+--------------------------------------------------
//   -        | a call comes                       | ready    |
//   ready    | its turn in Poll                   | writing  | writes the next piece
//   ready    | its turn, and all is written       | ended    | Finish(OK)
//   ready    | its turn, and the piece was not    | ended    | Finish(UNAVAILABLE)
//            | granted                            |          |
//   ready    | its turn, and the write had failed | ended    | Finish
//   writing  | the write is done                  | ready    |
//   any      | the server ends                    | ended    | Finish
#ifndef BATON_KVTRANSFER_TRANSPORTS_GRPC_BLOCK_SERVER_H_
#define BATON_KVTRANSFER_TRANSPORTS_GRPC_BLOCK_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/kv_read.grpc.pb.h"
#include "common/ids.h"
#include "common/rpc/grpc_server.h"
#include "kvtransfer/read_grants.h"
#include "kvtransfer/region_copies.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// The most bytes of one message.
inline constexpr size_t kGrpcPieceBytes = 256u << 10;

class BlockServer final : public internal::v1::KvReadService::CallbackService {
 public:
  // Listens where `options` say. `grants` says who may read what; `wake` is called from any thread when Poll has
  // something to do. Both outlive the server, as the copies from the region do. UNAVAILABLE when it cannot listen.
  static absl::StatusOr<std::unique_ptr<BlockServer>> Create(const TransportOptions& options, ReadGrants& grants,
                                                             RegionCopies& copies, std::function<void()> wake);
  // Ends all calls.
  ~BlockServer() override;

  // The region, which outlives the server; before the first Poll. What lies behind the region holds no data: anybody
  // may read it.
  void Expose(const Id128& nonce, const uint8_t* base, const RegionLayout& layout);
  // host:port by which readers reach it.
  const std::string& target() const { return target_; }

  // Serves some pieces.
  void Poll() ABSL_LOCKS_EXCLUDED(mutex_);
  bool NeedsPoll() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Call;

  BlockServer(ReadGrants& grants, RegionCopies& copies, std::function<void()> wake)
      : grants_(grants), copies_(copies), wake_(std::move(wake)) {}

  grpc::ServerWriteReactor<internal::v1::KvReadPiece>* Read(grpc::CallbackServerContext* context,
                                                            const internal::v1::KvReadRequest* request) override;
  // These two from gRPC's threads.
  void OnReady(Call& call) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone(Call& call) ABSL_LOCKS_EXCLUDED(mutex_);
  void Serve(Call& call);
  // Appends the bytes to the piece. False when they were not granted, or cannot be read.
  bool Copy(const Id128& fetch, const RegionRange& range, std::string& piece);

  // What one Poll serves, so that it stays short.
  static constexpr int kPiecesPerPoll = 4;

  ReadGrants& grants_;
  RegionCopies& copies_;
  const std::function<void()> wake_;
  rpc::GrpcServer server_;
  std::string target_;
  Id128 nonce_;
  const uint8_t* base_ = nullptr;
  RegionLayout layout_{0};

  absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<Call*> calls_ ABSL_GUARDED_BY(mutex_);
  std::deque<Call*> ready_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_GRPC_BLOCK_SERVER_H_
