// KV blocks in the memory of a device. Hand-offs go through a region of the host, which has room for every block: a
// block is copied there when it is published, and from there when it is taken in.
#ifndef BATON_ENGINE_CUDA_DEVICE_KV_POOL_H_
#define BATON_ENGINE_CUDA_DEVICE_KV_POOL_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/kv_pool.h"
#include "engine/cuda/device.h"

namespace baton::engine::cuda {

class DeviceKvPool final : public KvPool {
 public:
  // Blocks of memory behind those that the pool counts, which no sequence has: the rows that fill up a captured step
  // write there.
  static constexpr int32_t kSpareBlocks = 8;

  // All bytes are zero. RESOURCE_EXHAUSTED. The device outlives the pool.
  static absl::StatusOr<std::unique_ptr<DeviceKvPool>> Create(const Device& device, size_t block_bytes, int32_t blocks);

  void SetRegion(absl::Span<uint8_t> region) override;

 private:
  DeviceKvPool(DeviceBuffer memory, size_t block_bytes, int32_t blocks, Stream stream, PinnedBuffer staging);

  // These return when the device has done it, so that a step of another stream comes after.
  void DoZero(size_t offset) override;
  Digest128 DoDigest(size_t offset) const override;
  Digest128 DoPublish(size_t offset) override;
  bool DoTakeIn(size_t offset, const Digest128& digest) override;
  uint8_t* InRegion(size_t offset) const;
  // Copies the block to `staging_`, and waits.
  void CopyOut(size_t offset) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DeviceBuffer buffer_;
  absl::Span<uint8_t> region_;
  mutable absl::Mutex mutex_;
  const Stream stream_ ABSL_GUARDED_BY(mutex_);
  const PinnedBuffer staging_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_DEVICE_KV_POOL_H_
