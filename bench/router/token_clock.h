// When a stub worker sent each token, for the client that receives it: both live in one process, and so on one clock.
#ifndef BATON_BENCH_ROUTER_TOKEN_CLOCK_H_
#define BATON_BENCH_ROUTER_TOKEN_CLOCK_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/clock.h"

namespace baton::bench {

// Thread-safe: a token is noted before it is sent, and asked for after it has come.
class TokenClock {
 public:
  explicit TokenClock(int streams) : sent_(static_cast<size_t>(streams)) {}

  int streams() const { return static_cast<int>(sent_.size()); }
  void OnSent(uint64_t stream, int32_t index, TimeNs now) { Slot(stream, index).store(now, std::memory_order_relaxed); }
  TimeNs SentAt(uint64_t stream, int32_t index) { return Slot(stream, index).load(std::memory_order_relaxed); }

 private:
  // A client that is this many tokens behind is measured too well. At a token a second it would be a minute behind.
  static constexpr size_t kRemembered = 64;
  using Ring = std::array<std::atomic<TimeNs>, kRemembered>;

  std::atomic<TimeNs>& Slot(uint64_t stream, int32_t index) {
    return sent_.at(stream)[static_cast<size_t>(index) % kRemembered];
  }

  std::vector<Ring> sent_;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_ROUTER_TOKEN_CLOCK_H_
