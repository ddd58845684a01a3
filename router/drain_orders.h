// The drains that operators have ordered (`baton drain`), and how they ended. They are of processes and not of
// memberships: a worker that has begun to drain never joins again.
//
//   a process  | event                                                      | next
//   -----------+------------------------------------------------------------+----------
//   -          | Begin                                                      | draining
//   draining   | it is gone, has said that it drains, and has no call open  | left
//   draining   | it is gone otherwise                                       | lost
//   left, lost | Begin: the order had not reached it, and it joined anew    | draining
//   left, lost | kMaxEnded later drains have ended                          | -
#ifndef BATON_ROUTER_DRAIN_ORDERS_H_
#define BATON_ROUTER_DRAIN_ORDERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "common/ids.h"

namespace baton::router {

enum class DrainState : uint8_t { kDraining, kLeft, kLost };

struct DrainRecord {
  DrainState state = DrainState::kDraining;
  // Why the worker was lost, for people.
  std::string why;
};

// Used by one thread. Only members drain, so it holds at most kMaxWorkers records besides those of kMaxEnded.
class DrainOrders {
 public:
  static constexpr size_t kMaxEnded = 64;

  // False when the process drains already.
  bool Begin(const Incarnation& worker);
  // The process is no member any more. Ignores those that were not ordered to drain.
  void OnGone(const Incarnation& worker, bool left, const std::string& why);
  // Null for a process that was not ordered to drain, or long ago. Valid until the next change.
  const DrainRecord* Find(const Incarnation& worker) const;

 private:
  std::map<Incarnation, DrainRecord> records_;
  // Oldest first.
  std::deque<Incarnation> ended_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DRAIN_ORDERS_H_
