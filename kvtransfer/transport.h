// Moves bytes between the KV pools of two workers. The owner exposes its pool, the reader reads it: only the reader's
// side writes the reader's memory. Backends live in transports/; one suite (transport_conformance.h) tests them all.
//
//   register   AllocateRegion: memory that peers may read, in the backend's own way of allocating
//   expose     Address: what a peer needs in order to connect and read
//   grant      grants(): what readers may read over a network
//   read       Connect, StartRead; StartProbe to measure
//   poll       Poll, or WaitForEvent and then Poll
//   close      Disconnect, and the destructor
//
// Threads: one thread, the worker's transfer thread, makes all calls. The exceptions are AllocateRegion and Address,
// which are called before it starts, and Wake and grants(), which any thread may call.
#ifndef BATON_KVTRANSFER_TRANSPORT_H_
#define BATON_KVTRANSFER_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "kvtransfer/read_grants.h"

namespace baton {
class MemoryAccess;
namespace rpc {
class Credentials;
}
}  // namespace baton

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
  // When it is not OK, the destination's content is undefined. Either way nothing writes the destination any more.
  absl::Status status;
};

// Bounds of one read, and of the reads of one peer: peers share no bound, so that a stalled one costs no other
// anything.
inline constexpr size_t kMaxRangesPerRead = 4096;
inline constexpr size_t kMaxReadsInFlight = 64;
inline constexpr size_t kMaxAddressBytes = 64u << 10;
inline constexpr size_t kMaxPeers = 4096;
// The largest read of StartProbe.
inline constexpr size_t kMaxProbeBytes = 16u << 20;

class Transport {
 public:
  virtual ~Transport() = default;

  // "inproc", "ucx-shm", "ucx-tcp", "ucx" (which of the two is decided for each connection), "ucx-rdma", "grpc",
  // "nccl".
  virtual std::string_view name() const = 0;

  // Allocates the region that this transport exposes; called once. It is zeroed and lives as long as the transport.
  // Host memory is 4096-byte aligned, and its pages are backed when they are first touched or populated, so allocating
  // costs nothing, however large the region is. The backend keeps a tail behind the region for probes; the span leaves
  // it out. RESOURCE_EXHAUSTED when the memory cannot be had, UNAVAILABLE when peers could not read it.
  virtual absl::StatusOr<absl::Span<uint8_t>> AllocateRegion(size_t bytes) = 0;

  // Opaque bytes for Connect in another process, at most kMaxAddressBytes. After AllocateRegion.
  virtual absl::StatusOr<std::string> Address() = 0;

  // After AllocateRegion. UNAVAILABLE when the peer cannot be reached, INVALID_ARGUMENT when the address is damaged,
  // RESOURCE_EXHAUSTED beyond kMaxPeers. Does not wait for the peer: over a network, only the first read may notice
  // that the peer is dead; the read then fails with UNAVAILABLE.
  virtual absl::StatusOr<PeerId> Connect(std::string_view address) = 0;

  // How bytes of this peer travel: "inproc", "shm", "cuda_ipc", "tcp", "rdma", "grpc", "nccl"; empty when it is not
  // connected.
  virtual std::string_view PathOf(PeerId peer) const = 0;

  // Whether a peer on this host may map the region, or open it on a device, and then reads it without this process.
  virtual bool shares_memory() const = 0;
  // What this process serves of its region to readers that do not map it.
  virtual ReadGrants& grants() { return grants_; }

  // Starts one read of all ranges, which completes once, in Poll. OUT_OF_RANGE when a range leaves either region: all
  // are checked before a byte moves. INVALID_ARGUMENT beyond kMaxRangesPerRead, RESOURCE_EXHAUSTED beyond
  // kMaxReadsInFlight of the peer, NOT_FOUND for a peer that is not connected, UNAVAILABLE for one that is known to be
  // lost. Reads take turns, so a long one does not hold up a short one. `fetch` is the id under which the owner granted
  // the bytes: a read that the owner serves completes with UNAVAILABLE when a byte of it was not granted.
  virtual absl::StatusOr<ReadId> StartRead(PeerId peer, const Id128& fetch, absl::Span<const CopyRange> ranges) = 0;

  // A read of `bytes` between the two regions' tails, which hold no data: for ProbeBandwidth.
  virtual absl::StatusOr<ReadId> StartProbe(PeerId peer, size_t bytes) {
    return absl::UnimplementedError("this transport has no probe");
  }

  // Makes progress and appends the reads that have completed. Does not block: a call takes a fraction of a millisecond.
  virtual void Poll(std::vector<ReadCompletion>& completions) = 0;

  // Blocks until Poll may have something to do, Wake is called, or the timeout has passed.
  virtual void WaitForEvent(int64_t timeout_ns) = 0;
  virtual void Wake() = 0;

  // Reads of this peer still in flight complete with CANCELLED or with their result, in Poll, once nothing writes their
  // destination any more. Does not wait for the peer.
  virtual void Disconnect(PeerId peer) = 0;

 private:
  ReadGrants grants_;
};

enum class TransportKind : uint8_t { kAuto, kInproc, kShm, kTcp, kRdma, kGrpc, kNccl };

// "auto", "inproc", "shm", "tcp", "rdma", "grpc", "nccl"; else INVALID_ARGUMENT. kAuto: shared memory where the peer is
// on this host and may map it, else TCP; each connection decides for itself. The shared memory of devices is CUDA IPC.
absl::StatusOr<TransportKind> ParseTransportKind(std::string_view name);

// Both ends belong to it.
struct PortRange {
  int first = 0;
  int last = 0;
};

struct TransportOptions {
  TransportKind kind = TransportKind::kAuto;
  // The address of this host, or a name of it, that TCP uses and listens on; 0.0.0.0 for all.
  std::string bind = "127.0.0.1";
  // The host by which readers over gRPC and NCCL reach this one; empty: `bind`.
  std::string advertise = {};
  // The TCP ports on which it listens: UCX takes two of them, gRPC and NCCL one, beside which NCCL takes its own.
  // Without it: what UCX_TCP_PORT_RANGE says, else any.
  std::optional<PortRange> tcp_ports = std::nullopt;
  // With gRPC these say who may read, and whom this one reads from; with NCCL likewise, but its bytes travel in plain
  // text. They outlive the transport; null: plain text.
  rpc::Credentials* credentials = nullptr;
  // When no byte of a TCP read has come for this long, its peer counts as lost; with RDMA and NCCL, no piece.
  int64_t stall_timeout_ms = 10'000;
  // What the region is made of, as a device's memory; it outlives the transport. Null: host memory, or with NCCL that
  // of the stand-in. kInproc moves host memory alone.
  MemoryAccess* memory = nullptr;
  // The file of NCCL; empty: the one that $BATON_NCCL_LIBRARY names, else the system's.
  std::string nccl_library = {};
};

// UNAVAILABLE when it cannot listen, FAILED_PRECONDITION when the machine lacks what the kind needs.
absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const TransportOptions& options);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORT_H_
