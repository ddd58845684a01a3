// The fat binary of the plug-in, as the interpreter reads it.
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/cuda/kernel_set.h"
#include "engine/cuda/kernels/images.h"
#include "gtest/gtest.h"
#include "tests/cuda/test_device.h"
#include "tests/ptx/fat_binary.h"
#include "tests/ptx/interpreted_driver.h"

namespace baton::engine::cuda {
namespace {

constexpr size_t kHeaderBytes = 16;
constexpr int kTarget = 80;

TEST(PluginImage, HoldsPlainPtxOfEveryKernel) {
  ASSERT_TRUE(ptx::IsFatBinary(KernelsImage()));
  const auto text = ptx::PtxOfFatBinary(KernelsImage(), kTarget);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_NE(text->find(".target sm_80"), std::string::npos);
  ASSERT_EQ(ptx::InterpretedDriver().init(0), CUDA_SUCCESS);
  const void* const images[] = {KernelsImage()};
  const auto device = Device::Open(ptx::InterpretedDriver(), 0, images);
  ASSERT_TRUE(device.ok()) << device.status();
  const auto kernels = KernelSet::Load(**device);
  EXPECT_TRUE(kernels.ok()) << kernels.status();
}

TEST(PluginImage, IsRefusedWhereItIsCut) {
  const auto* const begin = static_cast<const uint8_t*>(KernelsImage());
  const std::vector<uint8_t> whole(begin, begin + KernelsImageBytes());
  for (const size_t missing : {1, 8, 64, 1000, 500'000}) {
    const uint64_t bytes = whole.size() - kHeaderBytes - missing;
    std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(kHeaderBytes + bytes));
    std::memcpy(cut.data() + 8, &bytes, sizeof(bytes));
    EXPECT_EQ(ptx::PtxOfFatBinary(cut.data(), kTarget).status().code(), absl::StatusCode::kInvalidArgument) << missing;
  }
}

}  // namespace
}  // namespace baton::engine::cuda
