// UCX with a region that only MemoryAccess may copy, as a device's memory: opened on one host, else by TCP.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtransfer/region_copies.h"
#include "kvtransfer/test_transfer_faults.h"
#include "kvtransfer/testing/deferred_memory.h"
#include "kvtransfer/testing/transport_conformance.h"
#include "kvtransfer/transport.h"
#include "kvtransfer/transport_address.h"
#include "kvtransfer/transports/ucx/device_reads.h"

namespace baton::kvtransfer {
namespace {

TransportFactory DeviceFactory(const std::string& label, TransportKind kind, const std::string& path) {
  return {label, [kind] { return MakeTransport({.kind = kind, .memory = NewDeferredMemory()}); }, path};
}

absl::StatusOr<std::unique_ptr<Transport>> MakeWithRefusedSharing() {
  DeferredMemory* const memory = NewDeferredMemory();
  memory->RefuseSharing();
  return MakeTransport({.kind = TransportKind::kAuto, .memory = memory});
}

INSTANTIATE_TEST_SUITE_P(Devices, TransportConformance,
                         testing::Values(DeviceFactory("UcxTcpDevice", TransportKind::kTcp, "tcp"),
                                         DeviceFactory("UcxShmDevice", TransportKind::kShm, "cuda_ipc"),
                                         DeviceFactory("UcxAutoDevice", TransportKind::kAuto, "cuda_ipc"),
                                         TransportFactory{"UcxAutoRefused", &MakeWithRefusedSharing, "tcp"}),
                         FactoryName);

class DeviceMemoryTest : public testing::Test {
 protected:
  static constexpr Id128 kFetch{.high = 3, .low = 4};
  static constexpr size_t kBytes = 4u << 20;

