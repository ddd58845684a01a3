// UCX over TCP with a region that only MemoryAccess may copy, as a device's memory.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/deferred_memory.h"
#include "kvtransfer/testing/transport_conformance.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {
namespace {

// The memories of the test that runs now: its transports are gone when the next one begins.
DeferredMemory* NewMemory() {
  static const testing::TestInfo* last_test = nullptr;
  static std::vector<std::unique_ptr<DeferredMemory>> memories;
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  if (std::exchange(last_test, test) != test) memories.clear();
  memories.push_back(std::make_unique<DeferredMemory>());
  return memories.back().get();
}

TransportFactory DeviceFactory(const std::string& label, TransportKind kind) {
  return {label, [kind] { return MakeTransport({.kind = kind, .memory = NewMemory()}); }, "tcp"};
}

INSTANTIATE_TEST_SUITE_P(Devices, TransportConformance,
                         testing::Values(DeviceFactory("UcxTcpDevice", TransportKind::kTcp),
                                         DeviceFactory("UcxAutoDevice", TransportKind::kAuto)),
                         FactoryName);

class DeviceMemoryTest : public testing::Test {
 protected:
  static constexpr Id128 kFetch{.high = 3, .low = 4};
  static constexpr size_t kBytes = 4u << 20;

  struct DeviceEnd : TransportEnd {
    DeferredMemory* memory = nullptr;
  };
  static DeviceEnd MakeDeviceEnd() {
    DeviceEnd end;
    end.memory = NewMemory();
    end.transport = *MakeTransport({.kind = TransportKind::kTcp, .memory = end.memory});
    end.region = *end.transport->AllocateRegion(kBytes);
    end.transport->grants().Grant(kFetch, {{.offset = 0, .bytes = kBytes}});
    return end;
  }
  static absl::Status ReadAll(DeviceEnd& reader, DeviceEnd& owner, PeerId peer) {
    const CopyRange all = {.bytes = kBytes};
    const auto read = reader.transport->StartRead(peer, kFetch, {all});
    if (!read.ok()) return read.status();
    while (reader.Find(*read) == nullptr) {
      reader.Poll();
      owner.Poll();
    }
    return reader.Find(*read)->status;
  }
};

TEST_F(DeviceMemoryTest, BytesLeaveAndEnterByTheMemoryAlone) {
  DeviceEnd owner = MakeDeviceEnd();
  DeviceEnd reader = MakeDeviceEnd();
  std::fill(owner.region.begin(), owner.region.end(), 0x5a);
  const PeerId peer = *reader.transport->Connect(*owner.transport->Address());
  EXPECT_EQ(ReadAll(reader, owner, peer), absl::OkStatus());
  EXPECT_TRUE(std::equal(owner.region.begin(), owner.region.end(), reader.region.begin()));
  // A fragment has at most 60 KiB.
  EXPECT_GE(owner.memory->copies(), static_cast<int64_t>(kBytes >> 16));
  EXPECT_GE(reader.memory->copies(), static_cast<int64_t>(kBytes >> 16));
}

TEST_F(DeviceMemoryTest, StagingIsUsedAgain) {
  DeviceEnd owner = MakeDeviceEnd();
  DeviceEnd reader = MakeDeviceEnd();
  const PeerId peer = *reader.transport->Connect(*owner.transport->Address());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ReadAll(reader, owner, peer), absl::OkStatus());
  // Those of the pieces that one reader may have in flight.
  EXPECT_LE(owner.memory->stagings(), 8);
}

// A copy that has begun may not land in memory that is somebody else's by then.
TEST_F(DeviceMemoryTest, ReadCompletesWhenItsCopiesHaveLandedAlsoOfAPeerThatWasDisconnected) {
  DeviceEnd owner = MakeDeviceEnd();
  DeviceEnd reader = MakeDeviceEnd();
  std::fill(owner.region.begin(), owner.region.end(), 0x5a);
  const PeerId peer = *reader.transport->Connect(*owner.transport->Address());
  for (const bool disconnects : {false, true}) {
    reader.region[0] = 0;
    const int64_t copies = reader.memory->copies();
    reader.memory->Hold(true);
    const CopyRange range = {.bytes = 64};
    const auto read = reader.transport->StartRead(peer, kFetch, {range});
    ASSERT_TRUE(read.ok()) << read.status();
    while (reader.memory->copies() == copies) {
      reader.Poll();
      owner.Poll();
    }
    if (disconnects) reader.transport->Disconnect(peer);
    for (int i = 0; i < 100; ++i) reader.Poll();
    EXPECT_EQ(reader.Find(*read), nullptr);
    EXPECT_EQ(reader.region[0], 0);
    reader.memory->Hold(false);
    while (reader.Find(*read) == nullptr) {
      reader.transport->WaitForEvent(kNsPerSecond);
      reader.Poll();
    }
    EXPECT_EQ(reader.region[0], 0x5a);
  }
}

TEST_F(DeviceMemoryTest, TransportsOfHostMemoryRefuseADevices) {
  for (TransportKind kind : {TransportKind::kInproc, TransportKind::kShm, TransportKind::kGrpc}) {
    const absl::Status refused = MakeTransport({.kind = kind, .memory = NewMemory()}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("--transport auto, tcp or nccl"));
  }
}

}  // namespace
}  // namespace baton::kvtransfer
