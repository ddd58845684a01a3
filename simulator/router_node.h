// A simulated router process: the real dispatcher and, in some runs, the real keeper of jobs that outlive their calls;
// links to simulated workers in place of gRPC.
#ifndef BATON_SIMULATOR_ROUTER_NODE_H_
#define BATON_SIMULATOR_ROUTER_NODE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/block_report.h"
#include "router/dispatcher.h"
#include "router/job_loop.h"
#include "router/kept_jobs.h"
#include "simulator/cluster_setup.h"
#include "simulator/link.h"
#include "simulator/process.h"
#include "simulator/simulated_journal.h"

namespace baton::simulator {

// One call of the router to a worker, as both ends see it.
struct Call {
  router::Side side = router::Side::kPrefill;
  JobKey key;
  LinkPtr link;
};

// The client's side.
class JobListener {
 public:
  virtual ~JobListener() = default;
  // The router gave an attempt to this worker.
  virtual void OnPlaced(const JobKey& key, const Incarnation& worker) = 0;
  // The router has begun a job that outlives its calls, or has taken it up again.
  virtual void OnSubmitted(const std::shared_ptr<const router::JobSpec>& spec, const RouterNode& router) = 0;
  // A worker has told the router that it dies in a step with the attempt, which may be another router's.
  virtual void OnDeath(const JobKey& key, const RouterNode& router) = 0;
  // Before output 0.
  virtual void OnPrompt(const ChoiceKey& key, const std::vector<PromptLogprob>& logprobs) = 0;
  virtual void OnToken(const ChoiceKey& key, const OutputToken& token) = 0;
  virtual void OnEnd(const ChoiceKey& key, const router::JobResult& result) = 0;
};

class RouterNode final : public Process, public router::JobLoop {
 public:
  using LoopTask = router::JobLoop::Task;

  // Routers are numbered from 0; a successor has the number of its predecessor.
  RouterNode(Simulation& sim, int number, const router::DispatcherOptions& options, JobListener& listener);

  // router_jobs.cc: it keeps jobs in a journal on the disk, which had these jobs when it started.
  void Keep(const KeptSetup& setup, JournalDisk& disk, std::vector<router::JournaledJob> jobs);
  router::KeptJobs& kept() { return *kept_; }
  const JournalDisk& journal_disk() const { return *disk_; }

  // router::JobLoop, for the jobs that are kept.
  void Every(int64_t interval_ms, LoopTask task) override;
  void PostWhenRoom(LoopTask task) override { Post(std::move(task)); }
  absl::Status Submit(std::shared_ptr<const router::JobSpec> job,
                      std::shared_ptr<router::JobListener> listener) override;

  int number() const { return number_; }
  const std::string& name() const { return name_; }

  // A message of a client: its connection has it until the process runs.
  void FromClient(LoopTask task);
  // The job, whose deadline is one of virtual time, by the router's clock.
  std::shared_ptr<const router::JobSpec> ByOwnClock(const std::shared_ptr<const router::JobSpec>& spec) const;
  // What the network delivers from workers. A connection is there even while the process is paused.
  void OnConnection(const LinkPtr& link) { joining_.push_back(link); }
  void OnHello(const LinkPtr& link, router::WorkerInfo info);
  void OnLoad(const LinkPtr& link, const router::WorkerLoad& load);
  void OnBlocks(const LinkPtr& link, const BlockReport& report);
  void OnUpdate(const Call& call, const WorkerUpdate& update);
  void OnCallEnd(const Call& call, const absl::Status& status);
  void OnLinkEnd(const LinkPtr& link, const absl::Status& status);
  // The worker's last words.
  void OnFault(const LinkPtr& link, const router::WorkerFault& fault);

  // An operator wants the worker to drain, and names its process: a dead one may still be a member with its address.
  void OrderDrain(const Incarnation& worker);
  // Fails the run when anything is left that a request referred to.
  void CheckQuiet() const;
  // All is lost. The workers notice, each in its own time.
  void Crash();
  // Its clock leaps ahead.
  void LeapRouterClock(int64_t ns);

  // Whether it takes the worker for so slow that requests rather wait for others.
  bool Ejects(const WorkerNode& worker) const;
  const router::Dispatcher& dispatcher() const { return dispatcher_; }

 private:
  // The loop runs the task in its next round.
  void Post(LoopTask task);
  void ScheduleRun(TimeNs at);
  void RunOnce();
  void Join(router::Dispatcher& dispatcher, const LinkPtr& link, router::WorkerInfo info);
  void Handle(const router::StartPrefill& action);
  void Handle(const router::StartDecode& action);
  void Handle(const router::CancelAttempt& action);
  void Handle(const router::HandOverAttempt& action);
  void Handle(const router::EndMembership& action);
  void Handle(const router::DrainWorker& action);
  void Handle(const router::EmitToken& action);
  void Handle(const router::EndJob& action);
  // `start` runs at the worker.
  void Open(const router::WorkerId& worker, const Incarnation& incarnation, router::Side side, const JobKey& key,
            std::function<void(WorkerNode&, const Call&)> start);
  void Send(const LinkPtr& link, simulator::Task handle);
  // The router ends the stream.
  void Close(const LinkPtr& link, const absl::Status& why);

  const int number_;
  const std::string name_;
  router::Dispatcher dispatcher_;
  JobListener& listener_;
  std::vector<LoopTask> mailbox_;
  struct Periodic {
    int64_t interval_ms = 0;
    LoopTask task;
    TimeNs next = 0;
  };
  std::vector<Periodic> periodic_;
  // The members, and who waits until the loop has joined it.
  std::map<router::WorkerId, LinkPtr> members_;
  std::vector<LinkPtr> joining_;
  // Workers whose draining the dispatcher knows of since this turn.
  std::vector<LinkPtr> drains_;
  std::set<Incarnation> ordered_drains_;
  TimeNs next_run_ = kNever;
  // Null where no job is kept.
  JournalDisk* disk_ = nullptr;
  std::unique_ptr<SimulatedJournal> journal_;
  std::unique_ptr<router::KeptJobs> kept_;
  std::map<ChoiceKey, std::shared_ptr<router::JobListener>> kept_listeners_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_ROUTER_NODE_H_
