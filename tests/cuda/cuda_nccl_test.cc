// The stand-in of NCCL (tests/nccl) over the memory and the streams of the emulated driver, which LD_LIBRARY_PATH
// names: the rules of a stream, without which a cluster that uses both would prove little.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "engine/cuda/cuda_memory.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/nccl_stand_in.h"

namespace baton::engine::cuda {
namespace {

namespace nccl = kvtransfer::nccl;
using kvtransfer::StandIn;

// More than one chunk of the stand-in's.
constexpr size_t kMovedBytes = 200'000;

std::vector<uint8_t> BytesOf(uint8_t first) {
  std::vector<uint8_t> bytes(kMovedBytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(first + i * 7 + i / 256);
  return bytes;
}

// A rank with a region of the device.
class DeviceRank {
 public:
  DeviceRank(const Device& device, int number, const nccl::UniqueId& id) : memory(device), number_(number) {
    base = memory.Allocate(kMovedBytes).value();
    stream = memory.CreateStream().value();
    nccl::Config config;
    config.blocking = 0;
    EXPECT_EQ(StandIn().comm_init_rank_config(&comm_, 2, id, number, &config), nccl::kInProgress);
  }
  ~DeviceRank() {
    Abort();
    memory.DestroyStream(stream);
  }
  DeviceRank(const DeviceRank&) = delete;
  DeviceRank& operator=(const DeviceRank&) = delete;

  void Abort() {
    if (comm_ != nullptr) StandIn().comm_abort(comm_);
    comm_ = nullptr;
  }
  void AwaitSettled() const {
    nccl::Result error = nccl::kInProgress;
    while (error == nccl::kInProgress) {
      std::this_thread::yield();
      EXPECT_EQ(StandIn().comm_get_async_error(comm_, &error), nccl::kSuccess);
    }
    EXPECT_EQ(error, nccl::kSuccess);
  }
  void Send() const {
    EXPECT_EQ(StandIn().send(base, kMovedBytes, nccl::kUint8, 1 - number_, comm_, stream), nccl::kInProgress);
    AwaitSettled();
  }
  void Receive() const {
    EXPECT_EQ(StandIn().receive(base, kMovedBytes, nccl::kUint8, 1 - number_, comm_, stream), nccl::kInProgress);
    AwaitSettled();
  }
  // On a stream of its own.
  std::vector<uint8_t> Read() {
    std::vector<uint8_t> bytes(kMovedBytes);
    const MemoryAccess::Stream other = memory.CreateStream().value();
    EXPECT_EQ(memory.CopyOut(absl::MakeSpan(bytes), base, other), absl::OkStatus());
    EXPECT_EQ(memory.Synchronize(other), absl::OkStatus());
    memory.DestroyStream(other);
    return bytes;
  }

  CudaMemory memory;
  uint8_t* base = nullptr;
  MemoryAccess::Stream stream = nullptr;

 private:
  const int number_;
  nccl::Comm comm_ = nullptr;
};

class CudaNcclTest : public testing::Test {
 protected:
  static std::unique_ptr<Device> OpenDevice() {
    const absl::StatusOr<const DriverApi*> api = LoadDriverApi();
    BATON_CHECK(api.ok()) << api.status();
    auto device = Device::Open(**api, 0, {});
    BATON_CHECK(device.ok()) << device.status();
    return *std::move(device);
  }
  static nccl::UniqueId DrawId() {
    nccl::UniqueId id;
    EXPECT_EQ(StandIn().get_unique_id(&id), nccl::kSuccess);
    return id;
  }
  void SetUp() override {
    owner_.AwaitSettled();
    reader_.AwaitSettled();
  }

  const std::unique_ptr<Device> device_ = OpenDevice();
  const nccl::UniqueId id_ = DrawId();
  DeviceRank owner_{*device_, 0, id_};
  DeviceRank reader_{*device_, 1, id_};
};

TEST_F(CudaNcclTest, ASendHasTheBytesThatItsStreamWroteBeforeIt) {
  const std::vector<uint8_t> older = BytesOf(1);
  const std::vector<uint8_t> newer = BytesOf(2);
  ASSERT_EQ(owner_.memory.CopyIn(owner_.base, older, owner_.stream), absl::OkStatus());
  std::atomic<bool> may_go_on = false;
  const auto hold = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
  };
  ASSERT_EQ(owner_.memory.CallWhenDone(owner_.stream, hold, &may_go_on), absl::OkStatus());
  ASSERT_EQ(owner_.memory.CopyIn(owner_.base, newer, owner_.stream), absl::OkStatus());
  owner_.Send();
  reader_.Receive();
  EXPECT_EQ(owner_.Read(), older) << "the stream was not held";
  may_go_on = true;
  EXPECT_EQ(owner_.memory.Synchronize(owner_.stream), absl::OkStatus());
  EXPECT_EQ(reader_.memory.Synchronize(reader_.stream), absl::OkStatus());
  EXPECT_EQ(reader_.Read(), newer);
}

TEST_F(CudaNcclTest, AReceiveHoldsItsStreamUntilItsBytesAreThere) {
  const std::vector<uint8_t> sent = BytesOf(3);
  ASSERT_EQ(owner_.memory.CopyIn(owner_.base, sent, owner_.stream), absl::OkStatus());
  reader_.Receive();
  std::vector<uint8_t> behind(kMovedBytes);
  ASSERT_EQ(reader_.memory.CopyOut(absl::MakeSpan(behind), reader_.base, reader_.stream), absl::OkStatus());
  owner_.Send();
  EXPECT_EQ(reader_.memory.Synchronize(reader_.stream), absl::OkStatus());
  EXPECT_EQ(behind, sent);
}

TEST_F(CudaNcclTest, OtherStreamsOfTheDeviceGoOnBesideAReceiveAndAnAbortEndsIt) {
  reader_.Receive();
  EXPECT_EQ(reader_.Read(), std::vector<uint8_t>(kMovedBytes));
  reader_.Abort();
  EXPECT_EQ(reader_.memory.Synchronize(reader_.stream), absl::OkStatus());
}

}  // namespace
}  // namespace baton::engine::cuda
