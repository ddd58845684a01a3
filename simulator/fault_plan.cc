#include "simulator/fault_plan.h"

#include <algorithm>
#include <array>

#include "common/clock.h"

namespace baton::simulator {
namespace {

// A run has one more fault at most for so much of its length.
constexpr int64_t kNsPerFault = 6 * kNsPerSecond;
// Likewise a full disk.
constexpr int64_t kNsPerJournalFault = 20 * kNsPerSecond;
// The first fault comes after all have joined, the last one before the end.
constexpr int64_t kCalmNs = 500 * kNsPerMs;

constexpr std::array<const char*, kFaultKinds> kNames = {"crashes",
                                                         "own faults",
                                                         "pauses",
                                                         "suspensions",
                                                         "clock leaps",
                                                         "stalls",
                                                         "slow workers",
                                                         "drains",
                                                         "full pools",
                                                         "poisoned requests",
                                                         "delays",
                                                         "broken links",
                                                         "half-open links",
                                                         "one-way links",
                                                         "slow networks",
                                                         "duplicates",
                                                         "corruptions",
                                                         "cut pairs",
                                                         "one-way pairs",
                                                         "router crashes",
                                                         "router pauses",
                                                         "router suspensions",
                                                         "router clock leaps",
                                                         "full disks"};

bool Applies(FaultKind kind, const Shape& shape) {
  if (kind == FaultKind::kJournalFull) return false;
  const bool has_pairs = shape.prefill + shape.decode + shape.mixed > 1;
  return has_pairs || (kind != FaultKind::kPairCut && kind != FaultKind::kPairOneWay);
}

int64_t Between(RandomSource& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random.Below(static_cast<uint64_t>(high - low + 1)));
}

// Some are over in a moment, some long after the router has lost patience.
int64_t DrawDuration(RandomSource& random) {
  const uint64_t length = random.Below(10);
  if (length < 5) return Between(random, 1, 600) * kNsPerMs;
  return (length < 8 ? Between(random, 600, 4'500) : Between(random, 4'500, 9'000)) * kNsPerMs;
}

// Most successors start at once.
int64_t DrawRestart(RandomSource& random) {
  return (random.Below(4) > 0 ? Between(random, 1, 400) : Between(random, 400, 8'000)) * kNsPerMs;
}

}  // namespace

const char* NameOf(FaultKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::vector<PlannedFault> DrawFaultPlan(RandomSource& random, const Shape& shape, int64_t length_ns) {
  std::vector<FaultKind> kinds;
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    if (Applies(static_cast<FaultKind>(kind), shape)) kinds.push_back(static_cast<FaultKind>(kind));
  }
  const int64_t least = std::max<int64_t>(kMinFaults, length_ns / kNsPerFault / 3);
  const int64_t count = Between(random, least, kMinFaults + length_ns / kNsPerFault);
  std::vector<PlannedFault> plan;
  for (int64_t i = 0; i < count; ++i) {
    plan.push_back({.kind = kinds[random.Below(kinds.size())],
                    .at_ns = Between(random, kCalmNs, length_ns - kCalmNs),
                    .duration_ns = DrawDuration(random),
                    .restart_ns = DrawRestart(random),
                    .target = random.Next64(),
                    .variant = random.Next64()});
  }
  std::sort(plan.begin(), plan.end(), [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  for (size_t i = 0; i < plan.size(); ++i) plan[i].index = static_cast<int>(i);
  return plan;
}

void AddJournalFaults(RandomSource& random, int64_t length_ns, std::vector<PlannedFault>& plan) {
  const auto add = [&](FaultKind kind, int64_t at_ns, int64_t duration_ns) {
    plan.push_back({.kind = kind,
                    .index = static_cast<int>(plan.size()),
                    .at_ns = std::min(at_ns, length_ns - kCalmNs),
                    .duration_ns = duration_ns,
                    .restart_ns = DrawRestart(random),
                    .target = random.Next64(),
                    .variant = random.Next64()});
  };
  for (int64_t count = Between(random, 1, 1 + length_ns / kNsPerJournalFault); count > 0; --count) {
    const int64_t at_ns = Between(random, kCalmNs, length_ns - kCalmNs);
    const int64_t duration_ns = DrawDuration(random);
    add(FaultKind::kJournalFull, at_ns, duration_ns);
    if (random.Below(2) == 0) add(FaultKind::kRouterCrash, at_ns + Between(random, 0, duration_ns), 0);
    if (random.Below(2) == 0) add(FaultKind::kRouterCrash, Between(random, kCalmNs, length_ns - kCalmNs), 0);
  }
}

}  // namespace baton::simulator
