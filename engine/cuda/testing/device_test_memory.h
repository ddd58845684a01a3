// The pool of a CUDA runner, for engine/testing/run_sequences.h.
#ifndef BATON_ENGINE_CUDA_TESTING_DEVICE_TEST_MEMORY_H_
#define BATON_ENGINE_CUDA_TESTING_DEVICE_TEST_MEMORY_H_

#include <memory>
#include <utility>
#include <vector>

#include "common/check.h"
#include "engine/cuda/cuda_runner.h"
#include "engine/testing/run_sequences.h"

namespace baton::engine::cuda {

class DeviceTestMemory final : public TestMemory {
 public:
  DeviceTestMemory(const Device& device, size_t block_bytes, int count) : stream_(*Stream::Create(device)) {
    auto pool = DeviceKvPool::Create(device, block_bytes, count, {});
    BATON_CHECK(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }

  KvPool& pool() override { return *pool_; }
  std::vector<uint8_t> Read(BlockId block) const override {
    std::vector<uint8_t> bytes(pool_->block_bytes());
    stream_.CopyToHost(bytes.data(), At(block), bytes.size());
    stream_.Synchronize();
    return bytes;
  }
  void Fill(BlockId block, uint8_t value) override {
    stream_.SetBytes(At(block), value, pool_->block_bytes());
    stream_.Synchronize();
  }
  void Write(BlockId block, const std::vector<uint8_t>& bytes) {
    stream_.CopyToDevice(At(block), bytes.data(), bytes.size());
    stream_.Synchronize();
  }

 private:
  CUdeviceptr At(BlockId block) const {
    return reinterpret_cast<CUdeviceptr>(pool_->memory().base) + static_cast<size_t>(block) * pool_->block_bytes();
  }

  Stream stream_;
  std::unique_ptr<DeviceKvPool> pool_;
};

// `runner` is a CudaRunner.
inline std::unique_ptr<TestMemory> MakeDeviceTestMemory(ModelRunner& runner, int count) {
  const Device& device = dynamic_cast<CudaRunner&>(runner).device();
  return std::make_unique<DeviceTestMemory>(device, runner.kv_layout().block_bytes(), count);
}

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_TESTING_DEVICE_TEST_MEMORY_H_
