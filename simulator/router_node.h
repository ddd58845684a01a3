// The simulated router process: the real dispatcher, and calls to simulated workers in place of gRPC.
#ifndef BATON_SIMULATOR_ROUTER_NODE_H_
#define BATON_SIMULATOR_ROUTER_NODE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/dispatcher.h"
#include "simulator/simulation.h"

namespace baton::simulator {

class WorkerNode;

// One call of the router to a worker, as both ends see it.
struct Call {
  router::Side side = router::Side::kPrefill;
  JobKey key;
  Lane to_worker;
  Lane to_router;
  // The worker that took it.
  WorkerNode* worker = nullptr;
  bool cancelled = false;
  // Set when the router has heard the call's end: what still comes is dropped.
  bool over = false;
};

// The client's side.
class JobListener {
 public:
  virtual ~JobListener() = default;
  // The router gave an attempt to this worker.
  virtual void OnPlaced(const JobKey& key, const Incarnation& worker) = 0;
  virtual void OnToken(const ChoiceKey& key, const OutputToken& token) = 0;
  virtual void OnEnd(const ChoiceKey& key, const router::JobResult& result) = 0;
};

class RouterNode {
 public:
  // nullptr when no process listens at that target.
  using FindWorker = std::function<WorkerNode*(const std::string& target)>;

  RouterNode(Simulation& sim, const router::DispatcherOptions& options, FindWorker find, JobListener& listener);

  // The loop runs the task in its next round.
  void Post(std::function<void(router::Dispatcher&)> task);

  // What the network delivers.
  void DeliverUpdate(const std::shared_ptr<Call>& call, const WorkerUpdate& update);
  void DeliverEnd(const std::shared_ptr<Call>& call, const absl::Status& status);

  const router::Dispatcher& dispatcher() const { return dispatcher_; }

 private:
  using CallKey = std::pair<router::Side, JobKey>;

  void ScheduleRun(TimeNs at);
  void RunOnce();
  void Handle(const router::StartPrefill& action);
  void Handle(const router::StartDecode& action);
  void Handle(const router::CancelAttempt& action);
  void Handle(const router::EmitToken& action) { listener_.OnToken(action.key, action.token); }
  void Handle(const router::EndJob& action) { listener_.OnEnd(action.key, action.result); }
  // `start` runs at the worker, when the call reaches the process for which it is meant.
  void Open(router::Side side, const JobKey& key, const std::string& target, const Incarnation& incarnation,
            std::function<void(WorkerNode&, const std::shared_ptr<Call>&)> start);

  Simulation& sim_;
  router::Dispatcher dispatcher_;
  const FindWorker find_;
  JobListener& listener_;
  std::vector<std::function<void(router::Dispatcher&)>> mailbox_;
  std::map<CallKey, std::shared_ptr<Call>> calls_;
  TimeNs next_run_ = kNever;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_ROUTER_NODE_H_
