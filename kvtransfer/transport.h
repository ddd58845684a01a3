// Moves bytes between the KV pools of two workers. The reader asks, the owner exposes: only the reader's side writes
// the reader's memory. Backends live in transports/; one conformance suite (transport_conformance.h) runs against each.
//
//   register   AllocateRegion: memory that peers may read, in the backend's own way of allocating
//   expose     Address: what a peer needs in order to connect and read
//   read       Connect, StartRead; StartProbe to measure
//   poll       Poll, or WaitForEvent and then Poll
//   close      Disconnect, and the destructor
//
// Threads: one thread, the owner's transfer thread, makes all calls but AllocateRegion and Address (before it starts)
// and Wake (any thread).
#ifndef BATON_KVTRANSFER_TRANSPORT_H_
#define BATON_KVTRANSFER_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton::kvtransfer {

// A connected peer. Never reused within one transport.
using PeerId = uint64_t;
// A read in flight. Never reused within one transport.
using ReadId = uint64_t;

// Copies `bytes` from `remote_offset` of the peer's region to `local_offset` of ours.
struct CopyRange {
  uint64_t remote_offset = 0;
  uint64_t local_offset = 0;
  uint64_t bytes = 0;
};

struct ReadCompletion {
  ReadId read = 0;
  // Not OK: the destination holds anything. Either way nothing writes it any more.
  absl::Status status;
};

// Bounds of one read.
inline constexpr size_t kMaxRangesPerRead = 4096;
inline constexpr size_t kMaxReadsInFlight = 64;
inline constexpr size_t kMaxAddressBytes = 64u << 10;
inline constexpr size_t kMaxPeers = 4096;
// Largest StartProbe.
inline constexpr size_t kMaxProbeBytes = 16u << 20;

class Transport {
 public:
  virtual ~Transport() = default;

  // "inproc", "ucx-shm", "ucx-tcp", "ucx" (which of the two is decided for each connection).
  virtual std::string_view name() const = 0;

  // The region that this transport exposes; once. 4096-byte aligned, lives as long as the transport, zeroed. Pages are
  // backed when they are first touched or populated: allocating costs nothing, however large. The backend keeps a tail
  // behind it for probes, which the span leaves out. RESOURCE_EXHAUSTED when the memory cannot be had.
  virtual absl::StatusOr<absl::Span<uint8_t>> AllocateRegion(size_t bytes) = 0;

  // Opaque bytes for Connect in another process, at most kMaxAddressBytes. After AllocateRegion.
  virtual absl::StatusOr<std::string> Address() = 0;

  // UNAVAILABLE when the peer cannot be reached, INVALID_ARGUMENT when the address is damaged. Does not wait for the
  // peer: over a network a dead one may be noticed by the first read only, which then fails with UNAVAILABLE.
  // After AllocateRegion. RESOURCE_EXHAUSTED beyond kMaxPeers.
  virtual absl::StatusOr<PeerId> Connect(std::string_view address) = 0;

  // How bytes of this peer travel: "inproc", "shm", "tcp", ...; empty when it is not connected.
  virtual std::string_view PathOf(PeerId peer) const = 0;

  // Starts a read of all ranges; completes once, in Poll. Ranges are checked against both regions before a byte moves:
  // OUT_OF_RANGE. INVALID_ARGUMENT beyond kMaxRangesPerRead, RESOURCE_EXHAUSTED beyond kMaxReadsInFlight, NOT_FOUND
  // for a peer that is not connected, UNAVAILABLE for one that is known to be lost. Reads take turns, so a long one
  // does not hold up a short one.
  virtual absl::StatusOr<ReadId> StartRead(PeerId peer, absl::Span<const CopyRange> ranges) = 0;

  // A read of `bytes` between the two regions' tails, which hold no data: for ProbeBandwidth.
  virtual absl::StatusOr<ReadId> StartProbe(PeerId peer, size_t bytes) {
    return absl::UnimplementedError("this transport has no probe");
  }

  // Makes progress and appends what has completed. Does not block: a call takes a fraction of a millisecond.
  virtual void Poll(std::vector<ReadCompletion>& completions) = 0;

  // Blocks until Poll may have something to do, Wake is called, or the timeout has passed.
  virtual void WaitForEvent(int64_t timeout_ns) = 0;
  virtual void Wake() = 0;

  // Reads of this peer still in flight complete with CANCELLED or with their result, in Poll, once nothing writes their
  // destination any more. Does not wait for the peer.
  virtual void Disconnect(PeerId peer) = 0;
};

enum class TransportKind : uint8_t { kAuto, kInproc, kShm, kTcp };

// "auto", "inproc", "shm", "tcp"; else INVALID_ARGUMENT. kAuto: shared memory where the peer is on this host and may
// map it, else TCP; each connection decides for itself.
absl::StatusOr<TransportKind> ParseTransportKind(std::string_view name);

struct TransportOptions {
  TransportKind kind = TransportKind::kAuto;
  // Network interfaces for TCP, separated by commas ("eth0"), or "all".
  std::string net_devices = "all";
  // A TCP read during which no byte has come for this long has lost its peer.
  int64_t stall_timeout_ms = 10'000;
};

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const TransportOptions& options);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORT_H_
