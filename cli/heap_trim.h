// When a process gives free pages of its heap back to the system. glibc keeps those between blocks that are in use, so
// requests and peers of many sizes that come and go would let a process grow for hours.
#ifndef BATON_CLI_HEAP_TRIM_H_
#define BATON_CLI_HEAP_TRIM_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace baton::cli {

// How often the process looks at its memory.
inline constexpr int64_t kHeapLookMs = 1'000;
// Looks after which free pages are given back at the latest.
inline constexpr int kLooksBetweenTrims = 30;
// While the process has so much more than it had at the least between the last two such trims, it trims at every look:
// what a flood of requests took is back a second after the flood.
inline constexpr int64_t kHeapGrowthBytes = int64_t{8} << 20;

// Not thread-safe.
class HeapTrimPlan {
 public:
  // One look, at which the process has so much memory of its own. True: it is time to trim, and OnTrimmed follows. The
  // first look trims.
  bool IsDue(int64_t own_bytes) {
    ++looks_;
    least_bytes_ = std::min(least_bytes_, own_bytes);
    return IsRegular() || own_bytes - base_bytes_ >= kHeapGrowthBytes;
  }
  // What the trim left. In the midst of a flood most of that is in use, so a single trim says little.
  void OnTrimmed(int64_t own_bytes) {
    least_bytes_ = std::min(least_bytes_, own_bytes);
    if (!IsRegular()) return;
    looks_ = 0;
    base_bytes_ = std::exchange(least_bytes_, own_bytes);
  }

 private:
  bool IsRegular() const { return looks_ >= kLooksBetweenTrims; }

  int looks_ = kLooksBetweenTrims - 1;
  // Since the last regular trim, and what it was between that and the one before.
  int64_t least_bytes_ = std::numeric_limits<int64_t>::max();
  int64_t base_bytes_ = 0;
};

// Looks once, and trims where that is due.
void LookAtHeap(HeapTrimPlan& plan);

}  // namespace baton::cli

#endif  // BATON_CLI_HEAP_TRIM_H_
