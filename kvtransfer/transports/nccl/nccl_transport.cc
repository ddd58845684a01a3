#include "kvtransfer/transports/nccl/nccl_transport.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/memory_access.h"
#include "common/random.h"
#include "common/status.h"
#include "kvtransfer/read_ranges.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/transport_address.h"
#include "kvtransfer/transports/nccl/nccl_api.h"
#include "kvtransfer/transports/nccl/pair_reader.h"
#include "kvtransfer/transports/nccl/pair_server.h"
#include "kvtransfer/transports/nccl/stand_in_memory.h"
#include "kvtransfer/wake_event.h"

namespace baton::kvtransfer {
namespace {

class NcclTransport final : public Transport {
 public:
  explicit NcclTransport(NcclApi api) : api_(std::move(api)) {}

  absl::Status Init(const TransportOptions& options) {
    memory_ = options.memory;
    if (memory_ == nullptr) {
      BATON_ASSIGN_OR_RETURN(own_memory_, MakeStandInMemory(api_));
      memory_ = own_memory_.get();
    }
    const auto wake = [this] { wake_.Wake(); };
    BATON_ASSIGN_OR_RETURN(server_, PairServer::Create(options, api_, *memory_, grants(), wake));
    reader_ = std::make_unique<PairReader>(api_, *memory_, wake, options.stall_timeout_ms, options.credentials);
    return absl::OkStatus();
  }

  std::string_view name() const override { return "nccl"; }
  bool shares_memory() const override { return false; }
  absl::StatusOr<absl::Span<uint8_t>> AllocateRegion(size_t bytes) override;
  absl::StatusOr<std::string> Address() override;
  absl::StatusOr<PeerId> Connect(std::string_view address) override;
  std::string_view PathOf(PeerId peer) const override { return peers_.contains(peer) ? "nccl" : ""; }
  absl::StatusOr<ReadId> StartRead(PeerId peer, const Id128& fetch, absl::Span<const CopyRange> ranges) override;
  absl::StatusOr<ReadId> StartProbe(PeerId peer, size_t bytes) override;
  void Poll(std::vector<ReadCompletion>& completions) override;
  void WaitForEvent(int64_t timeout_ns) override;
  void Wake() override { wake_.Wake(); }
  void Disconnect(PeerId peer) override;

 private:
  absl::StatusOr<const RegionLayout*> Find(PeerId peer) const;
  absl::StatusOr<ReadId> Start(PeerId peer, const Id128& fetch, std::vector<CopyRange> ranges);

  const NcclApi api_;
  WakeEvent wake_;
  // The server and the reader end before the memory that they read and write.
  std::unique_ptr<MemoryAccess> own_memory_;
  MemoryAccess* memory_ = nullptr;
  std::unique_ptr<PairServer> server_;
  std::unique_ptr<PairReader> reader_;
  uint8_t* base_ = nullptr;
  RegionLayout layout_{0};
  Id128 nonce_;
  std::map<PeerId, RegionLayout> peers_;
  PeerId next_peer_ = 1;
  ReadId next_read_ = 1;
};

absl::StatusOr<absl::Span<uint8_t>> NcclTransport::AllocateRegion(size_t bytes) {
  if (base_ != nullptr) return absl::FailedPreconditionError("the region is allocated once");
  BATON_RETURN_IF_ERROR(CheckRegionBytes(bytes, own_memory_ == nullptr ? memory_ : nullptr));
  const RegionLayout layout(bytes);
  BATON_ASSIGN_OR_RETURN(base_, memory_->Allocate(layout.total_bytes));
  layout_ = layout;
  nonce_ = SystemRandom().NextId();
  server_->Expose(nonce_, base_, layout_);
  return absl::MakeSpan(base_, bytes);
}

absl::StatusOr<std::string> NcclTransport::Address() {
  if (base_ == nullptr) return absl::FailedPreconditionError("allocate the region first");
  TransportAddress address;
  address.nonce = nonce_;
  address.region_bytes = layout_.region_bytes;
  address.nccl_target = server_->target();
  return EncodeAddress(address);
}

absl::StatusOr<PeerId> NcclTransport::Connect(std::string_view bytes) {
  if (base_ == nullptr) return absl::FailedPreconditionError("allocate the region first");
  BATON_ASSIGN_OR_RETURN(const TransportAddress address, DecodeAddress(bytes));
  if (peers_.size() >= kMaxPeers) return absl::ResourceExhaustedError("too many transport peers");
  if (address.nccl_target.empty()) {
    return absl::UnavailableError("the peer does not serve its KV over NCCL: give all workers the same --transport");
  }
  const PeerId peer = next_peer_++;
  reader_->Connect(peer, address.nccl_target, address.nonce);
  peers_.emplace(peer, RegionLayout(address.region_bytes));
  return peer;
}

absl::StatusOr<const RegionLayout*> NcclTransport::Find(PeerId peer) const {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return absl::NotFoundError("the transport peer is not connected");
  BATON_RETURN_IF_ERROR(reader_->CheckAlive(peer));
  return &it->second;
}

absl::StatusOr<ReadId> NcclTransport::StartRead(PeerId peer, const Id128& fetch, absl::Span<const CopyRange> ranges) {
  BATON_ASSIGN_OR_RETURN(const RegionLayout* const remote, Find(peer));
  BATON_RETURN_IF_ERROR(
      CheckRanges(ranges, {.remote_bytes = remote->region_bytes, .local_bytes = layout_.region_bytes}));
  return Start(peer, fetch, Coalesce(ranges));
}

absl::StatusOr<ReadId> NcclTransport::StartProbe(PeerId peer, size_t bytes) {
  BATON_ASSIGN_OR_RETURN(const RegionLayout* const remote, Find(peer));
  if (bytes > kMaxProbeBytes) return absl::OutOfRangeError("the probe is too long");
  return Start(
      peer, /*fetch=*/{},
      Coalesce({{.remote_offset = remote->probe_offset, .local_offset = layout_.probe_offset, .bytes = bytes}}));
}

absl::StatusOr<ReadId> NcclTransport::Start(PeerId peer, const Id128& fetch, std::vector<CopyRange> ranges) {
  if (reader_->in_flight(peer) >= kMaxReadsInFlight) return absl::ResourceExhaustedError("too many reads in flight");
  const ReadId read = next_read_++;
  reader_->Add({.read = read, .peer = peer, .fetch = fetch, .local = base_, .ranges = std::move(ranges)});
  return read;
}

void NcclTransport::Poll(std::vector<ReadCompletion>& completions) {
  if (base_ != nullptr) server_->Poll();
  reader_->Poll(completions);
}

void NcclTransport::WaitForEvent(int64_t timeout_ns) {
  const TimeNs next = std::min(server_->NextTimer(), reader_->NextTimer());
  if (next != kNever) timeout_ns = std::min(timeout_ns, next - MonotonicClock().Now());
  wake_.Wait({}, timeout_ns);
}

void NcclTransport::Disconnect(PeerId peer) {
  if (peers_.erase(peer) > 0) reader_->Disconnect(peer);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeNcclTransport(const TransportOptions& options) {
  BATON_ASSIGN_OR_RETURN(NcclApi api, LoadNcclApi(options.nccl_library));
  auto transport = std::make_unique<NcclTransport>(std::move(api));
  BATON_RETURN_IF_ERROR(transport->Init(options));
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace baton::kvtransfer
