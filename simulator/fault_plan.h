// The faults of a long run: which, when and for how long, all drawn before the run begins. What a fault strikes, and
// how, lies in its own numbers, so that a fault stays what it is when others are left out to shrink a failing run.
//
//   what can go wrong with   | kinds
//   -------------------------+------------------------------------------------------------------------------------------
//   messages                 | dropped (kBreak, kHalfOpen, kOneWay, kPairCut, kPairOneWay), delayed (kDelay, kSlowNetwork),
//                            | out of order across streams (kSlowNetwork), twice (kDuplicates)
//   blocks on their way      | damaged (kCorruption), not readable (kPairCut)
//   a worker                 | kCrash, kOwnFault, kPause, kStall, kSlowWorker, kDrain, kFullPools
//   a clock                  | leaps ahead (kClockLeap), stands still while the process does (kSuspension)
//   the router               | kRouterCrash, kRouterPause, kRouterClockLeap, kRouterSuspension
//   its journal              | has no room on its disk (kJournalFull); a router that crashes has what was written before
//   a request                | kills whoever computes it (kPoison)
//
// A stream of gRPC is ordered and delivers once: so no message of one stream is lost alone, comes twice or overtakes
// another. What may come twice is what the processes themselves may say again: loads, cancellations, ends of calls and
// of streams, requests to hand over, the opening of a Fetch, and what a client says when it leaves.
#ifndef BATON_SIMULATOR_FAULT_PLAN_H_
#define BATON_SIMULATOR_FAULT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/random.h"
#include "simulator/cluster_setup.h"

namespace baton::simulator {

enum class FaultKind : uint8_t {
  kCrash,
  kOwnFault,
  kPause,
  kSuspension,
  kClockLeap,
  kStall,
  kSlowWorker,
  kDrain,
  kFullPools,
  kPoison,
  kDelay,
  kBreak,
  kHalfOpen,
  kOneWay,
  kSlowNetwork,
  kDuplicates,
  kCorruption,
  kPairCut,
  kPairOneWay,
  kRouterCrash,
  kRouterPause,
  kRouterSuspension,
  kRouterClockLeap,
  kJournalFull,
};
inline constexpr size_t kFaultKinds = 24;

const char* NameOf(FaultKind kind);

struct PlannedFault {
  FaultKind kind = FaultKind::kCrash;
  // Its place in the whole plan, which stays when others are left out.
  int index = 0;
  // Since the beginning of the run.
  int64_t at_ns = 0;
  int64_t duration_ns = 0;
  // A process that ends has its successor after this time.
  int64_t restart_ns = 0;
  // Choose the workers that are struck, and between variants of the fault.
  uint64_t target = 0;
  uint64_t variant = 0;
};

// At least kMinFaults, in the order of their times, each of a kind that the shape can have. None is of a journal.
inline constexpr int kMinFaults = 3;
std::vector<PlannedFault> DrawFaultPlan(RandomSource& random, const Shape& shape, int64_t length_ns);
// Puts faults of journals behind those of the plan: full disks and crashes of routers, some of both at once.
void AddJournalFaults(RandomSource& random, int64_t length_ns, std::vector<PlannedFault>& plan);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_FAULT_PLAN_H_
