#include "simulator/long_run.h"

#include <algorithm>

namespace baton::simulator {
namespace {

// All workers have joined after this time.
constexpr int64_t kJoinedNs = 300 * kNsPerMs;
// A wave comes as often as this where nothing strikes.
constexpr int64_t kNsPerWave = 6 * kNsPerSecond;
// Requests come so long before a fault that many run when it strikes.
constexpr int64_t kMaxAheadNs = 250 * kNsPerMs;
constexpr int64_t kWaveNs = 300 * kNsPerMs;
constexpr int64_t kMaxWaveRequests = 7;
// Two steps in a row that take ten times as long, as some do, are still shorter than a short lease.
constexpr int64_t kSlowStepNs = 12 * kNsPerMs;
constexpr int64_t kSlowestStepNs = 25 * kNsPerMs;
constexpr int kLongOutputsPercent = 40;
constexpr int kRepeatsPercent = 25;

}  // namespace

LongRunPlan DrawLongRun(Simulation& sim, const ClusterSetup& setup, int64_t length_ns) {
  LongRunPlan plan;
  plan.length_ns = length_ns;
  plan.mix.small_worker_tokens = setup.has_small_workers ? kSmallWorkerTokens : 0;
  plan.mix.long_outputs_percent = kLongOutputsPercent;
  plan.mix.repeats_percent = kRepeatsPercent;
  if (sim.Chance(60)) sim.pace.max_step_ns = sim.Chance(60) ? kSlowStepNs : kSlowestStepNs;
  plan.faults = DrawFaultPlan(sim.random, setup.shape, length_ns);
  if (sim.has_kept) AddJournalFaults(sim.kept_random, length_ns, plan.faults);
  const auto add = [&](int64_t at_ns, int64_t within_ns) {
    const int32_t requests = static_cast<int32_t>(sim.Between(1, kMaxWaveRequests));
    plan.waves.push_back({.at_ns = std::max(kJoinedNs, at_ns), .requests = requests, .within_ns = within_ns});
  };
  for (const PlannedFault& fault : plan.faults) add(fault.at_ns - sim.Between(0, kMaxAheadNs), kWaveNs);
  for (int64_t i = 0; i <= length_ns / kNsPerWave; ++i) {
    add(sim.Between(kJoinedNs, length_ns), sim.MsBetween(1, 2'000));
  }
  return plan;
}

}  // namespace baton::simulator