  struct DeviceEnd : TransportEnd {
    DeferredMemory* memory = nullptr;
  };
  static DeviceEnd MakeDeviceEnd(TransportKind kind = TransportKind::kTcp) {
    DeviceEnd end;
    end.memory = NewDeferredMemory();
    end.transport = *MakeTransport({.kind = kind, .memory = end.memory});
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
  static std::string PathTo(DeviceEnd& reader, const std::string& address) {
    const auto peer = reader.transport->Connect(address);
    return peer.ok() ? std::string(reader.transport->PathOf(*peer)) : absl::StatusCodeToString(peer.status().code());
  }
  // While the copies of a read are held, it has not completed.
  static void ReadWhoseCopiesAreLate(TransportKind kind, bool disconnects) {
    DeviceEnd owner = MakeDeviceEnd(kind);
    DeviceEnd reader = MakeDeviceEnd(kind);
    owner.region[0] = 0x5a;
    const PeerId peer = *reader.transport->Connect(*owner.transport->Address());
    const int64_t copies = reader.memory->copies();
    reader.memory->Hold(true);
    const auto read = reader.transport->StartRead(peer, kFetch, {{.bytes = 64}});
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
  for (const TransportKind kind : {TransportKind::kTcp, TransportKind::kShm}) {
    for (const bool disconnects : {false, true}) ReadWhoseCopiesAreLate(kind, disconnects);
  }
}

TEST_F(DeviceMemoryTest, AnOpenedRegionIsReadWithoutItsOwner) {
  DeviceEnd owner = MakeDeviceEnd(TransportKind::kShm);
  DeviceEnd reader = MakeDeviceEnd(TransportKind::kShm);
  EXPECT_TRUE(owner.transport->shares_memory());
  std::fill(owner.region.begin(), owner.region.end(), 0x5a);
  const PeerId peer = *reader.transport->Connect(*owner.transport->Address());
  const int64_t of_owner = owner.memory->copies();
  const int64_t of_reader = reader.memory->copies();
  const auto read = reader.transport->StartRead(peer, kFetch, {{.bytes = kBytes}});
  ASSERT_TRUE(read.ok()) << read.status();
  while (reader.Find(*read) == nullptr) {
    reader.transport->WaitForEvent(kNsPerSecond);
    reader.Poll();
  }
  EXPECT_EQ(reader.Find(*read)->status, absl::OkStatus());
  EXPECT_TRUE(std::equal(owner.region.begin(), owner.region.end(), reader.region.begin()));
  EXPECT_EQ(owner.memory->copies(), of_owner);
  EXPECT_EQ(reader.memory->copies() - of_reader, static_cast<int64_t>(kBytes / kDeviceCopyBytes));
}

TEST_F(DeviceMemoryTest, WhatCannotBeOpenedComesThroughTheHostWhereTcpIsAllowed) {
  for (const TransportKind kind : {TransportKind::kAuto, TransportKind::kShm}) {
    DeviceEnd owner = MakeDeviceEnd(kind);
    DeviceEnd reader = MakeDeviceEnd(kind);
    const std::string address = *owner.transport->Address();
    TransportAddress elsewhere = *DecodeAddress(address);
    elsewhere.host = "another boot";
    TransportAddress replaced = *DecodeAddress(address);
    ++replaced.nonce.low;
    for (const std::string& other : {EncodeAddress(elsewhere), EncodeAddress(replaced)}) {
      EXPECT_EQ(PathTo(reader, other), kind == TransportKind::kAuto ? "tcp" : "UNAVAILABLE");
    }
    EXPECT_EQ(PathTo(reader, address), "cuda_ipc");
    reader.memory->RefuseOpening();
    EXPECT_EQ(PathTo(reader, address), kind == TransportKind::kAuto ? "tcp" : "UNAVAILABLE");
  }
}

TEST_F(DeviceMemoryTest, SharedMemoryAloneIsAnErrorWhereTheDriverSharesNothing) {
  DeferredMemory* const memory = NewDeferredMemory();
  memory->RefuseSharing();
  const auto transport = *MakeTransport({.kind = TransportKind::kShm, .memory = memory});
  const absl::Status refused = transport->AllocateRegion(kBytes).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("--transport tcp and grpc: the driver refuses"));
}

TEST_F(DeviceMemoryTest, ACopyThatFailsEndsItsReadAsThatOfALostPeer) {
  DeviceEnd owner = MakeDeviceEnd(TransportKind::kShm);
  DeviceEnd reader = MakeDeviceEnd(TransportKind::kShm);
  const PeerId peer = *reader.transport->Connect(*owner.transport->Address());
  reader.memory->FailCopies();
  EXPECT_EQ(ReadAll(reader, owner, peer), absl::UnavailableError("the device has failed"));
}

TEST_F(DeviceMemoryTest, PlantedFaultsReachADevice) {
  DeviceEnd owner = MakeDeviceEnd(TransportKind::kShm);
  std::fill(owner.region.begin(), owner.region.end(), 0x5a);
  DeviceEnd reader;
  reader.memory = NewDeferredMemory();
  reader.transport = WithTransferFaults(*MakeTransport({.kind = TransportKind::kShm, .memory = reader.memory}),
                                        *RegionCopies::Create(reader.memory), {}, MonotonicClock());
  reader.region = *reader.transport->AllocateRegion(kBytes);
  const PeerId peer = *reader.transport->Connect(*owner.transport->Address());
  EXPECT_EQ(ReadAll(reader, owner, peer), absl::OkStatus());
  EXPECT_EQ(std::count(reader.region.begin(), reader.region.end(), 0x5a), static_cast<ptrdiff_t>(kBytes - 1));
}

TEST_F(DeviceMemoryTest, OneProcessAloneRefusesADevice) {
  const absl::Status refused = MakeTransport({.kind = TransportKind::kInproc, .memory = NewDeferredMemory()}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("choose auto, shm, tcp, rdma, grpc or nccl"));
}

}  // namespace
}  // namespace baton::kvtransfer
