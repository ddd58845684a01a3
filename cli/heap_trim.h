// When a process gives free pages of its heap back to the system. glibc keeps those between blocks that are in use, so
// requests and peers of many sizes that come and go would let a process grow for hours.
#ifndef BATON_CLI_HEAP_TRIM_H_
#define BATON_CLI_HEAP_TRIM_H_

#include <cstdint>

namespace baton::cli {

// How often the process looks at its memory.
inline constexpr int64_t kHeapLookMs = 1'000;
// Looks after which free pages are given back at the latest.
inline constexpr int kLooksBetweenTrims = 30;
// While the process has so much more than such a trim left, it trims at every look: what a flood of requests took is
// back a second after the flood.
inline constexpr int64_t kHeapGrowthBytes = int64_t{16} << 20;

// Not thread-safe.
class HeapTrimPlan {
 public:
  // One look, at which the process has so much memory of its own. True: it is time to trim, and OnTrimmed follows. The
  // first look trims.
  bool IsDue(int64_t own_bytes) {
    ++looks_;
    return IsRegular() || own_bytes - left_bytes_ >= kHeapGrowthBytes;
  }
  // What the trim left. In the midst of a flood most of that is in use, and only a regular trim takes it for granted.
  void OnTrimmed(int64_t own_bytes) {
    if (!IsRegular()) return;
    looks_ = 0;
    left_bytes_ = own_bytes;
  }

 private:
  bool IsRegular() const { return looks_ >= kLooksBetweenTrims; }

  int looks_ = kLooksBetweenTrims - 1;
  int64_t left_bytes_ = 0;
};

// Looks once, and trims where that is due.
void LookAtHeap(HeapTrimPlan& plan);

}  // namespace baton::cli

#endif  // BATON_CLI_HEAP_TRIM_H_
