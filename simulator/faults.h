// What befalls the processes of a run, drawn by its seed.
#ifndef BATON_SIMULATOR_FAULTS_H_
#define BATON_SIMULATOR_FAULTS_H_

#include <functional>
#include <vector>

#include "simulator/router_node.h"
#include "simulator/worker_node.h"

namespace baton::simulator {

// The processes that a fault can strike. It also starts new ones in the place of those that have ended.
class FaultTargets {
 public:
  virtual ~FaultTargets() = default;
  virtual std::vector<WorkerNode*> LiveWorkers() const = 0;
  virtual RouterNode* FindRouter() = 0;
  virtual void CrashRouter() = 0;
  virtual void StartRouter() = 0;
  virtual void StartWorker(const WorkerSetup& setup) = 0;
};

class Faults {
 public:
  Faults(Simulation& sim, FaultTargets& targets) : sim_(sim), targets_(targets) {}

  // Draws which faults come, all of them within this time.
  void Schedule(int64_t within_ms);

  // Whether some fault still lasts, or is to come.
  bool Pending() const { return pending_ > 0; }
  // From this time on no fault lasts. Holds when none is pending.
  TimeNs over() const { return over_; }

 private:
  // Null when none lives.
  WorkerNode* DrawWorker();
  void Strike();
  void DrainOne();
  void StrikeRouter();
  void StrikeWorker(WorkerNode& worker);
  void Crash(WorkerNode& worker);
  void Drain(WorkerNode& worker);
  void RestartWhenGone(WorkerNode& worker);
  // Some are over in a moment, some long after the router has lost patience.
  int64_t DrawDuration();
  void OverAfter(int64_t ns) { over_ = std::max(over_, sim_.queue.Now() + ns); }

  Simulation& sim_;
  FaultTargets& targets_;
  int pending_ = 0;
  TimeNs over_ = 0;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_FAULTS_H_
