// The faults of a plan, as they strike.
#include <algorithm>
#include <iterator>
#include <utility>

#include "simulator/faults.h"

namespace baton::simulator {
namespace {

// A fault that finds nobody whom it could strike comes a little later.
constexpr int64_t kRetryStrikeNs = 300 * kNsPerMs;
constexpr int64_t kRouterAwakeNs = 50 * kNsPerMs;
constexpr int64_t kMaxLeapNs = 4 * kNsPerSecond;
constexpr int64_t kMinSlowNs = 20 * kNsPerMs;
constexpr int64_t kMaxSlowNs = 300 * kNsPerMs;
// The steps of a slow worker take up to about this long.
constexpr int64_t kMaxSlowStepNs = 100 * kNsPerMs;
constexpr int64_t kMinDrainMs = 100;
constexpr int64_t kMaxDrainMs = 6'000;
constexpr int64_t kMaxFilling = 16;
// What a slow network or a bad pair does to a job shows within this time.
constexpr int64_t kWeatherAftermathNs = 2 * kNsPerSecond;

// A number of the fault, brought between the two, both included.
int64_t Scale(uint64_t number, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(number % static_cast<uint64_t>(high - low + 1));
}

}  // namespace

void Faults::Follow(const std::vector<PlannedFault>& plan) {
  over_ = sim_.queue.Now();
  sim_.on_poisoned = [this](const Incarnation& incarnation) { OnPoisoned(incarnation); };
  for (const PlannedFault& fault : plan) {
    ++pending_;
    sim_.queue.At(VirtualTime::kStart + fault.at_ns, [this, fault] {
      --pending_;
      Strike(fault);
    });
  }
}

void Faults::Strike(const PlannedFault& fault) {
  sim_.Trace("fault ", fault.index, " of ", NameOf(fault.kind));
  const bool of_router = fault.kind >= FaultKind::kRouterCrash;
  const bool struck = of_router ? StrikeRouter(fault) : StrikeWorker(fault) || StrikeNetwork(fault);
  if (struck) {
    ++struck_[static_cast<size_t>(fault.kind)];
    return;
  }
  ++pending_;
  sim_.queue.After(kRetryStrikeNs, [this, fault] {
    --pending_;
    Strike(fault);
  });
}

bool Faults::StrikeRouter(const PlannedFault& fault) {
  const int number = static_cast<int>(fault.target % static_cast<uint64_t>(sim_.routers));
  RouterNode* const router = targets_.FindRouter(number);
  if (router == nullptr || router->paused()) return false;
  switch (fault.kind) {
    case FaultKind::kJournalFull:
      FillDisk(number, fault.duration_ns, fault.variant);
      return true;
    case FaultKind::kRouterCrash:
      CrashRouter(*router, std::min(fault.restart_ns, kMaxLeapNs));
      return true;
    case FaultKind::kRouterPause:
      PauseRouter(*router, fault.duration_ns);
      return true;
    case FaultKind::kRouterSuspension:
      router->Suspend(fault.duration_ns);
      break;
    default:
      router->LeapRouterClock(Scale(fault.variant, 1, kMaxLeapNs));
  }
  sim_.Troubled(Simulation::RouterName(number), std::max(router->wake(), sim_.queue.Now()) + kRouterAwakeNs);
  over_ = std::max({over_, sim_.queue.Now(), router->wake()});
  return true;
}

bool Faults::StrikeWorker(const PlannedFault& fault) {
  WorkerNode* const worker = WorkerOf(fault.target);
  if (worker == nullptr) return false;
  const int64_t ns = fault.duration_ns;
  switch (fault.kind) {
    case FaultKind::kCrash:
      ++sim_.counts.crashes;
      worker->Crash();
      RestartAfter(*worker, fault.restart_ns);
      return true;
    case FaultKind::kOwnFault:
      worker->DieOfOwnFault();
      RestartAfter(*worker, fault.restart_ns);
      return true;
    case FaultKind::kPause:
      worker->Hang(ns);
      break;
    case FaultKind::kSuspension:
      worker->SuspendMachine(ns);
      break;
    case FaultKind::kClockLeap:
      worker->LeapClock(Scale(fault.variant, 1, kMaxLeapNs));
      break;
    case FaultKind::kStall:
      worker->StallEngine(ns);
      over_ = std::max(over_, worker->busy_until());
      break;
    case FaultKind::kSlowWorker:
      worker->SlowDown(ns, Scale(fault.variant, 3, std::max<int64_t>(4, kMaxSlowStepNs / sim_.pace.max_step_ns)));
      break;
    case FaultKind::kDrain:
      Drain(*worker, Scale(fault.variant, kMinDrainMs, kMaxDrainMs), fault.restart_ns);
      return true;
    default:
      return StrikeLink(*worker, fault);
  }
  OverAfter(ns);
  over_ = std::max(over_, worker->wake());
  return true;
}

bool Faults::StrikeLink(WorkerNode& worker, const PlannedFault& fault) {
  std::vector<int> routers = RoutersOf(fault.target >> 32);
  std::erase_if(routers, [&worker](int router) { return !worker.joined(router); });
  for (const int router : routers) {
    switch (fault.kind) {
      case FaultKind::kDelay:
        worker.FallSilent(router, fault.duration_ns);
        OverAfter(fault.duration_ns);
        break;
      case FaultKind::kBreak:
        worker.BreakConnection(router);
        OverAfter(kDeathNoticedNs);
        break;
      case FaultKind::kHalfOpen:
        worker.Partition(router, fault.duration_ns);
        OverAfter(kHalfOpenNs);
        break;
      case FaultKind::kOneWay:
        worker.PartitionOneWay(router, fault.duration_ns, fault.variant % 2 == 0);
        OverAfter(kHalfOpenNs);
        break;
      default:
        return false;
    }
  }
  return !routers.empty();
}

bool Faults::StrikeNetwork(const PlannedFault& fault) {
  const TimeNs until = sim_.queue.Now() + fault.duration_ns;
  switch (fault.kind) {
    case FaultKind::kSlowNetwork:
      sim_.weather.slow_until = until;
      sim_.weather.slow_max_ns = Scale(fault.variant, kMinSlowNs, kMaxSlowNs);
      break;
    case FaultKind::kDuplicates:
      sim_.weather.twice_until = until;
      break;
    case FaultKind::kCorruption:
      sim_.weather.damages_until = until;
      break;
    case FaultKind::kFullPools:
      targets_.FillPools(static_cast<int>(Scale(fault.variant, 4, kMaxFilling)));
      return true;
    case FaultKind::kPoison:
      targets_.SubmitPoison();
      return true;
    case FaultKind::kPairCut:
    case FaultKind::kPairOneWay:
      if (!CutPair(fault, until)) return false;
      break;
    default:
      return false;
  }
  OverAfter(fault.duration_ns);
  sim_.Troubled(Simulation::kNetwork, until + kWeatherAftermathNs);
  return true;
}

bool Faults::CutPair(const PlannedFault& fault, TimeNs until) {
  std::vector<std::pair<WorkerNode*, WorkerNode*>> pairs;
  for (WorkerNode* const reader : targets_.LiveWorkers()) {
    for (WorkerNode* const source : targets_.LiveWorkers()) {
      if (source != reader && reader->setup().decodes()) pairs.emplace_back(source, reader);
    }
  }
  if (pairs.empty()) return false;
  const auto& [source, reader] = pairs[fault.target % pairs.size()];
  const bool both = fault.kind == FaultKind::kPairCut;
  const PairCut cut = {.source = source->setup().target,
                       .reader = reader->setup().target,
                       .to_source = both || fault.variant % 2 == 0,
                       .to_reader = both || fault.variant % 2 == 1,
                       .until = until};
  std::erase_if(sim_.weather.cuts, [this](const PairCut& old) { return old.until <= sim_.queue.Now(); });
  sim_.weather.cuts.push_back(cut);
  reader->OnPairCut(cut);
  return true;
}

void Faults::OnPoisoned(const Incarnation& incarnation) {
  for (WorkerNode* const worker : targets_.LiveWorkers()) {
    if (worker->incarnation() != incarnation) continue;
    worker->DieOfOwnFault();
    return RestartAfter(*worker, kRetryStrikeNs);
  }
}

// The same process of the cluster for the same number, if that lives.
WorkerNode* Faults::WorkerOf(uint64_t number) {
  const std::vector<WorkerNode*> live = targets_.LiveWorkers();
  std::vector<WorkerNode*> able;
  std::copy_if(live.begin(), live.end(), std::back_inserter(able),
               [](const WorkerNode* worker) { return !worker->is_to_drain() && !worker->paused(); });
  std::sort(able.begin(), able.end(),
            [](const WorkerNode* a, const WorkerNode* b) { return a->setup().target < b->setup().target; });
  return able.empty() ? nullptr : able[number % able.size()];
}

}  // namespace baton::simulator
