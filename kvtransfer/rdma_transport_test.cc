// UCX that moves the bytes of a region by itself, as it does over RDMA: here by its rendezvous over loopback, with host
// memory in the place of a device's.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/deferred_memory.h"
#include "kvtransfer/testing/rdma_over_loopback.h"
#include "kvtransfer/testing/transport_conformance.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {
namespace {

constexpr int64_t kLongerThanATestMs = 3'600'000;

absl::StatusOr<std::unique_ptr<Transport>> MakeOverLoopback(MemoryAccess* memory,
                                                            int64_t stall_timeout_ms = kLongerThanATestMs) {
  UseLoopbackForRdma();
  return MakeTransport({.kind = TransportKind::kRdma, .stall_timeout_ms = stall_timeout_ms, .memory = memory});
}

INSTANTIATE_TEST_SUITE_P(
    Rdma, TransportConformance,
    testing::Values(TransportFactory{"UcxRdmaHost", [] { return MakeOverLoopback(nullptr); }, "rdma"},
                    TransportFactory{"UcxRdmaDevice", [] { return MakeOverLoopback(NewDeferredMemory()); }, "rdma"}),
    FactoryName);

constexpr Id128 kFetch{.high = 3, .low = 4};
constexpr size_t kBytes = 32u << 20;

struct DeviceEnd : TransportEnd {
  explicit DeviceEnd(int64_t stall_timeout_ms = kLongerThanATestMs) {
    transport = *MakeOverLoopback(memory, stall_timeout_ms);
    region = *transport->AllocateRegion(kBytes);
    transport->grants().Grant(kFetch, {{.offset = 0, .bytes = kBytes}});
  }
  PeerId ConnectTo(DeviceEnd& owner) const { return *transport->Connect(*owner.transport->Address()); }
  ReadId StartReadOfAll(PeerId peer) const { return *transport->StartRead(peer, kFetch, {{.bytes = kBytes}}); }

  DeferredMemory* const memory = NewDeferredMemory();
};

TEST(RdmaTransportTest, UcxMovesADevicesBytesWithoutACopyOfOurs) {
  DeviceEnd owner;
  DeviceEnd reader;
  std::fill(owner.region.begin(), owner.region.end(), 0x5a);
  const ReadId read = reader.StartReadOfAll(reader.ConnectTo(owner));
  while (reader.Find(read) == nullptr) {
    reader.Poll();
    owner.Poll();
  }
  EXPECT_EQ(reader.Find(read)->status, absl::OkStatus());
  EXPECT_TRUE(std::equal(owner.region.begin(), owner.region.end(), reader.region.begin()));
  EXPECT_EQ(owner.memory->copies() + reader.memory->copies(), 0);
  EXPECT_EQ(owner.memory->stagings() + reader.memory->stagings(), 0);
}

// Enough for the reader to take all that the owner has offered.
constexpr int kPollsOfAnOffer = 100;

// The reader leaves when it has taken offers, of which the owner sends nothing now.
void LeaveInMidPiece(DeviceEnd& reader, DeviceEnd& owner) {
  const PeerId peer = reader.ConnectTo(owner);
  const ReadId read = reader.StartReadOfAll(peer);
  std::fill(owner.region.begin(), owner.region.end(), 0x5a);
  while (std::count(reader.region.begin(), reader.region.end(), 0x5a) == 0) {
    reader.Poll();
    owner.Poll();
  }
  for (int poll = 0; poll < kPollsOfAnOffer; ++poll) reader.Poll();
  owner.Poll();
  for (int poll = 0; poll < kPollsOfAnOffer; ++poll) reader.Poll();
  reader.transport->Disconnect(peer);
  while (reader.Find(read) == nullptr) {
    reader.transport->WaitForEvent(kLongerThanATestMs * kNsPerMs);
    reader.Poll();
  }
  EXPECT_TRUE(absl::IsCancelled(reader.Find(read)->status)) << reader.Find(read)->status;
}

TEST(RdmaTransportTest, ADisconnectedReadEndsWithoutItsOwnerThoughUcxWasAboutToWriteIt) {
  DeviceEnd owner;
  DeviceEnd reader;
  LeaveInMidPiece(reader, owner);
  // The owner serves the next connection.
  const ReadId again = reader.StartReadOfAll(reader.ConnectTo(owner));
  while (reader.Find(again) == nullptr) {
    reader.Poll();
    owner.Poll();
  }
  EXPECT_EQ(reader.Find(again)->status, absl::OkStatus());
  EXPECT_TRUE(std::equal(owner.region.begin(), owner.region.end(), reader.region.begin()));
}

TEST(RdmaTransportTest, AnOwnerGetsItsBlocksBackThoughALivingReaderHasLeftInMidPiece) {
  DeviceEnd owner(/*stall_timeout_ms=*/300);
  DeviceEnd reader;
  LeaveInMidPiece(reader, owner);
  // It offers what the reader asked for before it left.
  owner.Poll();
  while (!owner.transport->grants().Withdraw(kFetch)) {
    owner.transport->WaitForEvent(kLongerThanATestMs * kNsPerMs);
    owner.Poll();
  }
}

TEST(RdmaTransportTest, WithoutAnAdapterItIsAnErrorThatSaysWhatToChoose) {
  unsetenv("BATON_TEST_RDMA_NETWORK");
  const absl::Status refused = MakeTransport({.kind = TransportKind::kRdma}).status();
  if (refused.ok()) GTEST_SKIP() << "this machine has an adapter for RDMA";
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("choose auto, shm, tcp, grpc or nccl"));
}

}  // namespace
}  // namespace baton::kvtransfer
