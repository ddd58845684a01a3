// A transport between processes: a test's binary starts itself again as an owner or a reader, and kills what it
// started. The test calls RunRole first thing in its main.
#ifndef BATON_KVTRANSFER_TESTING_TRANSPORT_PROCESSES_H_
#define BATON_KVTRANSFER_TESTING_TRANSPORT_PROCESSES_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
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

inline constexpr size_t kRegionBytes = 64u << 20;
inline constexpr uint64_t kSeed = 7;
inline constexpr Id128 kFetch{.high = 3, .low = 4};
inline constexpr int64_t kPatienceNs = 60 * kNsPerSecond;
// Over RDMA nothing tells of a piece before it is there as a whole, which takes a while under a sanitizer.
inline constexpr int64_t kStallTimeoutMs = 1'500;

inline std::unique_ptr<Transport> MakeOrDie(std::string_view kind, int64_t stall_timeout_ms = kStallTimeoutMs) {
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

inline void FillPattern(absl::Span<uint8_t> region) {
  SeededRandom random(kSeed);
  for (size_t i = 0; i + 8 <= region.size(); i += 8) {
    const uint64_t word = random.Next64();
    std::memcpy(region.data() + i, &word, sizeof(word));
  }
}

// ---- Roles of the child ----

// Prints its address, then serves until it is killed or stdin ends.
inline int RunOwner(const std::string& kind) {
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
inline int RunReader(const std::string& kind, const std::string& address_hex) {
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

inline std::string AddressOf(Child& owner) { return absl::HexStringToBytes(owner.ReadLine()); }

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

// What the process was started for: the exit code of a role, or nothing for the test itself.
inline std::optional<int> RunRole(int argc, char** argv) {
  const std::string role = argc > 2 ? argv[1] : "";
  if (role != "--owner" && role != "--reader") return std::nullopt;
  // The test may be killed as well.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return role == "--owner" ? RunOwner(argv[2]) : RunReader(argv[2], argv[3]);
}

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_TRANSPORT_PROCESSES_H_
