#include "kvtransfer/transports/grpc/grpc_transport.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/memory_access.h"
#include "common/random.h"
#include "common/status.h"
#include "kvtransfer/mapped_region.h"
#include "kvtransfer/read_ranges.h"
#include "kvtransfer/region_copies.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/transport_address.h"
#include "kvtransfer/transports/grpc/block_reader.h"
#include "kvtransfer/transports/grpc/block_server.h"
#include "kvtransfer/wake_event.h"

namespace baton::kvtransfer {
namespace {

class GrpcTransport final : public Transport {
 public:
  explicit GrpcTransport(const TransportOptions& options) : options_(options) {}

  absl::Status Init() {
    const auto wake = [this] { wake_.Wake(); };
    BATON_ASSIGN_OR_RETURN(copies_, RegionCopies::Create(options_.memory));
    BATON_ASSIGN_OR_RETURN(server_, BlockServer::Create(options_, grants(), *copies_, wake));
    reader_ = std::make_unique<BlockReader>(*copies_, wake, options_.stall_timeout_ms, options_.credentials);
    return absl::OkStatus();
  }

  std::string_view name() const override { return "grpc"; }
  bool shares_memory() const override { return false; }
  absl::StatusOr<absl::Span<uint8_t>> AllocateRegion(size_t bytes) override;
  absl::StatusOr<std::string> Address() override;
  absl::StatusOr<PeerId> Connect(std::string_view address) override;
  std::string_view PathOf(PeerId peer) const override { return peers_.contains(peer) ? "grpc" : ""; }
  absl::StatusOr<ReadId> StartRead(PeerId peer, const Id128& fetch, absl::Span<const CopyRange> ranges) override;
  absl::StatusOr<ReadId> StartProbe(PeerId peer, size_t bytes) override;
  void Poll(std::vector<ReadCompletion>& completions) override;
  void WaitForEvent(int64_t timeout_ns) override;
  void Wake() override { wake_.Wake(); }
  void Disconnect(PeerId peer) override;

 private:
  struct Peer {
    Id128 nonce;
    RegionLayout layout;
  };

  absl::StatusOr<uint8_t*> AllocateBytes(size_t bytes);
  absl::StatusOr<const Peer*> Find(PeerId peer) const;
  absl::StatusOr<ReadId> Start(PeerId id, const Peer& peer, const Id128& fetch, std::vector<CopyRange> ranges);

  const TransportOptions options_;
  WakeEvent wake_;
  // The server and the reader end before the memory that they read and write.
  std::unique_ptr<MappedRegion> host_memory_;
  std::unique_ptr<RegionCopies> copies_;
  std::unique_ptr<BlockServer> server_;
  std::unique_ptr<BlockReader> reader_;
  uint8_t* base_ = nullptr;
  RegionLayout layout_{0};
  Id128 nonce_;
  std::map<PeerId, Peer> peers_;
  PeerId next_peer_ = 1;
  ReadId next_read_ = 1;
};

absl::StatusOr<uint8_t*> GrpcTransport::AllocateBytes(size_t bytes) {
  if (options_.memory != nullptr) return options_.memory->Allocate(bytes);
  BATON_ASSIGN_OR_RETURN(host_memory_, MappedRegion::Create(bytes));
  return host_memory_->base();
}

absl::StatusOr<absl::Span<uint8_t>> GrpcTransport::AllocateRegion(size_t bytes) {
  if (base_ != nullptr) return absl::FailedPreconditionError("the region is allocated once");
  BATON_RETURN_IF_ERROR(CheckRegionBytes(bytes, options_.memory));
  const RegionLayout layout(bytes);
  BATON_ASSIGN_OR_RETURN(base_, AllocateBytes(layout.total_bytes));
  layout_ = layout;
  nonce_ = SystemRandom().NextId();
  server_->Expose(nonce_, base_, layout_);
  return absl::MakeSpan(base_, bytes);
}

absl::StatusOr<std::string> GrpcTransport::Address() {
  if (base_ == nullptr) return absl::FailedPreconditionError("allocate the region first");
  TransportAddress address;
  address.nonce = nonce_;
  address.region_bytes = layout_.region_bytes;
  address.grpc_target = server_->target();
  return EncodeAddress(address);
}

absl::StatusOr<PeerId> GrpcTransport::Connect(std::string_view bytes) {
  if (base_ == nullptr) return absl::FailedPreconditionError("allocate the region first");
  BATON_ASSIGN_OR_RETURN(const TransportAddress address, DecodeAddress(bytes));
  if (peers_.size() >= kMaxPeers) return absl::ResourceExhaustedError("too many transport peers");
  if (address.grpc_target.empty()) {
    return absl::UnavailableError("the peer does not serve its KV over gRPC: give all workers the same --transport");
  }
  const PeerId peer = next_peer_++;
  reader_->Connect(peer, address.grpc_target);
  peers_.emplace(peer, Peer{.nonce = address.nonce, .layout = RegionLayout(address.region_bytes)});
  return peer;
}

absl::StatusOr<const GrpcTransport::Peer*> GrpcTransport::Find(PeerId peer) const {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return absl::NotFoundError("the transport peer is not connected");
  return &it->second;
}

absl::StatusOr<ReadId> GrpcTransport::StartRead(PeerId id, const Id128& fetch, absl::Span<const CopyRange> ranges) {
  BATON_ASSIGN_OR_RETURN(const Peer* const peer, Find(id));
  BATON_RETURN_IF_ERROR(
      CheckRanges(ranges, {.remote_bytes = peer->layout.region_bytes, .local_bytes = layout_.region_bytes}));
  return Start(id, *peer, fetch, Coalesce(ranges));
}

absl::StatusOr<ReadId> GrpcTransport::StartProbe(PeerId id, size_t bytes) {
  BATON_ASSIGN_OR_RETURN(const Peer* const peer, Find(id));
  if (bytes > kMaxProbeBytes) return absl::OutOfRangeError("the probe is too long");
  return Start(
      id, *peer, /*fetch=*/{},
      Coalesce({{.remote_offset = peer->layout.probe_offset, .local_offset = layout_.probe_offset, .bytes = bytes}}));
}

absl::StatusOr<ReadId> GrpcTransport::Start(PeerId id, const Peer& peer, const Id128& fetch,
                                            std::vector<CopyRange> ranges) {
  if (reader_->in_flight(id) >= kMaxReadsInFlight) return absl::ResourceExhaustedError("too many reads in flight");
  const ReadId read = next_read_++;
  reader_->Add(
      {.read = read, .peer = id, .nonce = peer.nonce, .fetch = fetch, .local = base_, .ranges = std::move(ranges)});
  return read;
}

void GrpcTransport::Poll(std::vector<ReadCompletion>& completions) {
  if (base_ != nullptr) server_->Poll();
  reader_->Poll(completions);
}

void GrpcTransport::WaitForEvent(int64_t timeout_ns) {
  if (reader_->NeedsPoll() || server_->NeedsPoll()) return;
  if (reader_->NextTimer() != kNever) {
    timeout_ns = std::min(timeout_ns, reader_->NextTimer() - MonotonicClock().Now());
  }
  wake_.Wait({}, timeout_ns);
}

void GrpcTransport::Disconnect(PeerId peer) {
  if (peers_.erase(peer) > 0) reader_->Disconnect(peer);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeGrpcTransport(const TransportOptions& options) {
  auto transport = std::make_unique<GrpcTransport>(options);
  BATON_RETURN_IF_ERROR(transport->Init());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace baton::kvtransfer
