#include "kvtransfer/transports/ucx/ucx_transport.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/memory_access.h"
#include "common/random.h"
#include "common/status.h"
#include "kvtransfer/copy_queue.h"
#include "kvtransfer/mapped_region.h"
#include "kvtransfer/read_ranges.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/transport_address.h"
#include "kvtransfer/transports/ucx/device_reads.h"
#include "kvtransfer/transports/ucx/network_worker.h"
#include "kvtransfer/transports/ucx/piece_reader.h"
#include "kvtransfer/transports/ucx/piece_server.h"
#include "kvtransfer/transports/ucx/shm_mapping.h"
#include "kvtransfer/transports/ucx/tcp_device.h"
#include "kvtransfer/transports/ucx/ucx_worker.h"
#include "kvtransfer/wake_event.h"

namespace baton::kvtransfer {
namespace {

constexpr std::string_view kShmPath = "shm";
constexpr std::string_view kDevicePath = "cuda_ipc";
constexpr std::string_view kTcpPath = "tcp";
constexpr std::string_view kRdmaPath = "rdma";
constexpr int kShmProgressCallsPerPoll = 4;
constexpr int kServerProgressCallsPerPoll = 16;

class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(const TransportOptions& options) : options_(options) {}
  ~UcxTransport() override;
  absl::Status Init();

  std::string_view name() const override;
  bool shares_memory() const override {
    return shm_worker_ != nullptr || (device_ != nullptr && !device_->share().empty());
  }
  absl::StatusOr<absl::Span<uint8_t>> AllocateRegion(size_t bytes) override;
  absl::StatusOr<std::string> Address() override;
  absl::StatusOr<PeerId> Connect(std::string_view address) override;
  std::string_view PathOf(PeerId peer) const override;
  absl::StatusOr<ReadId> StartRead(PeerId peer, const Id128& fetch, absl::Span<const CopyRange> ranges) override;
  absl::StatusOr<ReadId> StartProbe(PeerId peer, size_t bytes) override;
  void Poll(std::vector<ReadCompletion>& completions) override;
  void WaitForEvent(int64_t timeout_ns) override;
  void Wake() override { wake_.Wake(); }
  void Disconnect(PeerId peer) override;

 private:
  struct Peer {
    RegionLayout layout;
    // What PathOf says.
    std::string_view path;
    // With kShmPath.
    std::unique_ptr<ShmMapping> mapping = nullptr;
  };

  bool is_rdma() const { return options_.kind == TransportKind::kRdma; }
  // With workers that `make` makes.
  absl::Status InitNetwork(absl::FunctionRef<absl::StatusOr<std::unique_ptr<UcxWorker>>()> make);
  absl::StatusOr<uint8_t*> AllocateBytes(size_t bytes);
  // Lets UCX move the bytes by itself.
  absl::Status RegisterMemory(uint8_t* base, size_t bytes);
  // Makes the peer one whose memory is read without its help.
  absl::Status ConnectToMemory(PeerId id, const TransportAddress& address, Peer& peer);
  absl::StatusOr<const Peer*> Find(PeerId peer) const;
  absl::StatusOr<ReadId> Start(PeerId id, const Peer& peer, const Id128& fetch, std::vector<CopyRange> ranges);

  const TransportOptions options_;
  WakeEvent wake_;
  // The order matters, as members are destroyed from the last to the first: mappings before the worker that made them,
  // the server before the memory that it sends from.
  std::unique_ptr<MappedRegion> private_memory_;
  std::unique_ptr<UcxWorker> shm_worker_;
  std::unique_ptr<PieceServer> server_;
  std::unique_ptr<PieceReader> reader_;
  // Where the region is a device's, and may be shared.
  std::unique_ptr<DeviceReads> device_;
  CopyQueue copies_;
  absl::flat_hash_map<PeerId, Peer> peers_;

