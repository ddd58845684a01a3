// The thread that owns the dispatcher. Services post to it, the streams of workers and clients are among its events; it
// carries out the dispatcher's actions.
#ifndef BATON_ROUTER_ROUTER_LOOP_H_
#define BATON_ROUTER_ROUTER_LOOP_H_

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "common/loop_events.h"
#include "common/mailbox.h"
#include "router/dispatcher.h"
#include "router/job_loop.h"

namespace baton::router {

// Calls to workers. Called on the loop; must not block. The implementation posts what a worker answers as
// OnWorkerUpdate and OnWorkerEnd to the dispatcher. Every start is answered by exactly one OnWorkerEnd, also when the
// call could not be made, or by the loss of the worker.
class WorkerCalls {
 public:
  virtual ~WorkerCalls() = default;
  virtual void Start(const StartPrefill& start) = 0;
  virtual void Start(const StartDecode& start) = 0;
  virtual void Cancel(const CancelAttempt& cancel) = 0;
  virtual void Move(const HandOverAttempt& move) = 0;
  virtual void End(const EndMembership& end) = 0;
  virtual void Drain(const DrainWorker& drain) = 0;
};

class RouterLoop final : public JobLoop {
 public:
  // `clock`, `random` and `events` outlive the loop, which alone uses `random` unless it is thread-safe. The handlers
  // of `events` run between tasks, and may do what a task may.
  RouterLoop(const DispatcherOptions& options, const Clock& clock, RandomSource& random, LoopEvents& events);
  ~RouterLoop() override;

  void Every(int64_t interval_ms, Task task) override;
  // `calls` outlives the loop.
  void Start(WorkerCalls& calls);
  // Refuses later submits, and returns when no job is left. Ends those that are left after the time with UNAVAILABLE,
  // and returns which they were.
  std::vector<ChoiceKey> Drain(int64_t timeout_ms);
  // Runs the tasks that are posted already, and does not wait for running jobs.
  void Stop();

  // From any thread. False when the loop is overloaded or has stopped.
  [[nodiscard]] bool Post(Task task);
  void PostWhenRoom(Task task) override;
  absl::Status Submit(std::shared_ptr<const JobSpec> job, std::shared_ptr<JobListener> listener) override;

 private:
  void Run();
  void Apply();
  // The paused jobs whose clients have read go on.
  void Continue();
  void Handle(const StartPrefill& action) { calls_->Start(action); }
  void Handle(const StartDecode& action) { calls_->Start(action); }
  void Handle(const CancelAttempt& action) { calls_->Cancel(action); }
  void Handle(const HandOverAttempt& action) { calls_->Move(action); }
  void Handle(const EndMembership& action) { calls_->End(action); }
  void Handle(const DrainWorker& action) { calls_->Drain(action); }
  void Handle(const EmitToken& action);
  void Handle(const EndJob& action);

  const Clock& clock_;
  LoopEvents& events_;
  Dispatcher dispatcher_;
  WorkerCalls* calls_ = nullptr;
  absl::flat_hash_map<ChoiceKey, std::shared_ptr<JobListener>> listeners_;
  struct Periodic {
    int64_t interval_ms = 0;
    Task task;
    TimeNs next = 0;
  };
  std::vector<Periodic> periodic_;
  TimeNs next_continue_ = 0;
  bool draining_ = false;
  absl::Notification drained_;
  Mailbox<Task> mailbox_;
  std::atomic<std::thread::id> loop_thread_;
  std::thread thread_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_ROUTER_LOOP_H_
