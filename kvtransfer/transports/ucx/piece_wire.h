// The messages of a read over a network: the reader asks for a piece, the owner sends it. Over TCP it sends fragments,
// which the reader's handler writes. Over RDMA it offers the piece as a whole, and UCX moves it from the owner's memory
// into the reader's, of the host or of a device, without a copy in between where the adapter can.
//
// They are UCX active messages and not ucp_get_nbx, which over TCP is an emulation with two faults (UCX 1.22): the
// owner aborts when a reader dies in the middle of a reply ("Fatal: unexpected error"), and it reads whatever address
// the message names. Here the owner checks the range, and a read that was given up is never written to: over TCP
// because nobody but the reader's handler writes, over RDMA because it has not completed before UCX is done with it.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_WIRE_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_WIRE_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "kvtransfer/transports/ucx/ucx_worker.h"

namespace baton::kvtransfer {

// Active message ids.
inline constexpr unsigned kPieceRequestMessage = 1;
inline constexpr unsigned kFragmentMessage = 2;

// The most bytes of one request. A reader has at most kMaxPieces in flight at each owner, which bounds what an owner
// has queued, and what a stalled owner takes from the others: nothing.
inline constexpr size_t kMaxPieceBytes = 512u << 10;
inline constexpr int kMaxPieces = 8;
// A fragment with its headers fits a segment (kTcpSegmentBytes), so UCX neither splits nor reassembles it.
inline constexpr size_t kFragmentBytes = 60u << 10;

// Headers travel as they lie in memory: KV bytes do as well, so both ends are little-endian anyway.
struct PieceRequest {
  uint64_t piece = 0;
  // The nonce of the region that the reader means: an address may be older than the process that listens at it now.
  Id128 nonce;
  // The id under which the owner granted the bytes; zero for those behind the region, which hold no data.
  Id128 fetch;
  // Where the piece begins in the owner's whole region, which includes its tail.
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

enum class FragmentKind : uint64_t { kData = 0, kRefused = 1 };

struct FragmentHeader {
  uint64_t piece = 0;
  // Where the fragment begins in its piece.
  uint64_t offset = 0;
  FragmentKind kind = FragmentKind::kData;
};

// UNAVAILABLE when the peer is known to be lost. A message that is lost later is reported to the endpoint's error
// handler. Data is sent from where it lies, until `sent` is called: once for every send, also for one that fails,
// within the call or later.
absl::Status SendPieceMessage(ucp_ep_h endpoint, const PieceRequest& request);
absl::Status SendPieceMessage(ucp_ep_h endpoint, const FragmentHeader& fragment, absl::Span<const uint8_t> data,
                              std::function<void()> sent);
// Offers a piece in the memory that the endpoint's worker has registered, from where the reader has it fetched. True:
// header and data stay until `done` is called with `argument`, when it was fetched or declined, or the peer is lost.
// False: that has happened already. The errors are those of SendPieceMessage.
absl::StatusOr<bool> OfferPiece(ucp_ep_h endpoint, const UcxWorker& worker, const FragmentHeader& header,
                                absl::Span<const uint8_t> data, ucp_send_nbx_callback_t done, void* argument);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_WIRE_H_
