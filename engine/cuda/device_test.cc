#include "engine/cuda/device.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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

TEST(Device, CountsAsItsOwnWhatItAllocatedAndWhatTheDriverKeepsForIt) {
  const auto device = OpenFake();
  FakeDriver().total_bytes = size_t{16} << 30;
  const auto own_of = [&](size_t in_use) {
    FakeDriver().free_bytes = FakeDriver().total_bytes - in_use;
    const absl::StatusOr<DeviceMemory> memory = device->Memory();
    EXPECT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(memory->total, FakeDriver().total_bytes);
    EXPECT_EQ(memory->free, FakeDriver().free_bytes);
    return memory->own;
  };
  const size_t context = size_t{500} << 20;
  EXPECT_EQ(own_of(context), context);
  {
    const auto buffer = DeviceBuffer::Allocate(*device, 1000);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(own_of(context + 1000), context + 1000);
    // The rest is of other processes.
    EXPECT_EQ(own_of(size_t{9} << 30), Device::kMostDriverBytes + 1000);
    // A driver that counts in another way.
    EXPECT_EQ(own_of(10), 1000U);
  }
  EXPECT_EQ(own_of(context), context);
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

// The grids that may begin early, of one launch on a device.
std::vector<unsigned> OverlappingOn(int capability, int kernel_capability, bool overlaps = true) {
  const DriverApi& api = FakeDriverApi();
  FakeDriver().capability = capability;
  FakeDriver().kernel_capability = kernel_capability;
  const auto device = Device::Open(api, 0, kImages, overlaps);
  EXPECT_TRUE(device.ok()) << device.status();
  EXPECT_TRUE((*device)->Kernel("present", 0).ok());
  const auto stream = Stream::Create(**device);
  EXPECT_TRUE(stream.ok());
  stream->Launch(nullptr, {.x = 3}, 0);
  EXPECT_EQ(FakeDriver().launches, std::vector<unsigned>{3});
  return FakeDriver().overlapping;
}

TEST(Device, LaunchesOverlapWhereTheKernelsWaitByThemselves) {
  const std::vector<unsigned> none;
  EXPECT_EQ(OverlappingOn(90, 90), std::vector<unsigned>{3});
  EXPECT_EQ(OverlappingOn(89, 80), none);
  // The driver made the kernel of PTX for an older device.
  EXPECT_EQ(OverlappingOn(120, 80), none);
  EXPECT_EQ(OverlappingOn(90, 90, /*overlaps=*/false), none);
}

// A kernel that lacks it would read what the one before has not written yet, which only a GPU of sm_90 could show.
TEST(Device, EveryKernelFirstWaitsForThoseBefore) {
  int kernels = 0;
  for (const auto& entry : std::filesystem::directory_iterator(BATON_SOURCE_DIR "/engine/cuda/kernels")) {
    if (entry.path().extension() != ".cu") continue;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    for (size_t at = 0; (at = text.find("__global__", at)) != std::string::npos; ++at) {
      const size_t body = text.find("{", at);
      EXPECT_EQ(text.find("AwaitKernelsBefore();", at), text.find_first_not_of("{ \n", body)) << entry.path();
      ++kernels;
    }
  }
  EXPECT_GE(kernels, 16);
}

}  // namespace
}  // namespace baton::engine::cuda
