// The messages of a TCP read: the reader asks for a piece, the owner sends it in fragments.
//
// They are UCX active messages and not ucp_get_nbx, which over TCP is an emulation with two faults (UCX 1.22): the
// owner aborts when a reader dies in the middle of a reply ("Fatal: unexpected error"), and it reads whatever address
// the message names. Here the owner checks the range, and only the reader's own handler writes the reader's memory, so
// a read that was given up is never written to.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_WIRE_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_WIRE_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/ids.h"

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

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_WIRE_H_