  uint8_t* base_ = nullptr;
  RegionLayout layout_{0};
  Id128 nonce_;
  PeerId next_peer_ = 1;
  ReadId next_read_ = 1;
};

UcxTransport::~UcxTransport() = default;

absl::Status UcxTransport::Init() {
  if (is_rdma()) {
    BATON_ASSIGN_OR_RETURN(const std::string network, FindRdmaNetwork());
    return InitNetwork([&network] { return MakeRdmaWorker(network); });
  }
  if (options_.kind != TransportKind::kTcp && options_.memory != nullptr) {
    BATON_ASSIGN_OR_RETURN(device_, DeviceReads::Create(*options_.memory, [this] { wake_.Wake(); }));
  }
  if (options_.kind != TransportKind::kTcp && options_.memory == nullptr) {
    auto worker = MakeShmWorker();
    if (worker.ok()) {
      shm_worker_ = *std::move(worker);
    } else if (options_.kind == TransportKind::kShm || absl::IsFailedPrecondition(worker.status())) {
      return worker.status();
    } else {
      spdlog::warn("no shared memory between workers, TCP instead: {}", worker.status().ToString());
    }
  }
  if (options_.kind == TransportKind::kShm) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(TcpDevice device, FindTcpDevice(options_.bind));
  device.ports = options_.tcp_ports;
  return InitNetwork([&device] { return MakeTcpWorker(device); });
}

absl::Status UcxTransport::InitNetwork(absl::FunctionRef<absl::StatusOr<std::unique_ptr<UcxWorker>>()> make) {
  // Over RDMA, UCX moves a device's bytes by itself.
  MemoryAccess* const staged = is_rdma() ? nullptr : options_.memory;
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> serving, make());
  BATON_ASSIGN_OR_RETURN(
      server_, PieceServer::Create(std::move(serving),
                                   {.memory = staged, .offer_timeout_ms = options_.stall_timeout_ms}, grants()));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> reading, make());
  BATON_ASSIGN_OR_RETURN(reader_,
                         PieceReader::Create(std::move(reading), {.network = is_rdma() ? "RDMA" : "TCP",
                                                                  .stall_timeout_ms = options_.stall_timeout_ms,
                                                                  .memory = staged,
                                                                  .wake = [this] { wake_.Wake(); }}));
  return absl::OkStatus();
}

std::string_view UcxTransport::name() const {
  if (reader_ == nullptr) return "ucx-shm";
  if (is_rdma()) return "ucx-rdma";
  return shares_memory() ? "ucx" : "ucx-tcp";
}

// The allocator that is used decides whether peers may map the memory.
absl::StatusOr<uint8_t*> UcxTransport::AllocateBytes(size_t bytes) {
  if (options_.memory != nullptr) return options_.memory->Allocate(bytes);
  if (shm_worker_ != nullptr) {
    absl::StatusOr<uint8_t*> base = shm_worker_->AllocateMemory(bytes);
    if (base.ok()) return base;
    const absl::Status error = absl::ResourceExhaustedError(
        absl::StrCat("no shared memory of ", bytes, " bytes for the KV pool: ask for less (--kv-memory), or raise ",
                     "kernel.shmmax or kernel.shmall, or use --transport tcp: ", base.status().message()));
    if (options_.kind == TransportKind::kShm) return error;
    spdlog::warn("{}; TCP instead", std::string(error.message()));
    shm_worker_.reset();
  }
  BATON_ASSIGN_OR_RETURN(private_memory_, MappedRegion::Create(bytes));
  return private_memory_->base();
}

