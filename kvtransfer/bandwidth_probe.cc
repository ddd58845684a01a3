#include "kvtransfer/bandwidth_probe.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "common/check.h"
#include "common/clock.h"
#include "common/status.h"

namespace baton::kvtransfer {
namespace {

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double Seconds(TimeNs begin, TimeNs end) {
  return static_cast<double>(std::max<int64_t>(end - begin, 1)) / kNsPerSecond;
}

// Polls until `read` has completed.
absl::Status Await(Transport& transport, ReadId read, TimeNs deadline, std::vector<ReadCompletion>& others) {
  const Clock& clock = MonotonicClock();
  std::vector<ReadCompletion> completions;
  while (true) {
    completions.clear();
    transport.Poll(completions);
    absl::Status result = absl::UnknownError("not completed");
    bool done = false;
    for (ReadCompletion& completion : completions) {
      if (completion.read == read) {
        done = true;
        result = completion.status;
      } else {
        others.push_back(std::move(completion));
      }
    }
    if (done) return result;
    const TimeNs now = clock.Now();
    if (now >= deadline) return absl::DeadlineExceededError("the bandwidth probe did not end in time");
    transport.WaitForEvent(deadline - now);
  }
}

}  // namespace

absl::StatusOr<ProbeResult> ProbeBandwidth(Transport& transport, PeerId peer, const ProbeOptions& options,
                                           std::vector<ReadCompletion>& others) {
  BATON_CHECK(options.rounds > 0);
  const Clock& clock = MonotonicClock();
  const TimeNs deadline = After(clock.Now(), options.timeout_ms);
  std::vector<double> rates;
  for (int round = 0; round <= options.rounds; ++round) {
    const TimeNs begin = clock.Now();
    BATON_ASSIGN_OR_RETURN(const ReadId read, transport.StartProbe(peer, options.bytes));
    BATON_RETURN_IF_ERROR(Await(transport, read, deadline, others));
    if (round > 0) rates.push_back(static_cast<double>(options.bytes) / Seconds(begin, clock.Now()));
  }
  return ProbeResult{.bytes_per_second = Median(std::move(rates)), .bytes = options.bytes};
}

double MemcpyBytesPerSecond(size_t bytes, int rounds) {
  BATON_CHECK(bytes > 0 && rounds > 0);
  const auto from = std::make_unique<uint8_t[]>(bytes);
  const auto to = std::make_unique<uint8_t[]>(bytes);
  std::memset(from.get(), 1, bytes);
  std::memset(to.get(), 2, bytes);
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round) {
    const TimeNs begin = MonotonicClock().Now();
    std::memcpy(to.get(), from.get(), bytes);
    // The compiler may not drop a copy that nobody reads.
    asm volatile("" : : "r"(to.get()) : "memory");
    rates.push_back(static_cast<double>(bytes) / Seconds(begin, MonotonicClock().Now()));
  }
  return Median(std::move(rates));
}

}  // namespace baton::kvtransfer
