// What those who submit jobs see of the loop that runs them. router_loop.h is the implementation.
#ifndef BATON_ROUTER_JOB_LOOP_H_
#define BATON_ROUTER_JOB_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "router/dispatcher.h"

namespace baton::router {

// The client's side of one choice of a job. Called on the loop; must not block.
class JobListener {
 public:
  virtual ~JobListener() = default;
  // Before the first token of a job that asks for it: of the prompt's tokens from the second on.
  virtual void OnPrompt(std::shared_ptr<const std::vector<PromptLogprob>> /*logprobs*/) {}
  virtual void OnToken(const OutputToken& token) = 0;
  // The last call.
  virtual void OnEnd(const JobResult& result) = 0;
  // The client does not read what it has been given: the job is paused until it does.
  virtual bool is_behind() const { return false; }
};

class JobLoop {
 public:
  // Runs on the loop's thread, the only one that touches the dispatcher.
  using Task = std::function<void(Dispatcher&)>;

  virtual ~JobLoop() = default;
  // Before the loop starts. `task` runs on the loop when it starts and every `interval_ms` from then on, or a little
  // later; it must not block.
  virtual void Every(int64_t interval_ms, Task task) = 0;
  // From any thread. Blocks while the loop is overloaded. Drops the task once the loop has stopped. A handler of the
  // loop's events, which must not wait for its own loop, runs the task at once; a task must not call this.
  virtual void PostWhenRoom(Task task) = 0;
  // Called within a task. Submits the job and keeps its listener until OnEnd; the listener of a refused job is never
  // called.
  virtual absl::Status Submit(std::shared_ptr<const JobSpec> job, std::shared_ptr<JobListener> listener) = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_JOB_LOOP_H_
