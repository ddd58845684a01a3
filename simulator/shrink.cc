#include "simulator/shrink.h"

#include <algorithm>
#include <set>
#include <vector>

namespace baton::simulator {
namespace {

constexpr uint64_t kJitters = 3;

class Shrinker {
 public:
  Shrinker(const RunOptions& failing, absl::FunctionRef<bool(const RunOptions&)> fails)
      : best_(failing), fails_(fails) {}

  // Leaves out what it can of `count` faults or requests.
  void LeaveOut(std::set<int> RunOptions::*left_out, int count) {
    std::vector<int> kept;
    for (int i = 0; i < count; ++i) {
      if (!(best_.*left_out).contains(i)) kept.push_back(i);
    }
    for (size_t size = std::max<size_t>(kept.size(), 1); size > 0; size /= 2) {
      for (size_t begin = 0; begin < kept.size();) {
        const size_t end = std::min(begin + size, kept.size());
        if (!Try(left_out, {kept.begin() + begin, kept.begin() + end})) {
          begin = end;
          continue;
        }
        kept.erase(kept.begin() + begin, kept.begin() + end);
      }
    }
  }
  const RunOptions& best() const { return best_; }

 private:
  bool Try(std::set<int> RunOptions::*left_out, const std::vector<int>& more) {
    for (uint64_t jitter = 0; jitter < kJitters && runs_ < kMaxShrinkingRuns; ++jitter) {
      RunOptions smaller = best_;
      (smaller.*left_out).insert(more.begin(), more.end());
      smaller.jitter += jitter;
      ++runs_;
      if (!fails_(smaller)) continue;
      best_ = smaller;
      return true;
    }
    return false;
  }

  RunOptions best_;
  const absl::FunctionRef<bool(const RunOptions&)> fails_;
  int runs_ = 0;
};

}  // namespace

RunOptions Shrink(const RunOptions& failing, const RunResult& result,
                  absl::FunctionRef<bool(const RunOptions&)> fails) {
  Shrinker shrinker(failing, fails);
  shrinker.LeaveOut(&RunOptions::left_out_faults, result.planned_faults);
  shrinker.LeaveOut(&RunOptions::left_out_requests, result.planned_requests);
  return shrinker.best();
}

}  // namespace baton::simulator
