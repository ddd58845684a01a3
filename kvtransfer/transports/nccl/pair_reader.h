// The reader's end of pairs. A pair is formed when the first read of its peer starts, and ends with the peer. The
// reader asks for a piece over the pair's stream, and receives it in the communicator once the owner has granted it: so
// neither end ever waits in NCCL for an operation that the other will not issue. Used by one thread.
//
// A pair that fails, or of which nothing comes for the stall timeout, is lost: its communicator is aborted, and then
// its reads fail. A new pair with the same owner waits first, twice as long after each failure.
#ifndef BATON_KVTRANSFER_TRANSPORTS_NCCL_PAIR_READER_H_
#define BATON_KVTRANSFER_TRANSPORTS_NCCL_PAIR_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "baton/internal/v1/kv_pair.grpc.pb.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/memory_access.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/credentials.h"
#include "kvtransfer/pending_read.h"
#include "kvtransfer/transport.h"
#include "kvtransfer/transports/nccl/nccl_api.h"
#include "kvtransfer/transports/nccl/pair_wire.h"

namespace baton::kvtransfer {

class PairReader {
 public:
  // `wake` is called from any thread when Poll has something to do. Null `credentials` are plain text. All references
  // outlive the reader.
  PairReader(const NcclApi& api, MemoryAccess& memory, std::function<void()> wake, int64_t stall_timeout_ms,
             rpc::Credentials* credentials);
  // Ends all pairs, and waits for them.
  ~PairReader();

  // `nonce` is that of the region which `target` exposes.
  void Connect(PeerId peer, const std::string& target, const Id128& nonce);
  // UNAVAILABLE when the peer is known to be lost.
  absl::Status CheckAlive(PeerId peer) const;
  void Add(PendingRead read);
  void Poll(std::vector<ReadCompletion>& completions);
  // Its reads complete with CANCELLED once the pair has ended.
  void Disconnect(PeerId peer);

  // Reads of this peer that have not been reported yet.
  size_t in_flight(PeerId peer) const;
  // When Poll next has something to do without being woken; kNever when it has not.
  TimeNs NextTimer() const;

 private:
  using Stream = rpc::ClientBidi<internal::v1::KvPairRequest, internal::v1::KvPairReply>;
  using Inbox = PairInbox<internal::v1::KvPairReply>;
  struct Read;
  struct Link;
  // What the failures of an owner's pairs cost the next one.
  struct Backoff {
    int failures = 0;
    TimeNs until = 0;
  };

  Link* Find(PeerId peer) const;
  void Open(Link& link);
  void Advance(Link& link, TimeNs now);
  // These return why the pair is lost, if it is.
  absl::Status Handle(Link& link, const internal::v1::KvPairReply& reply);
  absl::Status HandleAnswer(Link& link, const internal::v1::KvPairAnswer& answer);
  absl::Status HandleNews(Link& link, TimeNs now);
  // Asks for pieces, one of each read in turn.
  void AskForPieces(Link& link, TimeNs now);
  static void AskForPiece(Link& link, Read& read);
  static void ReportDone(Link& link, std::vector<ReadCompletion>& completions);
  // The pair ends, and its reads complete with `why` once nothing writes their destination.
  void Lose(Link& link, const absl::Status& why);
  void NoteFailure(const Link& link);

  const NcclApi& api_;
  MemoryAccess& memory_;
  const std::function<void()> wake_;
  const int64_t stall_timeout_ns_;
  rpc::Credentials* const credentials_;
  // Those of connected peers, and those of disconnected ones that have not ended yet.
  std::list<std::unique_ptr<Link>> links_;
  // By target; at most kMaxPeers.
  std::map<std::string, Backoff> backoffs_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_NCCL_PAIR_READER_H_
