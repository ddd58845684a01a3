// NCCL's stand-in between processes: each end's death, pause and restart, as the other end sees it.
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/clock.h"
#include "common/status.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/transport_processes.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {
namespace {

const std::vector<std::string> kOwner = {"--owner", "nccl"};

TEST(NcclProcessTest, ReadsAnotherProcess) {
  Child owner(kOwner);
  Reader reader("nccl");
  const auto peer = reader.transport->Connect(AddressOf(owner));
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(reader.transport->PathOf(*peer), "nccl");
  EXPECT_EQ(reader.ReadAll(*peer), absl::OkStatus());
  EXPECT_TRUE(reader.HasPattern());
}

TEST(NcclProcessTest, OwnerKilledWhileReadingEndsTheRead) {
  Child owner(kOwner);
  Reader reader("nccl");
  const std::string address = AddressOf(owner);
  const auto peer = reader.ConnectAndRead(address);
  ASSERT_TRUE(peer.ok()) << peer.status();
  const auto read = reader.transport->StartRead(*peer, kFetch, {{0, 0, kRegionBytes}});
  ASSERT_TRUE(read.ok()) << read.status();
  reader.transport->Poll(reader.completions);
  owner.Kill();
  const absl::Status status = reader.Await(*read);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;

  // Everything that follows is bounded too.
  const TimeNs begin = MonotonicClock().Now();
  reader.transport->Disconnect(*peer);
  const auto late = reader.transport->Connect(address);
  const absl::Status late_status = late.ok() ? reader.ReadAll(*late) : late.status();
  EXPECT_TRUE(absl::IsUnavailable(late_status)) << late_status;
  reader.transport.reset();
  EXPECT_LT(MonotonicClock().Now() - begin, 10 * kNsPerSecond);
}

TEST(NcclProcessTest, StoppedOwnerIsGivenUpByTimeoutAndReadAgainOnceItGoesOn) {
  Child owner(kOwner);
  Reader reader("nccl");
  const std::string address = AddressOf(owner);
  const auto peer = reader.ConnectAndRead(address);
  ASSERT_TRUE(peer.ok()) << peer.status();
  owner.Signal(SIGSTOP);
  const absl::Status status = reader.ReadAll(*peer);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::IsUnavailable(reader.transport->StartRead(*peer, kFetch, {{0, 0, 64}}).status()));
  reader.transport->Disconnect(*peer);
  owner.Signal(SIGCONT);
  const auto again = reader.transport->Connect(address);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(reader.ReadAll(*again), absl::OkStatus());
  EXPECT_TRUE(reader.HasPattern());
}

TEST(NcclProcessTest, OwnerStoppedInMidTransferHoldsUpNoOther) {
  Child stopped(kOwner);
  Child living(kOwner);
  // The stopped owner is not given up before the end.
  Reader reader("nccl", 60'000);
  const auto stopped_peer = reader.ConnectAndRead(AddressOf(stopped));
  const auto living_peer = reader.ConnectAndRead(AddressOf(living));
  ASSERT_TRUE(stopped_peer.ok() && living_peer.ok()) << stopped_peer.status() << living_peer.status();
  const auto held_up = reader.transport->StartRead(*stopped_peer, kFetch, {{0, 0, kRegionBytes}});
  ASSERT_TRUE(held_up.ok()) << held_up.status();
  reader.transport->Poll(reader.completions);
  stopped.Signal(SIGSTOP);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reader.ReadAll(*living_peer), absl::OkStatus());
  EXPECT_TRUE(reader.HasPattern());
  // It ends although the stopped process takes no part.
  reader.transport->Disconnect(*stopped_peer);
  const absl::Status status = reader.Await(*held_up);
  EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
}

TEST(NcclProcessTest, RestartedOwnerIsAnotherPeer) {
  Reader reader("nccl");
  std::string first_address;
  {
    Child owner(kOwner);
    first_address = AddressOf(owner);
    ASSERT_TRUE(reader.ConnectAndRead(first_address).ok());
  }
  Child owner(kOwner);
  const auto peer = reader.transport->Connect(AddressOf(owner));
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(reader.ReadAll(*peer), absl::OkStatus());
  EXPECT_TRUE(reader.HasPattern());
  const auto gone = reader.transport->Connect(first_address);
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_TRUE(absl::IsUnavailable(reader.ReadAll(*gone)));
}

TEST(NcclProcessTest, OwnerSurvivesReadersThatAreKilled) {
  const auto transport = MakeOrDie("nccl");
  FillPattern(*transport->AllocateRegion(kRegionBytes));
  transport->grants().Grant(kFetch, {{.offset = 0, .bytes = kRegionBytes}});
  const std::string address = *transport->Address();
  std::atomic<bool> stop{false};
  std::thread owner_thread([&] {
    std::vector<ReadCompletion> completions;
    while (!stop) {
      transport->WaitForEvent(kPatienceNs);
      transport->Poll(completions);
    }
  });
  const std::string hex = absl::BytesToHexString(ToAbsl(address));
  for (int i = 0; i < 3; ++i) {
    // It has read once and is reading again when it dies: by SIGKILL, and once in the middle of a message.
    if (i == 2) setenv("BATON_STAND_IN_NCCL_FAULT", "process-dies:100000000", 1);
    Child reader({"--reader", "nccl", hex});
    EXPECT_EQ(reader.ReadLine(), "read");
    if (i == 2) {
      EXPECT_EQ(reader.ReadLine(), "");
    }
    reader.Kill();
  }
  unsetenv("BATON_STAND_IN_NCCL_FAULT");
  Reader reader("nccl");
  const auto peer = reader.transport->Connect(address);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(reader.ReadAll(*peer), absl::OkStatus());
  EXPECT_TRUE(reader.HasPattern());
  // What the dead readers were sent is nobody's any more.
  while (!transport->grants().Withdraw(kFetch)) std::this_thread::yield();
  stop = true;
  transport->Wake();
  owner_thread.join();
}

}  // namespace
}  // namespace baton::kvtransfer

int main(int argc, char** argv) {
  setenv("BATON_NCCL_LIBRARY", BATON_NCCL_STAND_IN, 1);
  if (const std::optional<int> code = baton::kvtransfer::RunRole(argc, argv)) return *code;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
