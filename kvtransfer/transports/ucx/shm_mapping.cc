#include "kvtransfer/transports/ucx/shm_mapping.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/memory/memory.h"
#include "common/populate_pages.h"
#include "common/status.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/transports/ucx/ucx_library.h"

namespace baton::kvtransfer {
namespace {

// Only SysV memory: it is backed page by page when touched, needs no room in /dev/shm (64 MiB in a container by
// default), and is freed when its last user ends, however that user ends. UCX writes POSIX memory from end to end when
// it allocates it: that takes 2 s a GiB, fills /dev/shm or the machine when the region is too large, and leaves the
// file behind when the process is killed meanwhile.
constexpr char kShmTransports[] = "sysv,self";
constexpr char kShmAllocators[] = "md:sysv";

constexpr uint64_t kPieceBytes = uint64_t{2} << 20;

// Copies like memcpy, but fails instead of crashing when the mapping is shorter than its address says: the bytes go
// through a pipe, and the kernel checks the source of a write. `bytes` is at most PIPE_BUF.
bool CopyIfMapped(const uint8_t* from, void* to, size_t bytes) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  const auto size = static_cast<ssize_t>(bytes);
  const bool copied = write(fds[1], from, bytes) == size && read(fds[0], to, bytes) == size;
  close(fds[0]);
  close(fds[1]);
  return copied;
}

bool IsRegion(const uint8_t* base, const TransportAddress& address) {
  const RegionLayout layout(address.region_bytes);
  RegionLabel label;
  uint8_t last = 0;
  return CopyIfMapped(base + layout.label_offset, &label, sizeof(label)) && label.magic == RegionLabel::kMagic &&
         label.nonce == address.nonce && CopyIfMapped(base + layout.total_bytes - 1, &last, 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxWorker>> MakeShmWorker() {
  return UcxWorker::Create(
      UCP_FEATURE_RMA,
      {{"TLS", kShmTransports}, {"ALLOC_PRIO", kShmAllocators}, {"RCACHE_ENABLE", "n"}, {"WARN_INVALID_CONFIG", "n"}});
}

absl::StatusOr<std::unique_ptr<ShmMapping>> ShmMapping::Map(UcxWorker& worker, const TransportAddress& address) {
  if (address.shm_worker.empty()) return absl::UnavailableError("the peer does not share its memory");
  const std::string host = HostIdentity();
  if (host.empty() || host != address.host) {
    return absl::UnavailableError("the peer is on another host or in another IPC namespace");
  }
  auto mapping = absl::WrapUnique(new ShmMapping(worker));
  BATON_RETURN_IF_ERROR(mapping->Init(address));
  return mapping;
}

absl::Status ShmMapping::Init(const TransportAddress& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.address = reinterpret_cast<const ucp_address_t*>(address.shm_worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
  ucs_status_t status = Ucx().ucp_ep_create(worker_.handle(), &params, &endpoint_);
  if (status == UCS_OK) status = Ucx().ucp_ep_rkey_unpack(endpoint_, address.shm_rkey.data(), &rkey_);
  void* base = nullptr;
  if (status == UCS_OK) status = Ucx().ucp_rkey_ptr(rkey_, address.base, &base);
  // Whatever error UCX gives, it means that this peer cannot be reached by shared memory.
  if (status != UCS_OK) {
    return absl::UnavailableError(UcxError("mapping the peer's memory", status).message());
  }
  base_ = static_cast<const uint8_t*>(base);
  if (!IsRegion(base_, address)) return absl::UnavailableError("the peer's region is gone");
  bytes_ = RegionLayout(address.region_bytes).total_bytes;
  populated_.resize((bytes_ + kPieceBytes - 1) / kPieceBytes);
  return absl::OkStatus();
}

void ShmMapping::Populate(uint64_t offset, uint64_t bytes) {
  for (uint64_t piece = offset / kPieceBytes; piece * kPieceBytes < std::min(offset + bytes, bytes_); ++piece) {
    if (populated_[piece]) continue;
    populated_[piece] = true;
    const uint64_t begin = piece * kPieceBytes;
    MapPages({base_ + begin, std::min(kPieceBytes, bytes_ - begin)});
  }
}

ShmMapping::~ShmMapping() {
  if (rkey_ != nullptr) Ucx().ucp_rkey_destroy(rkey_);
  if (endpoint_ != nullptr) worker_.CloseEndpoint(endpoint_, /*force=*/false);
}

}  // namespace baton::kvtransfer
