#include "simulator/faults.h"

#include <algorithm>
#include <numeric>

namespace baton::simulator {
namespace {

constexpr int64_t kMaxFaults = 4;
constexpr int64_t kMaxDrains = 4;
// A successor has the same address and another incarnation, and starts within this time.
constexpr int64_t kMaxRestartMs = 400;
// A router that wakes has read what came before after this time.
constexpr int64_t kAwakeNs = 50 * kNsPerMs;
constexpr int64_t kGonePollNs = 20 * kNsPerMs;
// An order to drain that has not reached the worker after this time is lost, and the worker is sent a signal.
constexpr int64_t kOrderNs = 500 * kNsPerMs;
// A router that cannot read its journal is started again after this time.
constexpr int64_t kJournalPollNs = 300 * kNsPerMs;
constexpr int64_t kMaxFullMs = 2'000;
// More than a fingerprint, and than most requests.
constexpr size_t kLargeChangeBytes = 200;

}  // namespace

void Faults::Schedule(int64_t within_ms) {
  over_ = sim_.queue.Now();
  // A rolling restart, or a part of one.
  const int64_t drains = sim_.Chance(60) ? 0 : sim_.Between(1, kMaxDrains);
  for (int64_t i = 0; i < drains; ++i) {
    ++pending_;
    sim_.queue.After(sim_.MsBetween(1, within_ms), [this] {
      --pending_;
      DrainOne();
    });
  }
  const int64_t count = sim_.Chance(20) ? 0 : sim_.Between(1, kMaxFaults);
  for (int64_t i = 0; i < count; ++i) {
    ++pending_;
    sim_.queue.After(sim_.MsBetween(1, within_ms), [this] {
      --pending_;
      Strike();
    });
  }
  if (sim_.has_kept) ScheduleJournalFaults(within_ms);
}

int64_t Faults::DrawDuration() {
  if (sim_.Chance(50)) return sim_.MsBetween(1, 600);
  return sim_.Chance(60) ? sim_.MsBetween(600, 4'500) : sim_.MsBetween(4'500, 9'000);
}

WorkerNode* Faults::DrawWorker() {
  const std::vector<WorkerNode*> live = targets_.LiveWorkers();
  if (live.empty()) return nullptr;
  return live[static_cast<size_t>(sim_.Between(0, static_cast<int64_t>(live.size()) - 1))];
}

std::vector<int> Faults::RoutersOf(uint64_t number) const {
  const int all = sim_.routers;
  const int first = static_cast<int>(number % (static_cast<uint64_t>(all) + 1));
  if (first < all) return {first};
  std::vector<int> routers(static_cast<size_t>(all));
  std::iota(routers.begin(), routers.end(), 0);
  return routers;
}

void Faults::Strike() {
  if (sim_.Chance(20)) return StrikeRouter();
  if (WorkerNode* const worker = DrawWorker()) StrikeWorker(*worker);
}

void Faults::DrainOne() {
  WorkerNode* const worker = DrawWorker();
  if (worker != nullptr && !worker->is_to_drain()) Drain(*worker, WorkerNode::kNoTimeoutMs, 0);
}

void Faults::StrikeRouter() {
  RouterNode* router = targets_.FindRouter(sim_.DrawRouter());
  if (router == nullptr) return;
  if (sim_.Chance(50)) return PauseRouter(*router, DrawDuration());
  CrashRouter(*router, std::nullopt);
}

void Faults::PauseRouter(RouterNode& router, int64_t ns) {
  ++sim_.counts.router_pauses;
  sim_.Trace(router.name(), " is paused for ", ns / kNsPerMs, " ms");
  router.Pause(ns);
  sim_.Troubled(Simulation::RouterName(router.number()), router.wake() + kAwakeNs);
  over_ = std::max(over_, router.wake());
}

void Faults::CrashRouter(RouterNode& router, std::optional<int64_t> restart_ns) {
  ++sim_.counts.router_crashes;
  targets_.CrashRouter(router);
  const int64_t restart = restart_ns.has_value() ? *restart_ns : sim_.MsBetween(1, kMaxRestartMs);
  ++pending_;
  RestartRouterAfter(router.number(), restart);
}

void Faults::RestartRouterAfter(int router, int64_t ns) {
  sim_.Troubled(Simulation::RouterName(router), sim_.queue.Now() + ns + kDeathNoticedNs);
  OverAfter(ns + kDeathNoticedNs);
  sim_.queue.After(ns, [this, router] {
    if (!targets_.StartRouter(router)) return RestartRouterAfter(router, kJournalPollNs);
    --pending_;
  });
}

void Faults::ScheduleJournalFaults(int64_t within_ms) {
  const auto schedule = [&](auto strike) {
    ++pending_;
    const int number = static_cast<int>(sim_.KeptBetween(0, sim_.routers - 1));
    sim_.queue.After(sim_.KeptBetween(1, within_ms) * kNsPerMs, [this, number, strike] {
      --pending_;
      strike(number);
    });
  };
  const auto crash = [this](int number) {
    RouterNode* const router = targets_.FindRouter(number);
    if (router != nullptr) CrashRouter(*router, sim_.KeptBetween(1, kMaxRestartMs) * kNsPerMs);
  };
  const auto fill = [this](int number) {
    FillDisk(number, sim_.KeptBetween(1, kMaxFullMs) * kNsPerMs, sim_.kept_random.Next64());
  };
  for (int64_t crashes = sim_.KeptBetween(0, 2); crashes > 0; --crashes) schedule(crash);
  for (int64_t fills = sim_.KeptBetween(0, 2); fills > 0; --fills) schedule(fill);
}

void Faults::FillDisk(int router, int64_t ns, uint64_t variant) {
  ++sim_.counts.full_disks;
  // Small changes still find room on some disks.
  const size_t least_bytes = variant % 3 == 0 ? kLargeChangeBytes : 0;
  sim_.Trace("router-", router, "'s disk is full for ", ns / kNsPerMs, " ms, for ", least_bytes, " bytes or more");
  targets_.FillDisk(router, sim_.queue.Now() + ns, least_bytes);
  OverAfter(ns);
}

void Faults::StrikeWorker(WorkerNode& worker) {
  const int64_t kind = sim_.Between(0, 99);
  const int64_t ns = DrawDuration();
  OverAfter(ns);
  if (kind < 35) {
    Crash(worker);
  } else if (kind < 60) {
    ++sim_.counts.pauses;
    worker.Hang(ns);
    over_ = std::max(over_, worker.wake());
  } else if (kind < 72) {
    ++sim_.counts.silences;
    for (const int router : RoutersOf(sim_.router_random.Next64())) worker.FallSilent(router, ns);
  } else if (kind < 84) {
    ++sim_.counts.partitions;
    for (const int router : RoutersOf(sim_.router_random.Next64())) worker.Partition(router, ns);
    OverAfter(kHalfOpenNs);
  } else if (kind < 90) {
    ++sim_.counts.stalls;
    worker.StallEngine(ns);
    over_ = std::max(over_, worker.busy_until());
  } else if (!worker.is_to_drain()) {
    Drain(worker, WorkerNode::kNoTimeoutMs, 0);
  }
}

void Faults::Crash(WorkerNode& worker) {
  ++sim_.counts.crashes;
  worker.Crash();
  RestartAfter(worker, sim_.MsBetween(1, kMaxRestartMs));
}

void Faults::RestartAfter(const WorkerNode& worker, int64_t ns) {
  OverAfter(ns + kDeathNoticedNs);
  ++pending_;
  sim_.queue.After(ns, [this, setup = worker.setup()] {
    --pending_;
    targets_.StartWorker(setup);
  });
}

void Faults::Drain(WorkerNode& worker, int64_t timeout_ms, int64_t restart_ns) {
  ++sim_.counts.drains;
  // Its jobs end well, yet others may find nobody else.
  sim_.Troubled(Absence(worker));
  if (!sim_.RouterChance(50) || !OrderDrain(worker, timeout_ms)) worker.Drain(timeout_ms);
  ++pending_;
  RestartWhenGone(worker, restart_ns);
}

bool Faults::OrderDrain(WorkerNode& worker, int64_t timeout_ms) {
  RouterNode* const router = targets_.FindRouter(sim_.DrawRouter());
  if (router == nullptr || !worker.joined(router->number())) return false;
  worker.ExpectDrain(timeout_ms);
  router->OrderDrain(worker.incarnation());
  sim_.queue.After(kOrderNs, [this, &worker, timeout_ms, number = router->number()] {
    if (!worker.alive() || worker.draining()) return;
    const TimeNs since = sim_.queue.Now() - kOrderNs - kDeathNoticedNs;
    const bool may_be_lost = sim_.WasTroubled(worker.incarnation(), since) ||
                             sim_.WasTroubled(Simulation::LinkName(worker.incarnation(), number), since) ||
                             sim_.WasTroubled(Simulation::RouterName(number), since) ||
                             sim_.WasTroubled(Simulation::kNetwork, since);
    if (!may_be_lost) sim_.Fail(worker.setup().target + " was ordered to drain and does not");
    worker.Drain(timeout_ms);
  });
  return true;
}

void Faults::RestartWhenGone(WorkerNode& worker, int64_t restart_ns) {
  if (worker.alive()) {
    return sim_.queue.After(kGonePollNs, [this, &worker, restart_ns] { RestartWhenGone(worker, restart_ns); });
  }
  --pending_;
  OverAfter(kDeathNoticedNs);
  sim_.Recovered(Absence(worker));
  sim_.Troubled(Absence(worker), sim_.queue.Now() + restart_ns + kDeathNoticedNs);
  // When it crashed while it drained, its successor starts after that.
  if (!worker.left()) return;
  if (restart_ns == 0) return targets_.StartWorker(worker.setup());
  RestartAfter(worker, restart_ns);
}

}  // namespace baton::simulator
