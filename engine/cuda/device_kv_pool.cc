#include "engine/cuda/device_kv_pool.h"

#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace baton::engine::cuda {

absl::StatusOr<std::unique_ptr<DeviceKvPool>> DeviceKvPool::Create(const Device& device, size_t block_bytes,
                                                                   int32_t blocks) {
  const size_t bytes = static_cast<size_t>(blocks + kSpareBlocks) * block_bytes;
  BATON_ASSIGN_OR_RETURN(DeviceBuffer memory, DeviceBuffer::Allocate(device, bytes));
  BATON_ASSIGN_OR_RETURN(PinnedBuffer staging, PinnedBuffer::Allocate(device, block_bytes));
  BATON_ASSIGN_OR_RETURN(Stream stream, Stream::Create(device));
  stream.SetBytes(memory.address(), 0, bytes);
  stream.Synchronize();
  return std::unique_ptr<DeviceKvPool>(
      new DeviceKvPool(std::move(memory), block_bytes, blocks, std::move(stream), std::move(staging)));
}

DeviceKvPool::DeviceKvPool(DeviceBuffer memory, size_t block_bytes, int32_t blocks, Stream stream, PinnedBuffer staging)
    : KvPool({.kind = MemoryKind::kDevice,
              .base = memory.at<uint8_t>(),
              .bytes = static_cast<size_t>(blocks) * block_bytes},
             block_bytes),
      buffer_(std::move(memory)),
      stream_(std::move(stream)),
      staging_(std::move(staging)) {}

void DeviceKvPool::DoZero(size_t offset) {
  const absl::MutexLock lock(&mutex_);
  stream_.SetBytes(buffer_.address() + offset, 0, block_bytes());
  stream_.Synchronize();
}

void DeviceKvPool::CopyOut(size_t offset) const {
  stream_.CopyToHost(staging_.at<void>(), buffer_.address() + offset, block_bytes());
  stream_.Synchronize();
}

Digest128 DeviceKvPool::DoDigest(size_t offset) const {
  const absl::MutexLock lock(&mutex_);
  CopyOut(offset);
  return DigestBytes(staging_.at<uint8_t>(), block_bytes());
}

void DeviceKvPool::SetRegion(absl::Span<uint8_t> region) {
  BATON_CHECK(region_.empty() && region.size() == memory().bytes) << region.size() << " bytes of " << memory().bytes;
  region_ = region;
}

uint8_t* DeviceKvPool::InRegion(size_t offset) const {
  BATON_CHECK(!region_.empty()) << "SetRegion comes first";
  return region_.data() + offset;
}

Digest128 DeviceKvPool::DoPublish(size_t offset) {
  uint8_t* const shown = InRegion(offset);
  const absl::MutexLock lock(&mutex_);
  CopyOut(offset);
  std::memcpy(shown, staging_.at<void>(), block_bytes());
  return DigestBytes(staging_.at<uint8_t>(), block_bytes());
}

// The bytes that are checked are those that are copied: a peer that writes the region meanwhile changes neither.
bool DeviceKvPool::DoTakeIn(size_t offset, const Digest128& digest) {
  const uint8_t* const brought = InRegion(offset);
  const absl::MutexLock lock(&mutex_);
  std::memcpy(staging_.at<void>(), brought, block_bytes());
  if (DigestBytes(staging_.at<uint8_t>(), block_bytes()) != digest) return false;
  stream_.CopyToDevice(buffer_.address() + offset, staging_.at<void>(), block_bytes());
  stream_.Synchronize();
  return true;
}

}  // namespace baton::engine::cuda
