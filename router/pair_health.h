// Which pairs of workers hand-offs fail between. A hand-off that failed says nothing of its workers, which may well
// reach others: it is the pair that gets no job for a while.
//
//   a pair   | event                                   | next     | effect
//   ---------+-----------------------------------------+----------+----------------------------------------------------
//   good     | a hand-off failed                       | avoided  | for about kMinAvoidMs
//   avoided  | its time is over                        | on trial | the next job may take it
//   avoided  | a job takes it, for lack of another     | avoided  | -
//   on trial | a job takes it                          | avoided  | for as long as the last time; when the job ends
//            |                                         |          | without a result, the next trial comes after that
//   not good | a hand-off of a later attempt failed    | avoided  | for about twice as long, at most kMaxAvoidMs
//   not good | a hand-off of a later attempt went well | good     | -
//   any      | a worker of it is lost                  | gone     | -
//
// A later attempt is one that was placed after the pair's last failure: the others tell nothing new, and many may fail
// at once. Each time is drawn between 3/4 and 5/4 of its length, so that the trials of many pairs do not meet.
//
// Where the router sends canaries (canaries.h), these try a pair on trial, and jobs take it only kCanaryTrialMs later:
// by then no canary could begin.
//
// A worker is at fault when it has two or more partners and is good with none of them, and each of these is good with
// some other worker. A trial of one of its pairs is then one of all: it does not try its partners one after another, at
// the expense of one request each. Without other partners nobody can say whose fault it is.
#ifndef BATON_ROUTER_PAIR_HEALTH_H_
#define BATON_ROUTER_PAIR_HEALTH_H_

#include <cstdint>
#include <map>
#include <vector>

#include "common/clock.h"
#include "common/random.h"
#include "router/placement.h"
#include "router/worker_registry.h"

namespace baton::router {

inline constexpr int64_t kMinAvoidMs = 1'000;
inline constexpr int64_t kMaxAvoidMs = 60'000;
// Where canaries are tried first, jobs may take a pair on trial only this much later.
inline constexpr int64_t kCanaryTrialMs = 15'000;

// Used by one thread. Holds pairs of members alone, and only those whose last hand-off failed.
class PairHealth {
 public:
  // All three outlive the object.
  PairHealth(const Clock& clock, RandomSource& random, const WorkerRegistry& registry, int64_t canary_trial_ms = 0)
      : clock_(clock), random_(random), registry_(registry), canary_trial_ms_(canary_trial_ms) {}

  // The hand-off of an attempt that was placed at `placed` failed, or went well. True when the pair's state has changed
  // between good and not good.
  bool OnFailed(const Pair& pair, TimeNs placed);
  bool OnHandedOver(const Pair& pair, TimeNs placed);
  // An attempt goes to this pair.
  void OnPlaced(const Pair& pair);
  void OnWorkerLost(const WorkerId& worker);

  // The pairs whose time is over, in order.
  std::vector<Pair> OnTrial() const;
  bool IsBad(const Pair& pair) const { return failures_.contains(pair); }
  // The pairs that get no job now, in order.
  std::vector<Pair> Avoided() const;
  // The partners with which the worker is not good, in order.
  std::vector<WorkerId> BadPartners(const WorkerId& worker) const;
  bool AtFault(const WorkerId& worker) const;
  size_t size() const { return failures_.size(); }

 private:
  struct Failure {
    // The last one.
    TimeNs failed = 0;
    int64_t avoid_ms = kMinAvoidMs;
    TimeNs avoided_until = 0;
  };

  std::vector<WorkerId> PartnersOf(const WorkerId& worker) const;
  bool IsBad(const WorkerId& one, const WorkerId& other) const;
  void Avoid(Failure& failure);

  const Clock& clock_;
  RandomSource& random_;
  const WorkerRegistry& registry_;
  const int64_t canary_trial_ms_;
  std::map<Pair, Failure> failures_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_PAIR_HEALTH_H_
