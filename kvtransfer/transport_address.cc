#include "kvtransfer/transport_address.h"

#include <limits.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/digest.h"
#include "kvtransfer/region_layout.h"

namespace baton::kvtransfer {
namespace {

// The last character is the version. An address is written in the first version that has a place for what it has:
// workers that read no later one are peers of the same protocol, and join the same group.
constexpr std::string_view kMagic = "BATONKV1";
constexpr std::string_view kMagicWithGrpc = "BATONKV2";
constexpr std::string_view kMagicWithNccl = "BATONKV3";
constexpr std::string_view kMagicWithDevice = "BATONKV4";
constexpr std::string_view kMagicWithRdma = "BATONKV5";
static_assert(kMagic.size() == kMagicWithGrpc.size() && kMagic.size() == kMagicWithNccl.size() &&
              kMagic.size() == kMagicWithDevice.size() && kMagic.size() == kMagicWithRdma.size());
constexpr size_t kDigestBytes = 2 * sizeof(uint64_t);

void PutU64(std::string& out, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(value >> shift & 0xff));
}

void PutBytes(std::string& out, std::string_view bytes) {
  PutU64(out, bytes.size());
  out.append(bytes);
}

void PutDigest(std::string& out) {
  const Digest128 digest = DigestBytes(out.data(), out.size());
  PutU64(out, digest.high);
  PutU64(out, digest.low);
}

// Takes values off the front of the bytes. After the first failure every value that it returns is zero or empty.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : rest_(bytes) {}

  uint64_t U64() {
    const std::string_view raw = Take(sizeof(uint64_t));
    uint64_t value = 0;
    for (size_t i = 0; i < raw.size(); ++i) value |= uint64_t{static_cast<uint8_t>(raw[i])} << (8 * i);
    return value;
  }
  std::string Bytes() { return std::string(Take(U64())); }
  bool finished() const { return ok_ && rest_.empty(); }

 private:
  std::string_view Take(uint64_t count) {
    if (!ok_ || count > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  bool ok_ = true;
};

absl::Status Damaged(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("transport address is damaged: ", absl::string_view(what.data(), what.size())));
}

}  // namespace

std::string EncodeAddress(const TransportAddress& address) {
  const bool has_rdma = !address.rdma_worker.empty();
  const bool has_device = has_rdma || !address.device_share.empty();
  const bool has_nccl = has_device || !address.nccl_target.empty();
  const bool has_grpc = has_nccl || !address.grpc_target.empty();
  std::string out(has_rdma     ? kMagicWithRdma
                  : has_device ? kMagicWithDevice
                  : has_nccl   ? kMagicWithNccl
                  : has_grpc   ? kMagicWithGrpc
                               : kMagic);
  PutU64(out, address.nonce.high);
  PutU64(out, address.nonce.low);
  PutU64(out, address.region_bytes);
  PutU64(out, address.base);
  PutBytes(out, address.host);
  PutBytes(out, address.shm_worker);
  PutBytes(out, address.shm_rkey);
  PutBytes(out, address.tcp_worker);
  if (has_grpc) PutBytes(out, address.grpc_target);
  if (has_nccl) PutBytes(out, address.nccl_target);
  if (has_device) PutBytes(out, address.device_share);
  if (has_rdma) PutBytes(out, address.rdma_worker);
  PutDigest(out);
  return out;
}

absl::StatusOr<TransportAddress> DecodeAddress(std::string_view bytes) {
  if (bytes.size() > kMaxAddressBytes) return Damaged("it is too long");
  if (bytes.size() < kMagic.size() + kDigestBytes) return Damaged("it is too short");
  const std::string_view magic = bytes.substr(0, kMagic.size());
  const bool has_rdma = magic == kMagicWithRdma;
  const bool has_device = has_rdma || magic == kMagicWithDevice;
  const bool has_nccl = has_device || magic == kMagicWithNccl;
  const bool has_grpc = has_nccl || magic == kMagicWithGrpc;
  if (!has_grpc && magic != kMagic) return Damaged("it is of another kind or version");
  const std::string_view content = bytes.substr(0, bytes.size() - kDigestBytes);
  std::string expected(content);
  PutDigest(expected);
  if (expected != bytes) return Damaged("its digest differs");

  Cursor cursor(content.substr(kMagic.size()));
  TransportAddress address;
  address.nonce.high = cursor.U64();
  address.nonce.low = cursor.U64();
  address.region_bytes = cursor.U64();
  address.base = cursor.U64();
  address.host = cursor.Bytes();
  address.shm_worker = cursor.Bytes();
  address.shm_rkey = cursor.Bytes();
  address.tcp_worker = cursor.Bytes();
  if (has_grpc) address.grpc_target = cursor.Bytes();
  if (has_nccl) address.nccl_target = cursor.Bytes();
  if (has_device) address.device_share = cursor.Bytes();
  if (has_rdma) address.rdma_worker = cursor.Bytes();
  if (address.shm_worker.empty() != address.shm_rkey.empty()) return Damaged("shared memory has one half");
  if (has_grpc && !has_nccl && address.grpc_target.empty()) return Damaged("it names no gRPC target");
  if (has_nccl && !has_device && address.nccl_target.empty()) return Damaged("it names no NCCL target");
  if (has_device && !has_rdma && address.device_share.empty()) return Damaged("it shares nothing of a device");
  if (has_rdma && address.rdma_worker.empty()) return Damaged("it has no worker for RDMA");
  if (!cursor.finished()) return Damaged("its lengths do not add up");
  if (address.region_bytes == 0 || address.region_bytes > kMaxRegionBytes)
    return Damaged("its region has no valid size");
  if (address.base > UINT64_MAX - RegionLayout(address.region_bytes).total_bytes) return Damaged("its region wraps");
  return address;
}

std::string HostIdentity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char ipc[PATH_MAX];
  const ssize_t length = readlink("/proc/self/ns/ipc", ipc, sizeof(ipc));
  if (boot.empty() || length <= 0) return "";
  return absl::StrCat(boot, "/", absl::string_view(ipc, length));
}

}  // namespace baton::kvtransfer
