// UCX between processes: this binary starts itself again as an owner or a reader, and kills what it started.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/status.h"
#include "gtest/gtest.h"
#include "kvtransfer/transport.h"

extern char** environ;

namespace baton::kvtransfer {
namespace {

constexpr size_t kRegionBytes = 64u << 20;
constexpr uint64_t kSeed = 7;
constexpr Id128 kFetch{.high = 3, .low = 4};
constexpr int64_t kPatienceNs = 60 * kNsPerSecond;
constexpr int64_t kStallTimeoutMs = 500;

std::unique_ptr<Transport> MakeOrDie(std::string_view kind, int64_t stall_timeout_ms = kStallTimeoutMs) {
  TransportOptions options;
  options.kind = *ParseTransportKind(kind);
  options.stall_timeout_ms = stall_timeout_ms;
  auto transport = MakeTransport(options);
  if (!transport.ok()) {
    std::cerr << transport.status() << std::endl;
    std::abort();
  }
  return *std::move(transport);
}

void FillPattern(absl::Span<uint8_t> region) {
  SeededRandom random(kSeed);
  for (size_t i = 0; i + 8 <= region.size(); i += 8) {
    const uint64_t word = random.Next64();
    std::memcpy(region.data() + i, &word, sizeof(word));
  }
}

// ---- Roles of the child ----

// Prints its address, then serves until it is killed or stdin ends.
int RunOwner(const std::string& kind) {
  const auto transport = MakeOrDie(kind);
  FillPattern(*transport->AllocateRegion(kRegionBytes));
  transport->grants().Grant(kFetch, {{.offset = 0, .bytes = kRegionBytes}});
  std::cout << absl::BytesToHexString(ToAbsl(*transport->Address())) << std::endl;
  std::vector<ReadCompletion> completions;
  while (true) {
    transport->WaitForEvent(kNsPerSecond);
    transport->Poll(completions);
  }
}

// Reads the whole region over and over; prints a line after the first time.
int RunReader(const std::string& kind, const std::string& address_hex) {
  const auto transport = MakeOrDie(kind);
  if (!transport->AllocateRegion(kRegionBytes).ok()) return 1;
  const auto peer = transport->Connect(absl::HexStringToBytes(address_hex));
  if (!peer.ok()) return 1;
  std::vector<ReadCompletion> completions;
  for (int round = 0;; ++round) {
    completions.clear();
    if (!transport->StartRead(*peer, kFetch, {{0, 0, kRegionBytes}}).ok()) return 1;
    while (completions.empty()) {
      transport->WaitForEvent(kNsPerSecond);
      transport->Poll(completions);
    }
    if (!completions[0].status.ok()) return 1;
    if (round == 0) std::cout << "read" << std::endl;
  }
}

// ---- The parent ----

class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments) {
    int out[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<std::string> words = {"/proc/self/exe"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    out_ = fdopen(out[0], "r");
  }
  ~Child() {
    Kill();
    fclose(out_);
  }

  std::string ReadLine() {
    char* line = nullptr;
    size_t capacity = 0;
    const ssize_t length = getline(&line, &capacity, out_);
    std::string result = length > 0 ? std::string(line, length - 1) : "";
    free(line);
    return result;
  }
  void Signal(int number) const { kill(pid_, number); }
  // SIGKILL, and waits until the process is gone.
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    last_pid_ = std::exchange(pid_, -1);
  }
  pid_t last_pid() const { return last_pid_; }

 private:
  pid_t pid_ = -1;
  pid_t last_pid_ = -1;
  FILE* out_ = nullptr;
};

std::string AddressOf(Child& owner) { return absl::HexStringToBytes(owner.ReadLine()); }

// The parent's end as a reader of a child.
struct Reader {
  explicit Reader(const std::string& kind, int64_t stall_timeout_ms = kStallTimeoutMs)
      : transport(MakeOrDie(kind, stall_timeout_ms)) {
    region = *transport->AllocateRegion(kRegionBytes);
  }

  // Sleeps between events, as the transfer thread does.
  absl::Status Await(ReadId read) {
    const TimeNs deadline = MonotonicClock().Now() + kPatienceNs;
    while (MonotonicClock().Now() < deadline) {
      for (const ReadCompletion& completion : completions) {
        if (completion.read == read) return completion.status;
      }
      transport->WaitForEvent(deadline - MonotonicClock().Now());
      transport->Poll(completions);
    }
    return absl::DeadlineExceededError("the read did not complete");
  }
  absl::Status ReadAll(PeerId peer) {
    const auto read = transport->StartRead(peer, kFetch, {{0, 0, kRegionBytes}});
    return read.ok() ? Await(*read) : read.status();
  }
  // A peer from which a first small read has come, so that the connection stands.
  absl::StatusOr<PeerId> ConnectAndRead(const std::string& address) {
    BATON_ASSIGN_OR_RETURN(const PeerId peer, transport->Connect(address));
    BATON_ASSIGN_OR_RETURN(const ReadId first_read, transport->StartRead(peer, kFetch, {{0, 0, 4096}}));
    BATON_RETURN_IF_ERROR(Await(first_read));
    return peer;
  }
  // The shortest of a few reads of the whole region: other load on the machine lengthens some of them.
  int64_t ReadAllNs(PeerId peer) {
    int64_t shortest_ns = kNever;
    for (int i = 0; i < 5; ++i) {
      const TimeNs begin = MonotonicClock().Now();
      EXPECT_EQ(ReadAll(peer), absl::OkStatus());
      shortest_ns = std::min(shortest_ns, MonotonicClock().Now() - begin);
    }
    return shortest_ns;
  }
  bool HasPattern() const {
    std::vector<uint8_t> expected(kRegionBytes);
    FillPattern(absl::MakeSpan(expected));
    return std::memcmp(expected.data(), region.data(), kRegionBytes) == 0;
  }

  std::unique_ptr<Transport> transport;
  absl::Span<uint8_t> region;
  std::vector<ReadCompletion> completions;
};

class UcxProcessTest : public testing::TestWithParam<std::string> {};

TEST_P(UcxProcessTest, ReadsAnotherProcess) {
  Child owner({"--owner", GetParam()});
  Reader reader(GetParam());
  const auto peer = reader.transport->Connect(AddressOf(owner));
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(reader.transport->PathOf(*peer), GetParam() == "tcp" ? "tcp" : "shm");
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
  if (GetParam() != "tcp") {
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
  if (GetParam() == "tcp") {
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

TEST(UcxTcpProcessTest, OwnerStoppedInMidTransferSlowsDownNoOther) {
  Child stopped({"--owner", "tcp"});
  Child living({"--owner", "tcp"});
  // The stopped owner is not given up before the end.
  Reader reader("tcp", 60'000);
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

INSTANTIATE_TEST_SUITE_P(Kinds, UcxProcessTest, testing::Values("shm", "tcp", "auto"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace baton::kvtransfer

int main(int argc, char** argv) {
  const std::string role = argc > 2 ? argv[1] : "";
  if (role == "--owner" || role == "--reader") {
    // The test may be killed as well.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (role == "--owner") return baton::kvtransfer::RunOwner(argv[2]);
    return baton::kvtransfer::RunReader(argv[2], argv[3]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