absl::Status UcxTransport::RegisterMemory(uint8_t* base, size_t bytes) {
  MemoryAccess* const memory = options_.memory;
  const bool is_cuda = memory != nullptr && memory->kind() == MemoryAccess::Kind::kCuda;
  if (memory != nullptr) memory->UseOnThisThread();
  for (UcxWorker* worker : {&server_->worker(), &reader_->worker()}) {
    BATON_RETURN_IF_ERROR(worker->RegisterMemory(base, bytes, is_cuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<uint8_t>> UcxTransport::AllocateRegion(size_t bytes) {
  if (base_ != nullptr) return absl::FailedPreconditionError("the region is allocated once");
  BATON_RETURN_IF_ERROR(CheckRegionBytes(bytes, options_.memory));
  const RegionLayout layout(bytes);
  BATON_ASSIGN_OR_RETURN(uint8_t* const base, AllocateBytes(layout.total_bytes));
  nonce_ = SystemRandom().NextId();
  if (options_.memory == nullptr) WriteLabel(base, layout, nonce_);
  if (device_ != nullptr) {
    const absl::Status shared = device_->Expose(base, layout, nonce_);
    if (!shared.ok() && options_.kind == TransportKind::kShm) return shared;
    if (!shared.ok()) spdlog::warn("KV goes through the host: {}", ToStd(shared.message()));
  }
  if (is_rdma()) BATON_RETURN_IF_ERROR(RegisterMemory(base, layout.total_bytes));
  if (server_ != nullptr) server_->Expose(nonce_, base, layout);
  layout_ = layout;
  base_ = base;
  return absl::MakeSpan(base_, bytes);
}

absl::StatusOr<std::string> UcxTransport::Address() {
  if (base_ == nullptr) return absl::FailedPreconditionError("allocate the region first");
  TransportAddress address;
  address.nonce = nonce_;
  address.region_bytes = layout_.region_bytes;
  address.base = reinterpret_cast<uintptr_t>(base_);
  if (shares_memory()) address.host = HostIdentity();
  if (device_ != nullptr) address.device_share = device_->share();
  if (shm_worker_ != nullptr) {
    BATON_ASSIGN_OR_RETURN(address.shm_worker, shm_worker_->Address());
    BATON_ASSIGN_OR_RETURN(address.shm_rkey, shm_worker_->PackRkey());
  }
  if (server_ != nullptr) {
    std::string& worker = is_rdma() ? address.rdma_worker : address.tcp_worker;
    BATON_ASSIGN_OR_RETURN(worker, server_->worker().Address());
  }
  std::string encoded = EncodeAddress(address);
  if (encoded.size() > kMaxAddressBytes) return absl::InternalError("this host has too many network addresses");
  return encoded;
}

absl::Status UcxTransport::ConnectToMemory(PeerId id, const TransportAddress& address, Peer& peer) {
  if (device_ != nullptr) {
    BATON_RETURN_IF_ERROR(device_->Connect(id, address));
    peer.path = kDevicePath;
    return absl::OkStatus();
  }
  if (shm_worker_ == nullptr) return absl::UnavailableError("this worker does not share memory");
  BATON_ASSIGN_OR_RETURN(peer.mapping, ShmMapping::Map(*shm_worker_, address));
  peer.path = kShmPath;
  return absl::OkStatus();
}

absl::StatusOr<PeerId> UcxTransport::Connect(std::string_view bytes) {
  if (base_ == nullptr) return absl::FailedPreconditionError("allocate the region first");
  BATON_ASSIGN_OR_RETURN(const TransportAddress address, DecodeAddress(bytes));
  if (peers_.size() >= kMaxPeers) return absl::ResourceExhaustedError("too many transport peers");
  const PeerId id = next_peer_;
  Peer peer{.layout = RegionLayout(address.region_bytes), .path = is_rdma() ? kRdmaPath : kTcpPath};
  if (const absl::Status unshared = ConnectToMemory(id, address, peer); !unshared.ok()) {
    if (reader_ == nullptr) return unshared;
    const PieceReader::Owner owner = {.nonce = address.nonce,
                                      .worker = is_rdma() ? address.rdma_worker : address.tcp_worker};
    if (absl::Status status = reader_->Connect(id, owner); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(status.message(), "; ", unshared.message()));
    }
    if (device_ != nullptr) spdlog::info("a peer's KV comes through the host, by TCP: {}", ToStd(unshared.message()));
  }
  ++next_peer_;
  peers_.emplace(id, std::move(peer));
  return id;
}

std::string_view UcxTransport::PathOf(PeerId peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? "" : it->second.path;
}

absl::StatusOr<const UcxTransport::Peer*> UcxTransport::Find(PeerId id) const {
  const auto it = peers_.find(id);
  if (it == peers_.end()) return absl::NotFoundError("the transport peer is not connected");
  if (it->second.path == kTcpPath || it->second.path == kRdmaPath) BATON_RETURN_IF_ERROR(reader_->CheckAlive(id));
  return &it->second;
}

absl::StatusOr<ReadId> UcxTransport::Start(PeerId id, const Peer& peer, const Id128& fetch,
                                           std::vector<CopyRange> ranges) {
  const size_t in_flight = peer.path == kDevicePath ? device_->in_flight(id)
                           : peer.path == kShmPath  ? copies_.in_flight(id)
                                                    : reader_->in_flight(id);
  if (in_flight >= kMaxReadsInFlight) return absl::ResourceExhaustedError("too many reads in flight");
  const ReadId read = next_read_++;
  if (peer.path == kDevicePath) {
    device_->Add({.read = read, .peer = id, .local = base_, .ranges = std::move(ranges)});
  } else if (peer.path == kShmPath) {
    for (const CopyRange& range : ranges) peer.mapping->Populate(range.remote_offset, range.bytes);
    copies_.Add(
        {.read = read, .peer = id, .remote = peer.mapping->base(), .local = base_, .ranges = std::move(ranges)});
  } else {
    reader_->Add({.read = read, .peer = id, .fetch = fetch, .local = base_, .ranges = std::move(ranges)});
  }
  return read;
}

absl::StatusOr<ReadId> UcxTransport::StartRead(PeerId id, const Id128& fetch, absl::Span<const CopyRange> ranges) {
  BATON_ASSIGN_OR_RETURN(const Peer* const peer, Find(id));
  BATON_RETURN_IF_ERROR(
      CheckRanges(ranges, {.remote_bytes = peer->layout.region_bytes, .local_bytes = layout_.region_bytes}));
  return Start(id, *peer, fetch, Coalesce(ranges));
}

absl::StatusOr<ReadId> UcxTransport::StartProbe(PeerId id, size_t bytes) {
  BATON_ASSIGN_OR_RETURN(const Peer* const peer, Find(id));
  if (bytes > kMaxProbeBytes) return absl::OutOfRangeError("the probe is too long");
  return Start(
      id, *peer, /*fetch=*/{},
      Coalesce({{.remote_offset = peer->layout.probe_offset, .local_offset = layout_.probe_offset, .bytes = bytes}}));
}

void UcxTransport::Poll(std::vector<ReadCompletion>& completions) {
  if (is_rdma() && options_.memory != nullptr) options_.memory->UseOnThisThread();
  if (shm_worker_ != nullptr) shm_worker_->Progress(kShmProgressCallsPerPoll);
  if (server_ != nullptr) {
    server_->worker().Progress(kServerProgressCallsPerPoll);
    server_->EndOldOffers();
  }
  if (reader_ != nullptr) reader_->Poll(completions);
  if (device_ != nullptr) device_->Poll(completions);
  copies_.Poll(completions);
}

void UcxTransport::WaitForEvent(int64_t timeout_ns) {
  if (copies_.in_flight() > 0 || (reader_ != nullptr && reader_->NeedsPoll()) ||
      (device_ != nullptr && device_->NeedsPoll())) {
    return;
  }
  std::array<int, kMaxWaitDescriptors> descriptors;
  size_t count = 0;
  for (UcxWorker* worker : {shm_worker_.get(), server_ == nullptr ? nullptr : &server_->worker(),
                            reader_ == nullptr ? nullptr : &reader_->worker()}) {
    if (worker == nullptr) continue;
    if (!worker->Arm()) return;
    descriptors[count++] = worker->event_fd();
  }
  if (reader_ != nullptr) {
    const TimeNs timer = std::min(reader_->NextTimer(), server_->NextTimer());
    if (timer != kNever) timeout_ns = std::min(timeout_ns, timer - MonotonicClock().Now());
  }
  wake_.Wait(absl::MakeConstSpan(descriptors.data(), count), timeout_ns);
}

void UcxTransport::Disconnect(PeerId id) {
  copies_.CancelPeer(id);
  if (device_ != nullptr) device_->Disconnect(id);
  if (reader_ != nullptr) reader_->Disconnect(id);
  peers_.erase(id);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeUcxTransport(const TransportOptions& options) {
  auto transport = std::make_unique<UcxTransport>(options);
  BATON_RETURN_IF_ERROR(transport->Init());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace baton::kvtransfer
