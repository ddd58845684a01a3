// Workers that were lost without having said that they drain. Their processes, or successors of these, are expected
// back for some time, so jobs wait for them.
//
//   a lost worker | event                                                       | next
//   --------------+-------------------------------------------------------------+----------
//   -             | lost while it served                                        | expected
//   expected      | a worker of its role and fingerprint joins                  | forgotten
//   expected      | not back in time                                            | forgotten
#ifndef BATON_ROUTER_RETURNING_WORKERS_H_
#define BATON_ROUTER_RETURNING_WORKERS_H_

#include <array>
#include <cstdint>
#include <deque>

#include "common/clock.h"
#include "router/placement.h"
#include "router/worker_registry.h"

namespace baton::router {

// Used by one thread.
class ReturningWorkers {
 public:
  explicit ReturningWorkers(int64_t return_ms) : return_ms_(return_ms) {}

  void OnLost(const WorkerInfo& info, TimeNs now);
  // Forgets the worker that this one replaces, the first lost of its kind.
  void OnJoined(const WorkerInfo& info);
  // Forgets the workers that are not back in time.
  void Expire(TimeNs now);
  // When the next worker is forgotten.
  TimeNs NextExpiry() const { return lost_.empty() ? kNever : lost_.front().until; }
  bool empty() const { return lost_.empty(); }

  // Until when the serving workers of `registry`, with those that are expected back, make up what attempts of each kind
  // need; 0 where they do not.
  std::array<TimeNs, kAttemptKinds> ExpectedUntil(const WorkerRegistry& registry) const;
  // The serving workers of `registry` and all that are expected back, all of them idle.
  WorkerRegistry Everybody(const WorkerRegistry& registry) const;

 private:
  struct Lost {
    WorkerInfo info;
    TimeNs until = 0;
  };

  const int64_t return_ms_;
  // At most kMaxWorkers, in the order of their loss and so of `until`.
  std::deque<Lost> lost_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_RETURNING_WORKERS_H_
