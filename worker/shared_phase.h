// A phase of a worker as several routers call it. The phase knows jobs. Whose each job is, is known here
// (attempt_owners.h): a router hears of its own jobs alone, and the blocks of a job have an owner until they are given
// back.
//
//   an attempt | event                                     | next    | actions
//   -----------+-------------------------------------------+---------+---------------------------------------------------
//   unknown    | a router starts it                        | open    | Phase::Start
//   open       | a router starts it                        | open    | refused: ALREADY_EXISTS
//   open       | the phase refuses it                      | ended   | the refusal goes to the router that started it
//   open       | an update of the phase                    | open    | to the router that started it
//   open       | the phase ends it                         | ended   | to the router that started it
//   ended      | the same router starts it                 | open    | Phase::Start
//   ended      | another router starts it                  | ended   | refused: ALREADY_EXISTS
//   ended      | KeepOnly, which names it                  | ended   | -
//   ended      | KeepOnly, which does not                  | unknown | -
#ifndef BATON_WORKER_SHARED_PHASE_H_
#define BATON_WORKER_SHARED_PHASE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/ids.h"
#include "common/worker_job.h"
#include "worker/attempt_owners.h"
#include "worker/phase.h"
#include "worker/router_calls.h"

namespace baton::worker {

// Used by one thread, the engine's loop, once the loop runs.
class SharedPhase final : public UpdateSink {
 public:
  // `phase` outlives it, and answers through it.
  explicit SharedPhase(Phase& phase);
  ~SharedPhase() override;

  // Before the loop: the router whose calls these are reaches the phase. Routers are numbered from 0 in the order in
  // which they are added.
  void AddRouter(RouterCalls& calls);

  // Whose job it is or was; nullopt when it is not known any more.
  std::optional<size_t> RouterOf(const JobKey& key) const { return owners_.RouterOf(key); }
  // These attempts hold blocks. All others that have ended are forgotten.
  void KeepOnly(const absl::flat_hash_set<JobKey>& holders) { owners_.KeepOnly(holders); }
  // How many attempts are open, or have ended and are not forgotten.
  size_t known_attempts() const { return owners_.size(); }

  void Update(const JobKey& key, const WorkerUpdate& update) override;
  void End(const JobKey& key, const absl::Status& status) override;

 private:
  // The phase as one router sees it.
  class View;

  absl::Status Start(size_t router, WorkerJob job, const internal::v1::CallStart& start);

  Phase& phase_;
  std::vector<std::unique_ptr<View>> views_;
  AttemptOwners owners_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SHARED_PHASE_H_
