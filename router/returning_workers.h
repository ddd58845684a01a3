// Workers that were lost without having said that they drain. Their processes, or successors of these, are expected
// back for some time, so jobs wait for them. Workers that a directory of the fleet announces are expected likewise,
// until they join this router for the first time.
//
//   a lost worker | event                                                       | next
//   --------------+-------------------------------------------------------------+----------
//   -             | lost while it served                                        | expected
//   -             | announced for the first time, and no member                 | expected
//   expected      | its process joins, or else a worker of its role and         | forgotten
//                 | fingerprint, unless it is only announced                    |
//   expected      | only announced, and not any more                            | forgotten
//   expected      | not back in time                                            | forgotten
#ifndef BATON_ROUTER_RETURNING_WORKERS_H_
#define BATON_ROUTER_RETURNING_WORKERS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/clock.h"
#include "common/ids.h"
#include "router/placement.h"
#include "router/worker_registry.h"

namespace baton::router {

// Used by one thread.
class ReturningWorkers {
 public:
  explicit ReturningWorkers(int64_t return_ms) : return_ms_(return_ms) {}

  void OnLost(const WorkerInfo& info, TimeNs now);
  // Forgets the worker that this one replaces: itself, or else the first lost of its kind.
  void OnJoined(const WorkerInfo& info);
  // All workers that are announced now. Those that could not join `registry`, as its members, are left out.
  void OnAnnounced(const std::vector<WorkerInfo>& announced, const WorkerRegistry& registry, TimeNs now);
  // Forgets the workers that are not back in time.
  void Expire(TimeNs now);
  // When the next worker is forgotten.
  TimeNs NextExpiry() const { return lost_.empty() ? kNever : lost_.front().until; }
  bool empty() const { return lost_.empty(); }

  // Until when the serving workers of `registry`, with those that are expected back, make up what jobs of each class
  // need; 0 where they do not.
  std::array<TimeNs, JobNeeds::kClasses> ExpectedUntil(const WorkerRegistry& registry) const;
  // The serving workers of `registry` and all that are expected back, all of them idle.
  WorkerRegistry Everybody(const WorkerRegistry& registry) const;

 private:
  struct Lost {
    WorkerInfo info;
    TimeNs until = 0;
    // It was never a member.
    bool only_announced = false;
  };

  const int64_t return_ms_;
  // At most kMaxWorkers, in the order of their loss and so of `until`.
  std::deque<Lost> lost_;
  // The processes that were announced last.
  absl::flat_hash_set<Incarnation> announced_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_RETURNING_WORKERS_H_
