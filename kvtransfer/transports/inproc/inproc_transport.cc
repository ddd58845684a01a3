#include "kvtransfer/transports/inproc/inproc_transport.h"

#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/random.h"
#include "common/status.h"
#include "kvtransfer/copy_queue.h"
#include "kvtransfer/mapped_region.h"
#include "kvtransfer/read_ranges.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/transport_address.h"
#include "kvtransfer/wake_event.h"

namespace baton::kvtransfer {
namespace {

struct SharedRegion {
  SharedRegion(std::unique_ptr<MappedRegion> mapped, const RegionLayout& region_layout)
      : memory(std::move(mapped)), layout(region_layout) {}

  const std::unique_ptr<MappedRegion> memory;
  const RegionLayout layout;
  // Set when the owner is gone. The memory lives as long as this object.
  std::atomic<bool> closed{false};
};

// All regions of the process, by nonce. Thread-safe.
class RegionRegistry {
 public:
  void Add(const Id128& nonce, std::shared_ptr<SharedRegion> region) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    regions_[nonce] = std::move(region);
  }
  void Remove(const Id128& nonce) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    regions_.erase(nonce);
  }
  std::shared_ptr<SharedRegion> Find(const Id128& nonce) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto it = regions_.find(nonce);
    return it == regions_.end() ? nullptr : it->second;
  }

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<Id128, std::shared_ptr<SharedRegion>> regions_ ABSL_GUARDED_BY(mutex_);
};

// Never destroyed: a transport in static storage could outlive it otherwise.
RegionRegistry& Registry() {
  static RegionRegistry* const kRegistry = new RegionRegistry;
  return *kRegistry;
}

class InprocTransport final : public Transport {
 public:
  ~InprocTransport() override {
    if (region_ == nullptr) return;
    region_->closed = true;
    Registry().Remove(nonce_);
  }

  std::string_view name() const override { return "inproc"; }
  bool shares_memory() const override { return true; }

  absl::StatusOr<absl::Span<uint8_t>> AllocateRegion(size_t bytes) override {
    if (region_ != nullptr) return absl::FailedPreconditionError("the region is allocated once");
    BATON_RETURN_IF_ERROR(CheckRegionBytes(bytes));
    const RegionLayout layout(bytes);
    BATON_ASSIGN_OR_RETURN(auto memory, MappedRegion::Create(layout.total_bytes));
    nonce_ = SystemRandom().NextId();
    region_ = std::make_shared<SharedRegion>(std::move(memory), layout);
    Registry().Add(nonce_, region_);
    return absl::MakeSpan(region_->memory->base(), bytes);
  }

  absl::StatusOr<std::string> Address() override {
    if (region_ == nullptr) return absl::FailedPreconditionError("allocate the region first");
    TransportAddress address;
    address.nonce = nonce_;
    address.region_bytes = region_->layout.region_bytes;
    return EncodeAddress(address);
  }

  absl::StatusOr<PeerId> Connect(std::string_view address) override {
    if (region_ == nullptr) return absl::FailedPreconditionError("allocate the region first");
    BATON_ASSIGN_OR_RETURN(const TransportAddress decoded, DecodeAddress(address));
    if (peers_.size() >= kMaxPeers) return absl::ResourceExhaustedError("too many transport peers");
    std::shared_ptr<SharedRegion> region = Registry().Find(decoded.nonce);
    if (region == nullptr) return absl::UnavailableError("no such region in this process");
    const PeerId peer = next_peer_++;
    peers_.emplace(peer, std::move(region));
    return peer;
  }

  std::string_view PathOf(PeerId peer) const override { return peers_.contains(peer) ? "inproc" : ""; }

  absl::StatusOr<ReadId> StartRead(PeerId peer, const Id128&, absl::Span<const CopyRange> ranges) override {
    BATON_ASSIGN_OR_RETURN(SharedRegion * remote, Find(peer));
    BATON_RETURN_IF_ERROR(CheckRanges(
        ranges, {.remote_bytes = remote->layout.region_bytes, .local_bytes = region_->layout.region_bytes}));
    return Start(peer, *remote, Coalesce(ranges));
  }

  absl::StatusOr<ReadId> StartProbe(PeerId peer, size_t bytes) override {
    BATON_ASSIGN_OR_RETURN(SharedRegion * remote, Find(peer));
    if (bytes > kMaxProbeBytes) return absl::OutOfRangeError("the probe is too long");
    return Start(peer, *remote,
                 Coalesce({{.remote_offset = remote->layout.probe_offset,
                            .local_offset = region_->layout.probe_offset,
                            .bytes = bytes}}));
  }

  void Poll(std::vector<ReadCompletion>& completions) override { copies_.Poll(completions); }

  void WaitForEvent(int64_t timeout_ns) override {
    if (copies_.in_flight() == 0) wake_.Wait({}, timeout_ns);
  }
  void Wake() override { wake_.Wake(); }

  void Disconnect(PeerId peer) override {
    copies_.CancelPeer(peer);
    peers_.erase(peer);
  }

 private:
  absl::StatusOr<SharedRegion*> Find(PeerId peer) {
    const auto it = peers_.find(peer);
    if (it == peers_.end()) return absl::NotFoundError("the transport peer is not connected");
    if (it->second->closed) return absl::UnavailableError("the transport peer is gone");
    return it->second.get();
  }

  absl::StatusOr<ReadId> Start(PeerId peer, const SharedRegion& remote, std::vector<CopyRange> ranges) {
    if (copies_.in_flight(peer) >= kMaxReadsInFlight) return absl::ResourceExhaustedError("too many reads in flight");
    const ReadId read = next_read_++;
    copies_.Add({.read = read,
                 .peer = peer,
                 .remote = remote.memory->base(),
                 .local = region_->memory->base(),
                 .ranges = std::move(ranges)});
    return read;
  }

  std::shared_ptr<SharedRegion> region_;
  Id128 nonce_;
  absl::flat_hash_map<PeerId, std::shared_ptr<SharedRegion>> peers_;
  PeerId next_peer_ = 1;
  ReadId next_read_ = 1;
  CopyQueue copies_;
  WakeEvent wake_;
};

}  // namespace

std::unique_ptr<Transport> MakeInprocTransport() { return std::make_unique<InprocTransport>(); }

}  // namespace baton::kvtransfer
