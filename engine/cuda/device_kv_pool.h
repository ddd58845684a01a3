// KV blocks in the memory of a device, which takes their digests itself (block_digest.h).
#ifndef BATON_ENGINE_CUDA_DEVICE_KV_POOL_H_
#define BATON_ENGINE_CUDA_DEVICE_KV_POOL_H_

#include <bit>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/kv_pool.h"
#include "engine/cuda/block_digest.h"
#include "engine/cuda/device.h"

namespace baton::engine::cuda {

class DeviceKvPool final : public KvPool {
 public:
  // Blocks of memory behind those that the pool counts, which no sequence has: the rows that fill up a captured step
  // write there.
  static constexpr int32_t kSpareBlocks = 8;

  // At the beginning of `region`, zeroed memory of the device with room for the spare blocks too, which outlives the
  // pool; without a region in memory of the pool's own. The errors are those of BlockDigest::Create. The device
  // outlives the pool.
  static absl::StatusOr<std::unique_ptr<DeviceKvPool>> Create(const Device& device, size_t block_bytes, int32_t blocks,
                                                              absl::Span<uint8_t> region);

 private:
  DeviceKvPool(DeviceBuffer own, const MemoryRange& memory, size_t block_bytes, Stream stream, BlockDigest digest);

  // These return when the device has done it, so that a step of another stream comes after.
  void DoZero(size_t offset) override;
  void DoDigests(absl::Span<const size_t> offsets, absl::Span<Digest128> digests) const override;

  CUdeviceptr AddressOf(size_t offset) const { return std::bit_cast<CUdeviceptr>(memory().base + offset); }

  // Empty where the pool lies in a region.
  const DeviceBuffer own_;
  mutable absl::Mutex mutex_;
  const Stream stream_ ABSL_GUARDED_BY(mutex_);
  const BlockDigest digest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_DEVICE_KV_POOL_H_
