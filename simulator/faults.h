// What befalls the processes of a run, drawn by its seed.
#ifndef BATON_SIMULATOR_FAULTS_H_
#define BATON_SIMULATOR_FAULTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/fault_plan.h"
#include "simulator/router_node.h"
#include "simulator/worker_node.h"

namespace baton::simulator {

// The processes that a fault can strike. It also starts new ones in the place of those that have ended.
class FaultTargets {
 public:
  virtual ~FaultTargets() = default;
  virtual std::vector<WorkerNode*> LiveWorkers() const = 0;
  // nullptr while there is none.
  virtual RouterNode* FindRouter(int router) = 0;
  virtual void CrashRouter(RouterNode& router) = 0;
  // False: it cannot read its journal now.
  virtual bool StartRouter(int router) = 0;
  virtual void StartWorker(const WorkerSetup& setup) = 0;
  // The router's journal has no room until then for changes of so many bytes or more.
  virtual void FillDisk(int router, TimeNs until, size_t least_bytes) = 0;
  // What clients do to the cluster.
  virtual void FillPools(int requests) = 0;
  virtual void SubmitPoison() = 0;
};

class Faults {
 public:
  Faults(Simulation& sim, FaultTargets& targets) : sim_(sim), targets_(targets) {}

  // Draws which faults come, all of them within this time.
  void Schedule(int64_t within_ms);
  // Lets the faults of the plan come (planned_faults.cc).
  void Follow(const std::vector<PlannedFault>& plan);

  // Whether some fault still lasts, or is to come.
  bool Pending() const { return pending_ > 0; }
  // From this time on no fault lasts. Holds when none is pending.
  TimeNs over() const { return over_; }
  // How many faults of each kind of a plan have struck.
  const std::array<int64_t, kFaultKinds>& struck() const { return struck_; }

 private:
  // Both ends of a half-open link have noticed after this time.
  static constexpr int64_t kHalfOpenNs = 12'500 * kNsPerMs;
  // The ends of a link to a dead process have noticed after this time.
  static constexpr int64_t kDeathNoticedNs = 1'000 * kNsPerMs;

  static Incarnation Absence(const WorkerNode& worker) { return Simulation::AbsenceName(worker.incarnation()); }
  // Null when none lives.
  WorkerNode* DrawWorker();
  // One router, or all of them: a number from 0 to that of the routers says whose links a fault strikes.
  std::vector<int> RoutersOf(uint64_t number) const;
  void Strike();
  void DrainOne();
  void StrikeRouter();
  void StrikeWorker(WorkerNode& worker);
  void Crash(WorkerNode& worker);
  // A dead worker has its successor after this time.
  void RestartAfter(const WorkerNode& worker, int64_t ns);
  void Drain(WorkerNode& worker, int64_t timeout_ms, int64_t restart_ns);
  // False when no router takes the order now.
  bool OrderDrain(WorkerNode& worker, int64_t timeout_ms);
  void RestartWhenGone(WorkerNode& worker, int64_t restart_ns);
  void PauseRouter(RouterNode& router, int64_t ns);
  // nullopt: drawn when it has crashed.
  void CrashRouter(RouterNode& router, std::optional<int64_t> restart_ns);
  // One is pending until the router has started.
  void RestartRouterAfter(int router, int64_t ns);
  // What befalls journals in a short run, within this time.
  void ScheduleJournalFaults(int64_t within_ms);
  void FillDisk(int router, int64_t ns, uint64_t variant);
  // Strike faults of a plan. A function that returns a bool says false when it has no such fault, or nobody to strike
  // now.
  void Strike(const PlannedFault& fault);
  bool StrikeRouter(const PlannedFault& fault);
  bool StrikeWorker(const PlannedFault& fault);
  bool StrikeLink(WorkerNode& worker, const PlannedFault& fault);
  bool StrikeNetwork(const PlannedFault& fault);
  bool CutPair(const PlannedFault& fault, TimeNs until);
  void OnPoisoned(const Incarnation& incarnation);
  WorkerNode* WorkerOf(uint64_t number);
  // Some are over in a moment, some long after the router has lost patience.
  int64_t DrawDuration();
  void OverAfter(int64_t ns) { over_ = std::max(over_, sim_.queue.Now() + ns); }

  Simulation& sim_;
  FaultTargets& targets_;
  int pending_ = 0;
  TimeNs over_ = 0;
  std::array<int64_t, kFaultKinds> struck_ = {};
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_FAULTS_H_
