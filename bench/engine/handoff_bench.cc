#include "bench/engine/handoff_bench.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/ids.h"
#include "common/status.h"
#include "kvtransfer/bandwidth_probe.h"
#include "kvtransfer/transport.h"

namespace baton::bench {
namespace {

using kvtransfer::CopyRange;
using kvtransfer::PeerId;
using kvtransfer::ReadCompletion;
using kvtransfer::Transport;

constexpr size_t kPipeBytes = 4096;
// The one fetch that reads.
constexpr Id128 kFetch{.high = 1, .low = 1};

absl::StatusOr<std::unique_ptr<Transport>> MakeKind(const std::string& kind) {
  kvtransfer::TransportOptions options;
  BATON_ASSIGN_OR_RETURN(options.kind, kvtransfer::ParseTransportKind(kind));
  return kvtransfer::MakeTransport(options);
}

// A forked process that owns the blocks and serves them until it is killed.
class OwnerProcess {
 public:
  OwnerProcess(const std::string& kind, uint64_t bytes) {
    int fds[2];
    BATON_CHECK(pipe(fds) == 0);
    pid_ = fork();
    BATON_CHECK(pid_ >= 0) << "fork";
    if (pid_ == 0) Serve(kind, bytes, fds[1]);
    close(fds[1]);
    char buffer[kPipeBytes];
    for (ssize_t got; (got = read(fds[0], buffer, sizeof(buffer))) > 0;) address_.append(buffer, got);
    close(fds[0]);
  }
  ~OwnerProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  OwnerProcess(const OwnerProcess&) = delete;
  OwnerProcess& operator=(const OwnerProcess&) = delete;

  // Empty when the owner cannot serve.
  const std::string& address() const { return address_; }

 private:
  [[noreturn]] static void Serve(const std::string& kind, uint64_t bytes, int out) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto transport = MakeKind(kind);
    if (!transport.ok()) _exit(1);
    const auto region = (*transport)->AllocateRegion(bytes);
    if (!region.ok()) _exit(1);
    std::memset(region->data(), 1, bytes);
    (*transport)->grants().Grant(kFetch, {{.offset = 0, .bytes = bytes}});
    const auto address = (*transport)->Address();
    if (!address.ok() || write(out, address->data(), address->size()) != static_cast<ssize_t>(address->size()))
      _exit(1);
    close(out);
    std::vector<ReadCompletion> completions;
    while (true) {
      (*transport)->WaitForEvent(kNsPerSecond);
      (*transport)->Poll(completions);
    }
  }

  pid_t pid_ = -1;
  std::string address_;
};

absl::StatusOr<int64_t> ReadNs(Transport& transport, PeerId peer, const std::vector<CopyRange>& ranges) {
  std::vector<ReadCompletion> completions;
  const TimeNs begin = MonotonicClock().Now();
  BATON_RETURN_IF_ERROR(transport.StartRead(peer, kFetch, ranges).status());
  while (completions.empty()) {
    transport.WaitForEvent(kNsPerSecond);
    transport.Poll(completions);
  }
  BATON_RETURN_IF_ERROR(completions[0].status);
  return MonotonicClock().Now() - begin;
}

int64_t DigestNs(const uint8_t* data, const std::vector<CopyRange>& ranges) {
  const TimeNs begin = MonotonicClock().Now();
  for (const CopyRange& range : ranges) {
    const Digest128 digest = DigestBytes(data + range.local_offset, range.bytes);
    // The compiler may not drop a digest that nobody reads.
    asm volatile("" : : "r"(&digest) : "memory");
  }
  return MonotonicClock().Now() - begin;
}

double GbPerSecond(uint64_t bytes, int64_t time_ns) {
  return static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(time_ns, 1));
}

absl::StatusOr<std::vector<Figure>> BenchKind(const std::string& kind, const HandoffOptions& options) {
  const uint64_t bytes = static_cast<uint64_t>(options.blocks) * options.block_bytes;
  // The region has twice as many blocks as are read, because every other one is read.
  const OwnerProcess owner(kind, 2 * bytes);
  if (owner.address().empty()) {
    return absl::UnavailableError(
        absl::StrCat("KV transport ", kind, " cannot serve here: leave handoff out of --only"));
  }
  BATON_ASSIGN_OR_RETURN(const auto transport, MakeKind(kind));
  BATON_ASSIGN_OR_RETURN(const auto region, transport->AllocateRegion(2 * bytes));
  std::memset(region.data(), 2, 2 * bytes);
  BATON_ASSIGN_OR_RETURN(const PeerId peer, transport->Connect(owner.address()));
  std::vector<CopyRange> ranges;
  for (uint64_t i = 0; i < static_cast<uint64_t>(options.blocks); ++i) {
    ranges.push_back({2 * i * options.block_bytes, 2 * i * options.block_bytes, options.block_bytes});
  }
  BATON_RETURN_IF_ERROR(ReadNs(*transport, peer, ranges).status());
  std::vector<double> memcpy_rates, read_rates, digest_rates;
  // The three take turns, so that other load on the machine slows all of them.
  for (int round = 0; round < options.rounds; ++round) {
    memcpy_rates.push_back(kvtransfer::MemcpyBytesPerSecond(bytes, 1) / 1e9);
    BATON_ASSIGN_OR_RETURN(const int64_t read_ns, ReadNs(*transport, peer, ranges));
    read_rates.push_back(GbPerSecond(bytes, read_ns));
    digest_rates.push_back(GbPerSecond(bytes, DigestNs(region.data(), ranges)));
  }
  Figure memcpy_figure;
  SetRates(std::move(memcpy_rates), memcpy_figure);
  const nlohmann::ordered_json parameters = {
      {"kind", kind}, {"blocks", options.blocks}, {"block_bytes", options.block_bytes}};
  Figure read{.part = "handoff",
              .name = absl::StrCat(kind, ", ", options.blocks, " blocks of ", options.block_bytes >> 10, " KiB"),
              .parameters = parameters,
              .unit = "GB/s",
              .limit = memcpy_figure.value,
              .bound = "memcpy"};
  SetRates(std::move(read_rates), read);
  Figure digest{.part = "handoff",
                .name = absl::StrCat("digests of blocks read over ", kind),
                .parameters = parameters,
                .unit = "GB/s"};
  digest.parameters["digests"] = true;
  SetRates(std::move(digest_rates), digest);
  return std::vector<Figure>{read, digest};
}

}  // namespace

absl::StatusOr<std::vector<Figure>> BenchHandoff(const HandoffOptions& options) {
  std::vector<Figure> figures;
  for (const std::string& kind : options.kinds) {
    BATON_ASSIGN_OR_RETURN(const std::vector<Figure> of_kind, BenchKind(kind, options));
    figures.insert(figures.end(), of_kind.begin(), of_kind.end());
  }
  return figures;
}

}  // namespace baton::bench
