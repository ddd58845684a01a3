// A worker of the router's loop that answers every job with the output of a script. For tests.
#ifndef BATON_ROUTER_TESTING_SCRIPTED_WORKER_H_
#define BATON_ROUTER_TESTING_SCRIPTED_WORKER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/check.h"
#include "router/router_loop.h"

namespace baton::router {

struct WorkerScript {
  std::vector<int32_t> tokens = {};
  float logprob = 0;
  // Of each token of a prompt that asks for it.
  float prompt_logprob = 0;
  // Comes with each token.
  std::vector<TopLogprob> top = {};
  // The finish of the last token. With kNone the worker goes on computing until the router cancels the call.
  FinishReason finish = FinishReason::kStop;
  // When this is an error, the call ends with it at once.
  absl::Status error = absl::OkStatus();
  // Of worker 1.
  std::string fingerprint = "f";
  // The worker of a job that has no outputs yet is lost after so many, or says no more; -1: neither.
  int lost_after = -1;
  int silent_after = -1;
};

// Mixed workers, which compute prompt and output. They post their updates to the loop, as calls to real workers do.
class ScriptedWorker final : public WorkerCalls {
 public:
  ScriptedWorker(RouterLoop& loop, WorkerScript script) : loop_(loop), script_(std::move(script)) {}

  // Blocks until the loop knows the worker, so that a job finds it.
  void Join() { Join(1, script_.fingerprint); }
  void Join(uint64_t n, const std::string& fingerprint) {
    absl::Status joined;
    absl::Notification done;
    WorkerInfo info;
    info.id = {.high = 1, .low = n};
    info.incarnation = {.high = 3, .low = n};
    info.target = "worker";
    info.fingerprint = fingerprint;
    info.total_blocks = 300;
    info.max_sequences = 16;
    info.chunk_tokens = 64;
    info.context_length = 4096;
    loop_.PostWhenRoom([&](Dispatcher& dispatcher) {
      joined = dispatcher.OnWorkerJoin(info);
      done.Notify();
    });
    done.WaitForNotification();
    BATON_CHECK(joined.ok()) << joined;
  }

  void Start(const StartPrefill&) override { BATON_CHECK(false) << "a mixed worker computes its prompts itself"; }
  void Start(const StartDecode& start) override {
    {
      absl::MutexLock lock(&mutex_);
      started_.push_back(start.job);
    }
    if (!script_.error.ok()) return End(start.key, script_.error);
    Say(start.key, MakeUpdate(WorkerUpdate::Kind::kStarted));
    if (start.job->prompt_logprobs() > 0) {
      WorkerUpdate update = MakeUpdate(WorkerUpdate::Kind::kPrompt);
      update.first_prompt = 1;
      update.prompt.assign(static_cast<size_t>(start.job->prompt_logprobs()), {.logprob = script_.prompt_logprob});
      Say(start.key, update);
    }
    for (auto i = static_cast<size_t>(start.job->emitted); i < script_.tokens.size(); ++i) {
      if (start.job->emitted == 0 && static_cast<int>(i) == script_.lost_after) return Lose(start.worker);
      if (start.job->emitted == 0 && static_cast<int>(i) == script_.silent_after) return;
      const bool last = i + 1 == script_.tokens.size();
      WorkerUpdate update = MakeUpdate(WorkerUpdate::Kind::kToken);
      update.token = {.index = static_cast<int32_t>(i),
                      .token = script_.tokens[i],
                      .finish = last ? script_.finish : FinishReason::kNone,
                      .logprob = script_.logprob,
                      .top = script_.top};
      Say(start.key, update);
    }
    if (script_.finish == FinishReason::kNone) return;
    Say(start.key, MakeUpdate(WorkerUpdate::Kind::kFinished));
    End(start.key, absl::OkStatus());
  }
  void Cancel(const CancelAttempt& cancel) override {
    cancelled_.fetch_add(1);
    End(cancel.key, absl::CancelledError("the router cancelled"));
  }

  // How many calls the router has cancelled so far.
  int cancelled() const { return cancelled_.load(); }

  void Move(const HandOverAttempt&) override {}
  void End(const EndMembership&) override {}
  void Drain(const DrainWorker&) override {}

  // The jobs that the router has started so far.
  std::vector<std::shared_ptr<const JobSpec>> started() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return started_;
  }

 private:
  static WorkerUpdate MakeUpdate(WorkerUpdate::Kind kind) {
    WorkerUpdate update;
    update.kind = kind;
    return update;
  }
  void Say(const JobKey& key, const WorkerUpdate& update) {
    BATON_CHECK(loop_.Post([key, update](Dispatcher& d) { d.OnWorkerUpdate(Side::kDecode, key, update); }));
  }
  void End(const JobKey& key, const absl::Status& status) {
    BATON_CHECK(loop_.Post([key, status](Dispatcher& d) { d.OnWorkerEnd(Side::kDecode, key, status); }));
  }

  void Lose(const WorkerId& worker) {
    BATON_CHECK(loop_.Post([worker](Dispatcher& d) { d.OnWorkerLost(worker, absl::UnavailableError("it died")); }));
  }

  RouterLoop& loop_;
  const WorkerScript script_;
  std::atomic<int> cancelled_{0};
  mutable absl::Mutex mutex_;
  std::vector<std::shared_ptr<const JobSpec>> started_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_SCRIPTED_WORKER_H_
