// Bandwidth of hand-offs between two processes, beside this machine's memcpy:
//
//   transport_bench [--kinds shm,tcp] [--blocks 94] [--rounds 20]
//
// A block is 360 KiB (SmolLM2-135M as bf16); 94 of them hold a prompt of 1,500 tokens. Memory is touched beforehand;
// the median of the rounds is printed. Scattered: no two blocks are neighbours at both ends. Digests are not included,
// and are timed apart.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/status.h"
#include "kvtransfer/bandwidth_probe.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {
namespace {

constexpr uint64_t kBlockBytes = 360u << 10;

struct BenchOptions {
  std::vector<std::string> kinds = {"shm", "tcp"};
  int blocks = 94;
  int rounds = 20;
};

std::unique_ptr<Transport> MakeOrDie(const std::string& kind) {
  TransportOptions options;
  options.kind = *ParseTransportKind(kind);
  auto transport = MakeTransport(options);
  BATON_CHECK(transport.ok()) << transport.status();
  return *std::move(transport);
}

// A forked owner that serves until it is killed.
class OwnerProcess {
 public:
  OwnerProcess(const std::string& kind, uint64_t bytes) {
    int fds[2];
    BATON_CHECK(pipe(fds) == 0);
    pid_ = fork();
    if (pid_ == 0) Serve(kind, bytes, fds[1]);
    close(fds[1]);
    char buffer[4096];
    for (ssize_t got; (got = read(fds[0], buffer, sizeof(buffer))) > 0;) address_.append(buffer, got);
    close(fds[0]);
  }
  ~OwnerProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  const std::string& address() const { return address_; }

 private:
  [[noreturn]] static void Serve(const std::string& kind, uint64_t bytes, int out) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto transport = MakeOrDie(kind);
    const auto region = transport->AllocateRegion(bytes);
    BATON_CHECK(region.ok()) << region.status();
    std::memset(region->data(), 1, bytes);
    const std::string address = *transport->Address();
    BATON_CHECK(write(out, address.data(), address.size()) == static_cast<ssize_t>(address.size()));
    close(out);
    std::vector<ReadCompletion> completions;
    while (true) {
      transport->WaitForEvent(kNsPerSecond);
      transport->Poll(completions);
    }
  }

  pid_t pid_ = -1;
  std::string address_;
};

int64_t ReadNs(Transport& transport, PeerId peer, const std::vector<CopyRange>& ranges) {
  std::vector<ReadCompletion> completions;
  const TimeNs begin = MonotonicClock().Now();
  BATON_CHECK(transport.StartRead(peer, ranges).ok());
  while (completions.empty()) {
    transport.WaitForEvent(kNsPerSecond);
    transport.Poll(completions);
  }
  BATON_CHECK(completions[0].status.ok()) << completions[0].status;
  return MonotonicClock().Now() - begin;
}

double MedianGbPerSecond(std::vector<int64_t> times_ns, uint64_t bytes) {
  std::sort(times_ns.begin(), times_ns.end());
  return static_cast<double>(bytes) / static_cast<double>(times_ns[times_ns.size() / 2]);
}

void BenchKind(const std::string& kind, const BenchOptions& options) {
  const uint64_t bytes = options.blocks * kBlockBytes;
  // Twice as many blocks as are read: every other one.
  OwnerProcess owner(kind, 2 * bytes);
  const auto transport = MakeOrDie(kind);
  const auto region = transport->AllocateRegion(2 * bytes);
  BATON_CHECK(region.ok()) << region.status();
  std::memset(region->data(), 2, 2 * bytes);
  const auto peer = transport->Connect(owner.address());
  BATON_CHECK(peer.ok()) << peer.status();
  std::vector<CopyRange> ranges;
  for (int i = 0; i < options.blocks; ++i) ranges.push_back({2 * i * kBlockBytes, 2 * i * kBlockBytes, kBlockBytes});
  ReadNs(*transport, *peer, ranges);
  std::vector<int64_t> memcpy_ns;
  std::vector<int64_t> read_ns;
  std::vector<int64_t> digest_ns;
  // Turn by turn, so that whatever else the machine does slows all of them.
  for (int round = 0; round < options.rounds; ++round) {
    memcpy_ns.push_back(static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / MemcpyBytesPerSecond(bytes, 1)));
    read_ns.push_back(ReadNs(*transport, *peer, ranges));
    const TimeNs begin = MonotonicClock().Now();
    uint64_t sink = 0;
    for (const CopyRange& range : ranges) sink ^= DigestBytes(region->data() + range.local_offset, range.bytes).low;
    // Keeps the digests from being optimized away.
    if (sink == 1) std::puts("");
    digest_ns.push_back(MonotonicClock().Now() - begin);
  }
  const double rate = MedianGbPerSecond(read_ns, bytes);
  const double memcpy_rate = MedianGbPerSecond(memcpy_ns, bytes);
  std::vector<ReadCompletion> others;
  const auto probe = ProbeBandwidth(*transport, *peer, ProbeOptions(), others);
  std::printf("%-4s %6.2f GB/s, %5.1f %% of memcpy (%.2f GB/s); digests %.2f GB/s, probe %.2f GB/s\n", kind.c_str(),
              rate, 100 * rate / memcpy_rate, memcpy_rate, MedianGbPerSecond(digest_ns, bytes),
              probe.ok() ? probe->bytes_per_second / 1e9 : 0.0);
}

int Run(const BenchOptions& options) {
  const uint64_t bytes = options.blocks * kBlockBytes;
  std::printf("%d blocks of %d KiB, %.1f MB, median of %d\n", options.blocks, static_cast<int>(kBlockBytes >> 10),
              static_cast<double>(bytes) / 1e6, options.rounds);
  for (const std::string& kind : options.kinds) {
    BenchKind(kind, options);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace baton::kvtransfer

int main(int argc, char** argv) {
  baton::kvtransfer::BenchOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--kinds") {
      options.kinds = absl::StrSplit(argv[i + 1], ',');
    } else if (flag == "--blocks" && absl::SimpleAtoi(argv[i + 1], &options.blocks) && options.blocks > 0) {
    } else if (flag == "--rounds" && absl::SimpleAtoi(argv[i + 1], &options.rounds) && options.rounds > 0) {
    } else {
      std::fprintf(stderr, "usage: transport_bench [--kinds shm,tcp] [--blocks N] [--rounds N]\n");
      return 2;
    }
  }
  return baton::kvtransfer::Run(options);
}
