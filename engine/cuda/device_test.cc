#include "engine/cuda/device.h"

#include "engine/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace baton::engine::cuda {
namespace {

using testing::HasSubstr;

constexpr char kImage[] = "an image";
const void* const kImages[] = {kImage};

std::string TextOf(const absl::Status& status) { return std::string(status.message()); }

std::unique_ptr<Device> OpenFake() {
  auto device = Device::Open(FakeDriverApi(), 0, kImages);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

TEST(Device, NamesADeviceThatTheDriverDoesNotSee) {
  const absl::Status status = Device::Open(FakeDriverApi(), 1, kImages).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(TextOf(status), "there is no CUDA device 1: the driver sees 1");
}

TEST(Device, SaysThatNoImageIsForTheDevice) {
  const DriverApi& api = FakeDriverApi();
  FakeDriver().module_result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  const absl::Status status = Device::Open(api, 0, kImages).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(TextOf(status), HasSubstr("no kernel image for CUDA device 0 (Fake 100, sm_75)"));
}

TEST(Device, NamesAKernelThatItsImagesLack) {
  const auto device = OpenFake();
  EXPECT_TRUE(device->Kernel("present", 100 << 10).ok());
  const absl::Status status = device->Kernel("absent", 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(TextOf(status), HasSubstr("kernel absent"));
}

TEST(Device, MemoryThatIsShortIsAStatusAndMemoryIsGivenBack) {
  const auto device = OpenFake();
  FakeDriver().most_bytes = 1000;
  {
    const auto buffer = DeviceBuffer::Allocate(*device, 1000);
    const auto pinned = PinnedBuffer::Allocate(*device, 1000);
    ASSERT_TRUE(buffer.ok() && pinned.ok());
    EXPECT_EQ(FakeDriver().allocations, 2);
  }
  EXPECT_EQ(FakeDriver().allocations, 0);
  const absl::Status status = DeviceBuffer::Allocate(*device, 1001).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(TextOf(status), HasSubstr("1001 bytes of device memory: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_EQ(PinnedBuffer::Allocate(*device, 1001).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Device, AFailureInAStepEndsTheProcessWithItsReason) {
  const auto device = OpenFake();
  const auto stream = Stream::Create(*device);
  ASSERT_TRUE(stream.ok());
  stream->Launch(nullptr, {.x = 3}, 0);
  EXPECT_EQ(FakeDriver().launches, std::vector<unsigned>{3});
  const auto launch = [&stream](CUresult result) {
    spdlog::set_default_logger(spdlog::stderr_logger_st("device_test"));
    FakeDriver().launch_result = result;
    stream->Launch(nullptr, {}, 0);
  };
  EXPECT_DEATH(
      launch(CUDA_ERROR_ILLEGAL_ADDRESS),
      "CUDA device 0 \\(Fake 100\\) has failed, so this process ends: cuLaunchKernel: CUDA_ERROR_OF_TEST \\(as "
      "the test wants\\). The next process can use the device.*bug of Baton\\.");
  EXPECT_DEATH(launch(CUDA_ERROR_ECC_UNCORRECTABLE), "The hardware is at fault");
  EXPECT_DEATH(launch(CUDA_ERROR_OUT_OF_MEMORY), "a smaller --kv-memory");
  EXPECT_DEATH(launch(CUDA_ERROR_LAUNCH_TIMEOUT), "see nvidia-smi and the kernel's log");
}

}  // namespace
}  // namespace baton::engine::cuda
