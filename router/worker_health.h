// Which workers get less than their share: those that are alive and much slower than their peers (gray failures), and
// those that have just begun.
//
//   a worker | event                                        | next     | effect
//   ---------+----------------------------------------------+----------+-----------------------------------------------
//   -        | it joins                                     | ramping  | beside peers in full service at most a share
//            |                                              |          | of its sequences, which grows from one to all
//   ramping  | kRampUpMs have passed                        | full     | -
//   full     | kSlowSamples slow samples in a row, each of  | ejected  | one job at a time, at most one each
//            | a time of its own, and the cap is not full   |          | kTrialIntervalMs; the jobs that it has stay
//   full     | likewise, and the cap is full                | full     | -
//   ejected  | kFastSamples fast samples in a row           | ramping  | -
//   ejected  | kMaxEjectedMs without a sample that is not   | ramping  | nobody knows any more
//            | fast                                         |          |
//   any      | it is lost                                   | gone     | -
//
// A sample is the time for a unit of equal work: a token of a prompt, or an output of a sequence. It is compared with
// the median of its peers, which are some workers of its role and fingerprint that are not ejected and had samples
// within kFreshMs, in its size class: prompts of about as many tokens, batches of about as many sequences. Where they
// have none there, the next class counts in which a unit costs more. Slow is longer than kGrayFactor times the median,
// or than kGrayFactorOfTwo times the only peer, which might itself be the odd one: a worker that slow adds less to the
// cluster than its share of requests takes. Fast is shorter than kFastFactor times the median, or kFastFactorAcross
// times that of another class: a trial runs alone, while its peers run batches.
//
// Samples of one time show one event: those that began before the last slow one ended do not count, so one pause of a
// worker, or of the router, is one slow sample however many jobs met it.
//
// The cap: a third of the workers of a role and fingerprint, and one of two. The last one is never ejected.
#ifndef BATON_ROUTER_WORKER_HEALTH_H_
#define BATON_ROUTER_WORKER_HEALTH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "router/placement.h"
#include "router/worker_registry.h"

namespace baton::router {

inline constexpr int64_t kRampUpMs = 2'000;
inline constexpr double kGrayFactor = 4;
inline constexpr double kGrayFactorOfTwo = 8;
inline constexpr double kFastFactor = 2;
inline constexpr double kFastFactorAcross = 1.25;
inline constexpr int32_t kSlowSamples = 4;
inline constexpr int32_t kFastSamples = 2;
// A class of a worker counts for its peers from so many samples on.
inline constexpr int32_t kMinPeerSamples = 4;
inline constexpr int64_t kFreshMs = 10'000;
// Samples of a worker and class that come faster are not looked at.
inline constexpr int64_t kSampleIntervalMs = 50;
inline constexpr int64_t kTrialIntervalMs = 1'000;
inline constexpr int64_t kMaxEjectedMs = 60'000;

// What a worker did for one job.
struct WorkSample {
  enum class Phase : uint8_t { kPrefill, kDecode };
  Phase phase = Phase::kPrefill;
  // It ends now.
  int64_t duration_ns = 0;
  // Computed tokens of the prompt, or outputs.
  int64_t units = 0;
  // kDecode: sequences at the worker.
  int64_t batch_sequences = 0;
};

enum class HealthChange : uint8_t { kNone, kEjected, kReturned };

// Used by one thread. Holds members alone.
class WorkerHealth {
 public:
  // Both outlive the object.
  WorkerHealth(const Clock& clock, const WorkerRegistry& registry) : clock_(clock), registry_(registry) {}

  void OnWorkerJoined(const WorkerId& worker);
  void OnWorkerLost(const WorkerId& worker) { workers_.erase(worker); }
  HealthChange OnSample(const WorkerId& worker, const WorkSample& sample);
  // An attempt goes to this worker.
  void OnPlaced(const WorkerId& worker);

  bool IsEjected(const WorkerId& worker) const;
  // The ejected workers that get nothing now, and the ramping ones that have their share. In order.
  std::vector<WorkerId> Ejected(const std::map<WorkerId, WorkerAssignment>& assigned) const;
  std::vector<WorkerId> Ramping(const std::map<WorkerId, WorkerAssignment>& assigned) const;

 private:
  static constexpr size_t kPhases = 2;
  static constexpr size_t kSizeClasses = 24;
  static constexpr size_t kMaxPeers = 16;
  static constexpr size_t kMaxVisits = 64;
  // The moving average of a size class.
  struct Rate {
    double unit_ns = 0;
    int32_t samples = 0;
    TimeNs last = 0;
  };
  struct State {
    TimeNs joined = 0;
    std::array<std::array<Rate, kSizeClasses>, kPhases> rates = {};
    // In a row. `slow_until` is the end of the last one that counted.
    int32_t slow_samples = 0;
    TimeNs slow_until = 0;
    int32_t fast_samples = 0;
    // In the past after its return; 0: it never was.
    TimeNs ejected_until = 0;
    TimeNs next_trial = 0;
  };
  struct Reference {
    double unit_ns = 0;
    size_t peers = 0;
    bool same_class = false;
  };

  // A unit of a higher class costs more.
  static size_t SizeClass(const WorkSample& sample);
  bool IsPeer(const Worker& worker, const Worker& other) const;
  // Peers that are not ejected. They are the next ones by id, and ids are random: in a large cluster a sample must not
  // look at all.
  std::vector<const State*> PeersOf(const Worker& worker) const;
  std::optional<Reference> ReferenceFor(const Worker& worker, WorkSample::Phase phase, size_t size_class) const;
  HealthChange JudgeFull(const Worker& worker, State& state, bool is_slow, TimeNs began);
  HealthChange JudgeEjected(State& state, bool is_fast);
  void Eject(State& state);
  bool MayEject(const Worker& worker) const;
  bool Ramps(const State& state) const;
  bool HasFullPeer(const Worker& worker) const;

  const Clock& clock_;
  const WorkerRegistry& registry_;
  std::map<WorkerId, State> workers_;
  // Not before the last ramp-up and the last ejection end: the common case costs two comparisons.
  TimeNs last_ramp_end_ = 0;
  TimeNs last_ejection_end_ = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_WORKER_HEALTH_H_
