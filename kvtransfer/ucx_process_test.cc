// UCX between processes.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/clock.h"
#include "common/status.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/rdma_over_loopback.h"
#include "kvtransfer/testing/transport_processes.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {
namespace {

class UcxProcessTest : public testing::TestWithParam<std::string> {
 protected:
  // Not by mapped memory.
  static bool IsNetwork() { return GetParam() == "tcp" || GetParam() == "rdma"; }
};

TEST_P(UcxProcessTest, ReadsAnotherProcess) {
  Child owner({"--owner", GetParam()});
  Reader reader(GetParam());
  const auto peer = reader.transport->Connect(AddressOf(owner));
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(reader.transport->PathOf(*peer), IsNetwork() ? GetParam() : "shm");
  EXPECT_EQ(reader.ReadAll(*peer), absl::OkStatus());
  EXPECT_TRUE(reader.HasPattern());
}

TEST_P(UcxProcessTest, OwnerKilledWhileReadingEndsTheRead) {
  Child owner({"--owner", GetParam()});
  Reader reader(GetParam());
  const std::string address = AddressOf(owner);
  const auto peer = reader.ConnectAndRead(address);
  ASSERT_TRUE(peer.ok()) << peer.status();

  const auto read = reader.transport->StartRead(*peer, kFetch, {{0, 0, kRegionBytes}});
  ASSERT_TRUE(read.ok()) << read.status();
  reader.transport->Poll(reader.completions);
  owner.Kill();
  const absl::Status status = reader.Await(*read);
  if (status.ok()) {
    EXPECT_TRUE(reader.HasPattern());
  } else {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
  if (!IsNetwork()) {
    EXPECT_EQ(status, absl::OkStatus());
  }

  // Everything that follows is bounded too.
  const TimeNs begin = MonotonicClock().Now();
  reader.transport->Disconnect(*peer);
  const auto late = reader.transport->Connect(address);
  const absl::Status late_status = late.ok() ? reader.ReadAll(*late) : late.status();
  EXPECT_TRUE(absl::IsUnavailable(late_status)) << late_status;
  reader.transport.reset();
  EXPECT_LT(MonotonicClock().Now() - begin, 10 * kNsPerSecond);
}

TEST_P(UcxProcessTest, StoppedOwnerIsReadFromMemoryOrGivenUpByTimeout) {
  Child owner({"--owner", GetParam()});
  Reader reader(GetParam());
  const std::string address = AddressOf(owner);
  const auto peer = reader.ConnectAndRead(address);
  ASSERT_TRUE(peer.ok()) << peer.status();

  owner.Signal(SIGSTOP);
  const absl::Status status = reader.ReadAll(*peer);
  if (IsNetwork()) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(absl::IsUnavailable(reader.transport->StartRead(*peer, kFetch, {{0, 0, 64}}).status()));
  } else {
    EXPECT_EQ(status, absl::OkStatus());
    EXPECT_TRUE(reader.HasPattern());
  }
  reader.transport->Disconnect(*peer);
  owner.Signal(SIGCONT);
  const auto again = reader.transport->Connect(address);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(reader.ReadAll(*again), absl::OkStatus());
  EXPECT_TRUE(reader.HasPattern());
}

TEST_P(UcxProcessTest, OwnerStoppedInMidTransferSlowsDownNoOther) {
  if (!IsNetwork()) GTEST_SKIP() << "the owner takes no part in reads of mapped memory";
  Child stopped({"--owner", GetParam()});
  Child living({"--owner", GetParam()});
  // The stopped owner is not given up before the end.
  Reader reader(GetParam(), 60'000);
  const auto stopped_peer = reader.ConnectAndRead(AddressOf(stopped));
  const auto living_peer = reader.ConnectAndRead(AddressOf(living));
  ASSERT_TRUE(stopped_peer.ok() && living_peer.ok()) << stopped_peer.status() << living_peer.status();
  const int64_t usual_ns = reader.ReadAllNs(*living_peer);

  std::vector<ReadId> held_up;
  for (int i = 0; i < 8; ++i) {
    const auto read = reader.transport->StartRead(*stopped_peer, kFetch, {{0, 0, kRegionBytes}});
    ASSERT_TRUE(read.ok()) << read.status();
    held_up.push_back(*read);
  }
  reader.transport->Poll(reader.completions);
  stopped.Signal(SIGSTOP);
  EXPECT_LE(reader.ReadAllNs(*living_peer), 2 * usual_ns);
  const auto is_held_up = [&](const ReadCompletion& done) {
    return std::find(held_up.begin(), held_up.end(), done.read) != held_up.end();
  };
  EXPECT_TRUE(std::none_of(reader.completions.begin(), reader.completions.end(), is_held_up));
}

TEST_P(UcxProcessTest, OwnerSurvivesReadersThatAreKilled) {
  const auto transport = MakeOrDie(GetParam());
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
  for (int i = 0; i < 3; ++i) {
    // It has read once and is reading again when it dies.
    Child reader({"--reader", GetParam(), absl::BytesToHexString(ToAbsl(address))});
    EXPECT_EQ(reader.ReadLine(), "read");
    reader.Kill();
  }
  Reader reader(GetParam());
  const auto peer = reader.transport->Connect(address);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(reader.ReadAll(*peer), absl::OkStatus());
  EXPECT_TRUE(reader.HasPattern());
  stop = true;
  transport->Wake();
  owner_thread.join();
}

// Creators of the SysV segments of this IPC namespace.
std::vector<pid_t> SegmentCreators() {
  std::ifstream table("/proc/sysvipc/shm");
  std::string line;
  std::getline(table, line);
  std::vector<pid_t> creators;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string key, id, permissions, bytes;
    pid_t creator = 0;
    fields >> key >> id >> permissions >> bytes >> creator;
    creators.push_back(creator);
  }
  return creators;
}

TEST_P(UcxProcessTest, KilledOwnerLeavesNoSharedMemoryBehind) {
  Child owner({"--owner", GetParam()});
  const std::string address = AddressOf(owner);
  {
    Reader reader(GetParam());
    const auto peer = reader.transport->Connect(address);
    ASSERT_TRUE(peer.ok()) << peer.status();
    EXPECT_EQ(reader.ReadAll(*peer), absl::OkStatus());
    owner.Kill();
    reader.transport->Disconnect(*peer);
  }
  const std::vector<pid_t> creators = SegmentCreators();
  EXPECT_EQ(std::count(creators.begin(), creators.end(), owner.last_pid()), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, UcxProcessTest, testing::Values("shm", "tcp", "rdma", "auto"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace baton::kvtransfer

int main(int argc, char** argv) {
  baton::kvtransfer::UseLoopbackForRdma();
  if (const std::optional<int> code = baton::kvtransfer::RunRole(argc, argv)) return *code;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
