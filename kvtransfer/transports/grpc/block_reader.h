// The reader's end of reads over gRPC: one call for each read. gRPC's threads only collect the pieces that come; the
// thread that calls Poll writes them to the region, so that nothing writes the destination of a read that has
// completed.
#ifndef BATON_KVTRANSFER_TRANSPORTS_GRPC_BLOCK_READER_H_
#define BATON_KVTRANSFER_TRANSPORTS_GRPC_BLOCK_READER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "baton/internal/v1/kv_read.grpc.pb.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/rpc/credentials.h"
#include "kvtransfer/region_copies.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

class BlockReader {
 public:
  struct PendingRead {
    ReadId read = 0;
    PeerId peer = 0;
    Id128 nonce;
    // Zero for a probe.
    Id128 fetch;
    uint8_t* local = nullptr;
    // Checked and coalesced.
    std::vector<CopyRange> ranges;
  };

  // `wake` is called from any thread when Poll has something to do, and outlives the reader. A read of which nothing
  // comes for `stall_timeout_ms` fails.
  // Null `credentials` are plain text; others outlive the reader, as the copies to the region do.
  BlockReader(RegionCopies& copies, std::function<void()> wake, int64_t stall_timeout_ms,
              rpc::Credentials* credentials);
  // Ends all calls, and waits for them.
  ~BlockReader();

  void Connect(PeerId peer, const std::string& target);
  void Add(PendingRead read);
  void Poll(std::vector<ReadCompletion>& completions);
  // Its reads complete with CANCELLED in the next Poll.
  void Disconnect(PeerId peer);

  size_t in_flight(PeerId peer) const;
  // Whether Poll has something to do without being woken.
  bool NeedsPoll() const { return has_more_ || !cancelled_.empty(); }
  // When Poll next has a stall to look for; kNever without reads.
  TimeNs NextTimer() const;

 private:
  class Call;
  // It outlives its calls: a thread of gRPC that dropped the last reference to a channel would wait for its own end.
  struct Link {
    PeerId peer = 0;
    std::unique_ptr<internal::v1::KvReadService::Stub> stub;
  };
  struct Read;

  // Something has come for the read, or it has stalled. Returns the status with which it has completed, if it has.
  std::optional<absl::Status> Advance(Read& read, TimeNs now);
  // Writes the next bytes of the read. UNAVAILABLE when it was not asked for so many, or when they cannot be written.
  absl::Status Write(const std::string& piece, Read& read);
  void Close(Read& read);

  // What one Poll writes, so that it stays short.
  static constexpr int kPiecesPerPoll = 4;

  RegionCopies& copies_;
  const std::function<void()> wake_;
  const int64_t stall_timeout_ns_;
  rpc::Credentials* const credentials_;
  std::vector<std::shared_ptr<Link>> links_;
  std::list<Read> reads_;
  // Calls whose read has completed, until gRPC is done with them.
  std::list<std::pair<std::shared_ptr<Link>, std::unique_ptr<Call>>> closing_;
  std::vector<ReadId> cancelled_;
  bool has_more_ = false;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_GRPC_BLOCK_READER_H_
