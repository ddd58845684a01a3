// The reader's end of reads over a network, with peer error handling: a peer that dies, or sends nothing for the stall
// timeout, fails its reads. Used by one thread.
//
// Disconnect keeps the endpoint to a healthy owner for the next Connect. Closing it would leak sockets: UCX 1.22 keeps
// the socket of an endpoint that one side closed until the other side closes it too, and the owner's side does so only
// when the owner ends.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_READER_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_READER_H_

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/memory_access.h"
#include "kvtransfer/pending_read.h"
#include "kvtransfer/transport.h"
#include "kvtransfer/transports/ucx/piece_wire.h"
#include "kvtransfer/transports/ucx/ucx_worker.h"

namespace baton::kvtransfer {

class PieceReader {
 public:
  struct Options {
    // In messages: "TCP", "RDMA".
    std::string_view network;
    int64_t stall_timeout_ms = 0;
    // Where the reads' destinations lie, if the fragments that come have to be copied there; null: they are written, or
    // UCX writes pieces into memory that the worker has registered. It outlives the reader.
    MemoryAccess* memory = nullptr;
    // Called from any thread when Poll has something to do of which UCX does not tell.
    std::function<void()> wake;
  };

  static absl::StatusOr<std::unique_ptr<PieceReader>> Create(std::unique_ptr<UcxWorker> worker, Options options);
  ~PieceReader();

  struct Owner {
    // The nonce of its region.
    Id128 nonce;
    // UCX's address; empty where the owner does not offer this network.
    std::string worker;
  };
  // UNAVAILABLE when no way leads to the peer. Whether the peer answers shows in the first read.
  absl::Status Connect(PeerId peer, const Owner& owner);
  // UNAVAILABLE when the peer is known to be lost.
  absl::Status CheckAlive(PeerId peer) const;
  void Add(PendingRead read);
  void Poll(std::vector<ReadCompletion>& completions);
  // Its reads complete with CANCELLED in the next Poll; none of their bytes is touched from here on. In a device's
  // memory they complete once the copies that have begun are over. Pieces that UCX is writing end first, or,
  // when none of them has ended for 200 ms, with the connection, which fails the reads of other peers that share it.
  void Disconnect(PeerId peer);

  // Reads of this peer that have not been reported yet.
  size_t in_flight(PeerId peer) const;
  // Whether Poll has something to do without news from UCX.
  bool NeedsPoll() const;
  // When Poll next has a stall to look for; kNever without pieces in flight.
  TimeNs NextTimer() const;
  UcxWorker& worker() { return *worker_; }

 private:
  struct Link;
  struct Read;
  struct Piece;
  struct Receive;

  PieceReader(std::unique_ptr<UcxWorker> worker, Options options);

  static ucs_status_t OnFragment(void* reader, const void* header, size_t header_bytes, void* data, size_t data_bytes,
                                 const ucp_am_recv_param_t* param);
  static void OnLinkError(void* link, ucp_ep_h endpoint, ucs_status_t status);

  // Has UCX fetch a piece that the owner offers. An offer that is not taken is dropped.
  void TakeOffer(const void* header, size_t header_bytes, void* offer, size_t bytes);
  static void OnReceived(void* request, ucs_status_t status, size_t bytes, void* receive);
  void EndReceive(const Receive& receive, ucs_status_t status);

  absl::StatusOr<Link*> FindOrMakeLink(const Owner& owner);
  void HandleFragment(const void* header, size_t header_bytes, absl::Span<const uint8_t> data);
  // The piece of which the header speaks; null when there is none any more, or the owner refuses it.
  Piece* FindPiece(const void* header, size_t header_bytes, FragmentHeader& fragment);
  void PostPieces();
  // Whether the next piece of the read can be asked for now.
  static bool CanPost(const Read& read);
  // Asks for that piece.
  void PostPiece(Read& read);
  // The piece is no longer expected: bytes of it that still come are dropped.
  void EndPiece(uint64_t piece);
  // Ends the read's pieces. The first error of a read is the one that it completes with.
  void FailRead(Read& read, const absl::Status& status);
  void FailReadsOf(const Link& link, const absl::Status& status);
  // Notices stalls, fails the reads of lost links, and closes those.
  void TendLinks();
  void ReportDone(std::vector<ReadCompletion>& completions);
  void Write(Read& read, uint8_t* destination, absl::Span<const uint8_t> data);
  // Whether what was written for the read is there. Asks for it to be told.
  bool HasLanded(Read& read);

  std::unique_ptr<UcxWorker> worker_;
  const Options options_;
  const int64_t stall_timeout_ns_;
  // Of all copies to a device's memory; null without.
  MemoryAccess::Stream stream_ = nullptr;
  // How many marks were put on the stream, and how many it has passed.
  uint64_t marks_ = 0;
  std::atomic<uint64_t> passed_marks_{0};
  // Links in use and idle ones; at most kMaxPeers.
  std::vector<std::unique_ptr<Link>> links_;
  absl::flat_hash_map<PeerId, Link*> peers_;
  // Reads in the order of their turns.
  std::deque<std::unique_ptr<Read>> reads_;
  // Pieces in flight, at most kMaxPieces of each link. Ids are never reused.
  absl::flat_hash_map<uint64_t, Piece> pieces_;
  uint64_t next_piece_ = 1;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_READER_H_
