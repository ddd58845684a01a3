// What all parts of one simulated run share: virtual time, the seed's randomness, the first error, and counts of what
// the run has covered.
#ifndef BATON_SIMULATOR_SIMULATION_H_
#define BATON_SIMULATOR_SIMULATION_H_

#include <cstdint>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/ids.h"
#include "common/random.h"
#include "common/testing/virtual_time.h"
#include "engine/testing/fake_model.h"

namespace baton::simulator {

using Task = VirtualTime::Task;

// Mistakes that a run can be told to make, to prove that the checks see them. The cores are never changed: the
// simulated process around them misuses them.
enum class PlantedBug : uint8_t {
  kNone,
  // P gives a prompt's blocks up as soon as it is computed, whatever its reader's lease says.
  kLeaseIgnored,
  // D frees the blocks of a cancelled fetch at once, and again when its reads have ended: by then the blocks belong to
  // another job.
  kFreedTwice,
  // After a preemption D goes on one position too late.
  kResumedTooLate,
};

// How often a run met each situation that it is meant to meet.
struct Counts {
  int64_t ok = 0;
  int64_t cancelled = 0;
  int64_t deadline = 0;
  int64_t failed = 0;
  int64_t tokens = 0;
  int64_t retries = 0;
  int64_t preemptions = 0;
  int64_t prefix_hits = 0;
  int64_t reads = 0;
  int64_t local = 0;
  int64_t cut_streams = 0;
  int64_t events = 0;

  void Add(const Counts& other) {
    ok += other.ok;
    cancelled += other.cancelled;
    deadline += other.deadline;
    failed += other.failed;
    tokens += other.tokens;
    retries += other.retries;
    preemptions += other.preemptions;
    prefix_hits += other.prefix_hits;
    reads += other.reads;
    local += other.local;
    cut_streams += other.cut_streams;
    events += other.events;
  }
};

// Durations drawn for one run, in nanoseconds.
struct Pace {
  int64_t max_network_ns = 2 * kNsPerMs;
  // One message in twenty is late, by this much at most.
  int64_t max_late_ns = 30 * kNsPerMs;
  int64_t max_step_ns = 4 * kNsPerMs;
};

// What an attempt acquires, in this order. All attempts keep to it, and a preempted sequence waits without holding
// anything: so no cycle of waits can close.
enum class Hold : uint8_t { kNothing, kDecodeBlocks, kPrefillBlocks, kPullSlot };

class Simulation {
 public:
  Simulation(uint64_t seed, PlantedBug planted, bool traces) : random(seed), bug(planted), traces_(traces) {}
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  bool Chance(int percent) { return random.Below(100) < static_cast<uint64_t>(percent); }
  // Both ends included.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random.Below(static_cast<uint64_t>(high - low + 1)));
  }
  int64_t MsBetween(int64_t low, int64_t high) { return Between(low * kNsPerMs, high * kNsPerMs); }
  int64_t NetworkDelay() { return Between(20'000, Chance(5) ? pace.max_late_ns : pace.max_network_ns); }

  // The first failure counts.
  void Fail(const std::string& what) {
    Trace("FAILED: ", what);
    if (error_.empty()) error_ = absl::StrCat("at ", Millis(), " ms: ", what);
  }
  const std::string& error() const { return error_; }

  void Acquire(const JobKey& key, Hold hold) {
    Hold& held = holds_[key];
    const int step = static_cast<int>(hold) - static_cast<int>(held);
    // A prompt may need several reads.
    if (step != 1 && !(step == 0 && hold == Hold::kPullSlot)) {
      Fail(absl::StrCat("job ", key.ToString(), " acquires ", static_cast<int>(hold), " after ", static_cast<int>(held),
                        ": out of order"));
    }
    held = hold;
  }

  template <typename... Args>
  void Trace(const Args&... args) const {
    if (traces_) std::cout << Millis() << " ms  " << absl::StrCat(args...) << "\n";
  }

  VirtualTime queue;
  SeededRandom random;
  const PlantedBug bug;
  Pace pace;
  engine::FakeModelOptions model;
  Counts counts;
  // The worker that has crashed; zero before.
  Incarnation crashed;
  // Jobs whose Fetch stream the network has cut.
  std::set<JobId> cut_jobs;

 private:
  double Millis() const { return NsToMs(queue.Now() - VirtualTime::kStart); }

  const bool traces_;
  std::string error_;
  // By job and attempt; only attempts whose prompt is computed at another worker.
  std::map<JobKey, Hold> holds_;
};

// One direction of a stream: each message has a delay of its own, and they arrive in order.
class Lane {
 public:
  void Send(Simulation& sim, Task deliver) { SendLater(sim, sim.NetworkDelay(), std::move(deliver)); }
  void SendLater(Simulation& sim, int64_t delay_ns, Task deliver) {
    last_ = std::max(last_, sim.queue.Now() + delay_ns);
    sim.queue.At(last_, std::move(deliver));
  }

 private:
  TimeNs last_ = 0;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_SIMULATION_H_
