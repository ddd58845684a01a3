#include "router/least_times.h"

#include <algorithm>
#include <bit>

namespace baton::router {
namespace {

int64_t LesserKnown(int64_t a, int64_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

}  // namespace

size_t LeastTimes::IndexOf(int64_t size) {
  return std::min(static_cast<size_t>(std::bit_width(static_cast<uint64_t>(size))), kSizes - 1);
}

void LeastTimes::Add(int64_t size, int64_t elapsed_ns) {
  Sizes& sizes = sizes_[IndexOf(size)];
  if (sizes.seen == kRemembered) {
    sizes = {.seen = 0, .least_ns = 0, .earlier_least_ns = sizes.least_ns};
  }
  ++sizes.seen;
  sizes.least_ns = LesserKnown(sizes.least_ns, std::max<int64_t>(elapsed_ns, 1));
}

int64_t LeastTimes::Of(int64_t size) const {
  for (size_t i = IndexOf(size) + 1; i-- > 0;) {
    const Sizes& sizes = sizes_[i];
    if (sizes.earlier_least_ns == 0 && sizes.seen < kFewest) continue;
    return LesserKnown(sizes.least_ns, sizes.earlier_least_ns);
  }
  return 0;
}

}  // namespace baton::router
