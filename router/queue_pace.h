// How quickly the line of waiting jobs is worked off, measured only while jobs wait: what an idle cluster takes at once
// says nothing about a wait.
//
//   event                                     | measured
//   ------------------------------------------+-----------------------------------------------------------------------
//   a job begins to wait where none did       | the clock starts
//   a job that has waited is placed: a new    | its cost, and the time since the job before it or the clock's start
//   one, or one that comes back with outputs  |
//   a job that has hardly waited is placed,   | nothing: a worker that refused a job gave it no room
//   or comes back without outputs             |
//   a job waits no more, for whatever reason  | (the last one stops the clock)
//
// There are two paces, of many placements and of the last few, and the slower one counts: a cluster that has become
// slower is known at once, and one that has become faster once it has stayed so. Either remembers at least as many
// placements as there are calls at work. Jobs that began together end together, and their places are taken together
// after a long time without any: fewer placements would hold that time against a part of those that it led to.
//
// A job that failed over waits, is counted by the line and takes room like a new one. If its placement did not count,
// the line would look as if it stood still while workers die one after the other, and it would be worked off all the
// time.
//
// While nothing is placed, the time since the last placement counts as well: a cluster that stands still becomes slower
// from moment to moment.
#ifndef BATON_ROUTER_QUEUE_PACE_H_
#define BATON_ROUTER_QUEUE_PACE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/clock.h"

namespace baton::router {

// A job that is placed sooner than this has not waited for others.
inline constexpr int64_t kShortestWaitNs = kNsPerMs;
// The pace is unknown before so many placements. Whoever comes until then is taken, so they are few.
inline constexpr int kLeastPlacements = 4;
// The two paces remember roughly so many, or as many as there are calls.
inline constexpr int kPlacementsRemembered = 64;
inline constexpr int kLastPlacements = 16;

// A job that is placed, its cost in the unit of tenant_shares.h, and how long it has waited.
struct PlacedJob {
  int64_t cost = 0;
  // Whether the cost counts the usual number of outputs, and not the most that the job may have.
  bool has_usual_outputs = false;
  // Open calls to workers, before its own.
  size_t calls = 0;
  TimeNs waits_since = 0;
  TimeNs now = 0;
};

// Used by one thread.
class QueuePace {
 public:
  void OnWaiting(TimeNs now) {
    if (waiting_++ == 0) since_ = now;
  }
  void OnPlaced(const PlacedJob& placed);
  void OnWaitingEnded() { --waiting_; }
  // Jobs with the usual outputs count so much more from now on, or less, and so do those that were placed.
  void OnUsualCostChanged(double more);

  bool known() const { return placements_ >= kLeastPlacements; }
  // How long the line takes to place jobs of this cost together, or so many jobs. 0 while the pace is unknown.
  int64_t NsForCost(TimeNs now, int64_t cost) const { return Share(now, static_cast<double>(cost), &Sums::cost); }
  int64_t NsForJobs(TimeNs now, int64_t jobs) const { return Share(now, static_cast<double>(jobs), &Sums::jobs); }

 private:
  // Older placements count less and less. The pace is the ratio of two sums.
  struct Sums {
    int remembered = 0;
    double elapsed_ns = 0;
    double cost = 0;
    double jobs = 0;
    double jobs_with_usual_outputs = 0;
  };
  int64_t Share(TimeNs now, double part, double Sums::*whole) const;

  // The most open calls of late, smoothed: where many jobs end together, there are few at once.
  double calls_ = 0;
  int64_t waiting_ = 0;
  int64_t placements_ = 0;
  // The last measured placement, or the clock's start.
  TimeNs since_ = 0;
  std::array<Sums, 2> sums_ = {Sums{.remembered = kPlacementsRemembered}, Sums{.remembered = kLastPlacements}};
};

}  // namespace baton::router

#endif  // BATON_ROUTER_QUEUE_PACE_H_
