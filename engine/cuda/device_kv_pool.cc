#include "engine/cuda/device_kv_pool.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace baton::engine::cuda {

absl::StatusOr<std::unique_ptr<DeviceKvPool>> DeviceKvPool::Create(const Device& device, size_t block_bytes,
                                                                   int32_t blocks, absl::Span<uint8_t> region) {
  const size_t bytes = static_cast<size_t>(blocks + kSpareBlocks) * block_bytes;
  BATON_ASSIGN_OR_RETURN(BlockDigest digest, BlockDigest::Create(device, block_bytes));
  BATON_ASSIGN_OR_RETURN(Stream stream, Stream::Create(device));
  DeviceBuffer own;
  if (region.empty()) {
    BATON_ASSIGN_OR_RETURN(own, DeviceBuffer::Allocate(device, bytes));
    stream.SetBytes(own.address(), 0, bytes);
    stream.Synchronize();
    region = absl::MakeSpan(own.at<uint8_t>(), bytes);
  }
  BATON_CHECK(region.size() >= bytes) << region.size() << " bytes of " << bytes;
  const MemoryRange memory{
      .kind = MemoryKind::kDevice, .base = region.data(), .bytes = static_cast<size_t>(blocks) * block_bytes};
  return std::unique_ptr<DeviceKvPool>(
      new DeviceKvPool(std::move(own), memory, block_bytes, std::move(stream), std::move(digest)));
}

DeviceKvPool::DeviceKvPool(DeviceBuffer own, const MemoryRange& memory, size_t block_bytes, Stream stream,
                           BlockDigest digest)
    : KvPool(memory, block_bytes), own_(std::move(own)), stream_(std::move(stream)), digest_(std::move(digest)) {}

void DeviceKvPool::DoZero(size_t offset) {
  const absl::MutexLock lock(&mutex_);
  stream_.SetBytes(AddressOf(offset), 0, block_bytes());
  stream_.Synchronize();
}

void DeviceKvPool::DoDigests(absl::Span<const size_t> offsets, absl::Span<Digest128> digests) const {
  const absl::MutexLock lock(&mutex_);
  digest_.Take(AddressOf(0), offsets, digests, stream_);
}

}  // namespace baton::engine::cuda
