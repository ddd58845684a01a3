// The memory of a device as transports reach it, also from another process.
#include "engine/cuda/cuda_memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/status.h"
#include "gtest/gtest.h"
#include "tests/cuda/test_device.h"

namespace baton::engine::cuda {
namespace {

// What another process of this test is to open.
constexpr char kShareVariable[] = "BATON_TEST_CUDA_SHARE";
constexpr size_t kBytes = 4u << 20;

std::vector<uint8_t> Pattern() {
  std::vector<uint8_t> bytes(kBytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 256);
  return bytes;
}

class CudaMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    base_ = *memory_.Allocate(kBytes);
    stream_ = *memory_.CreateStream();
  }
  void TearDown() override { memory_.DestroyStream(stream_); }

  std::vector<uint8_t> Read(const uint8_t* from) {
    const auto staging = *memory_.AllocateStaging(kBytes);
    EXPECT_EQ(memory_.CopyOut({staging->bytes(), kBytes}, from, stream_), absl::OkStatus());
    EXPECT_EQ(memory_.Synchronize(stream_), absl::OkStatus());
    return {staging->bytes(), staging->bytes() + kBytes};
  }

  const std::shared_ptr<const Device> device_ = TestDevice();
  CudaMemory memory_{*device_};
  uint8_t* base_ = nullptr;
  MemoryAccess::Stream stream_ = nullptr;
};

TEST_F(CudaMemoryTest, BytesComeInAndGoOutAndTheStreamTellsOfIt) {
  EXPECT_EQ(Read(base_), std::vector<uint8_t>(kBytes));
  const std::vector<uint8_t> pattern = Pattern();
  EXPECT_EQ(memory_.CopyIn(base_, pattern, stream_), absl::OkStatus());
  std::atomic<int> calls = 0;
  const auto count = [](void* argument) { static_cast<std::atomic<int>*>(argument)->fetch_add(1); };
  EXPECT_EQ(memory_.CallWhenDone(stream_, count, &calls), absl::OkStatus());
  EXPECT_EQ(memory_.Synchronize(stream_), absl::OkStatus());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(Read(base_), pattern);
}

TEST_F(CudaMemoryTest, WhatIsNoHandleIsRefusedAndItsOwnIsItself) {
  const auto share = memory_.Share();
  ASSERT_TRUE(share.ok()) << share.status();
  EXPECT_EQ((*memory_.Open(*share))->base(), base_);
  for (const std::string& bad : {std::string(), std::string("short"), std::string(share->size(), 'x')}) {
    EXPECT_EQ(memory_.Open(bad).status().code(), absl::StatusCode::kUnavailable) << bad;
  }
}

// Run by the test below in another process.
TEST_F(CudaMemoryTest, ReaderInAnotherProcess) {
  const char* const share = std::getenv(kShareVariable);
  if (share == nullptr) GTEST_SKIP() << "there is nobody to read from";
  const auto opened = memory_.Open(absl::HexStringToBytes(share));
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_NE((*opened)->base(), base_);
  EXPECT_EQ(memory_.CopyWithin(base_, (*opened)->base(), kBytes, stream_), absl::OkStatus());
  EXPECT_EQ(memory_.Synchronize(stream_), absl::OkStatus());
  EXPECT_EQ(Read(base_), Pattern());
}

TEST_F(CudaMemoryTest, AnotherProcessReadsIt) {
  ASSERT_EQ(memory_.CopyIn(base_, Pattern(), stream_), absl::OkStatus());
  ASSERT_EQ(memory_.Synchronize(stream_), absl::OkStatus());
  const auto share = memory_.Share();
  ASSERT_TRUE(share.ok()) << share.status();
  setenv(kShareVariable, absl::BytesToHexString(*share).c_str(), 1);
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "cuda_runner_test", "--gtest_filter=CudaMemoryTest.ReaderInAnotherProcess", nullptr);
    _exit(127);
  }
  unsetenv(kShareVariable);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace baton::engine::cuda
