// What the router knows of failures that do not end a membership, for placement.h: of workers in worker_health.h, of
// pairs in pair_health.h. The dispatcher tells it of attempts; it also words what people are told.
#ifndef BATON_ROUTER_CLUSTER_HEALTH_H_
#define BATON_ROUTER_CLUSTER_HEALTH_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/random.h"
#include "router/membership_counts.h"
#include "router/pair_health.h"
#include "router/placement.h"
#include "router/worker_health.h"
#include "router/worker_registry.h"

namespace baton::router {

// A sequence's outputs are timed this many at a time, and as many as there were once the time is over: a worker that is
// slow shows it in seconds, however slow it is.
inline constexpr int32_t kTimedOutputs = 8;
inline constexpr int64_t kTimedOutputsMs = 1'000;
// Notes that nobody has taken.
inline constexpr size_t kMaxHealthNotes = 64;

// What people are told of one worker.
struct WorkerCondition {
  bool slow = false;
  bool hand_offs_fail = false;
  // Addresses of the workers with which its hand-offs fail.
  std::vector<std::string> bad_partners;

  // "slow", "hand-offs fail" or empty.
  const char* word() const { return slow ? "slow" : hand_offs_fail ? "hand-offs fail" : ""; }
};

// Used by one thread.
class ClusterHealth {
 public:
  // All three outlive the object. A worker is in the registry when it joins here.
  // `canary_trial_ms`: by how much canaries go before jobs to pairs on trial.
  ClusterHealth(const Clock& clock, RandomSource& random, const WorkerRegistry& registry, int64_t canary_trial_ms = 0);

  void OnWorkerJoined(const WorkerId& worker) { workers_.OnWorkerJoined(worker); }
  void OnWorkerLost(const WorkerId& worker);
  void OnPlaced(const Pair& pair);
  // As PairHealth: of an attempt that was placed at `placed`.
  void OnHandOffFailed(const Pair& pair, TimeNs placed, const std::string& why);
  void OnHandedOver(const Pair& pair, TimeNs placed);
  // A canary's outputs differ from those that its fingerprint gave before. As OnHandOffFailed.
  void OnWrongAnswer(const Pair& pair, TimeNs placed, const std::string& outputs);
  void OnSample(const WorkerId& worker, const WorkSample& sample);

  Shunned Now(const std::map<WorkerId, WorkerAssignment>& assigned) const;
  std::vector<Pair> PairsOnTrial() const { return pairs_.OnTrial(); }
  bool IsBad(const Pair& pair) const { return pairs_.IsBad(pair); }
  bool IsEjected(const WorkerId& worker) const { return workers_.IsEjected(worker); }
  WorkerCondition ConditionOf(const WorkerId& worker) const;
  size_t bad_pairs() const { return pairs_.size(); }
  // By role, since the start.
  const std::array<int64_t, std::size(kWorkerRoles)>& ejections() const { return ejections_; }
  // What is to be logged, once for each change.
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }

 private:
  std::string NameOf(const WorkerId& worker) const;
  void Note(std::string note);

  const WorkerRegistry& registry_;
  WorkerHealth workers_;
  PairHealth pairs_;
  std::array<int64_t, std::size(kWorkerRoles)> ejections_ = {};
  std::vector<std::string> notes_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CLUSTER_HEALTH_H_
