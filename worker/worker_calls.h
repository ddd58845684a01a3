// The calls of all routers at a worker: RouterCalls for each, over the worker's one set of phases. A router hears of
// its own jobs alone, and its report of blocks says of the others only how many blocks they hold.
#ifndef BATON_WORKER_WORKER_CALLS_H_
#define BATON_WORKER_WORKER_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/block_report.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/work_note.h"
#include "worker/phase.h"
#include "worker/router_calls.h"
#include "worker/shared_phase.h"

namespace baton::worker {

// Used by one thread, the engine's loop, once the loop runs.
class WorkerCalls {
 public:
  // As RouterCalls, for `routers` of them, at least 1.
  WorkerCalls(size_t routers, const Clock& clock, WorkNote& work);

  // Before the loop. The result is what the phase's core answers through. The phase outlives the calls.
  UpdateSink& Add(Phase& phase);
  size_t routers() const { return routers_.size(); }
  RouterCalls& Of(size_t router) { return *routers_[router]; }

  // Once a round of the loop: sends what was said, with a report of blocks to each router to which one is due. `blocks`
  // is asked at most once. `holds_nothing`: as RouterCalls.
  void Flush(bool holds_nothing, absl::FunctionRef<BlockReport()> blocks);
  // As RouterCalls::CutAll, at every router.
  std::vector<ChoiceKey> CutAll(int64_t drain_timeout_ms);

  size_t open_calls() const;
  int64_t frozen_calls() const;

 private:
  // Whether so many attempts have ended since the last report that it is time to forget those without blocks. Routers
  // of former versions ask for no reports.
  bool RemembersMany() const;
  void SayBlocks(const BlockReport& report, const std::vector<size_t>& due);
  // The member whose job it is or was; nullopt: none.
  std::optional<size_t> MemberOf(const JobKey& key) const;

  std::vector<std::unique_ptr<RouterCalls>> routers_;
  std::vector<std::unique_ptr<SharedPhase>> phases_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_WORKER_CALLS_H_
