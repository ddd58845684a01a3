// What all parts of one simulated run share: virtual time, the seed's randomness, the first error, what befell whom,
// and counts of what the run has covered.
#ifndef BATON_SIMULATOR_SIMULATION_H_
#define BATON_SIMULATOR_SIMULATION_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/random.h"
#include "common/testing/virtual_time.h"
#include "engine/testing/fake_model.h"

namespace baton::simulator {

using Task = VirtualTime::Task;

// How often a run met each situation that it is meant to meet.
struct Counts {
  int64_t ok = 0;
  int64_t cancelled = 0;
  int64_t deadline = 0;
  int64_t failed = 0;
  int64_t tokens = 0;
  int64_t retries = 0;
  int64_t preemptions = 0;
  int64_t steps_ahead = 0;
  int64_t prefix_hits = 0;
  int64_t grammar_waits = 0;
  int64_t unread = 0;
  int64_t prompts = 0;
  int64_t reads = 0;
  int64_t early = 0;
  int64_t local = 0;
  int64_t cut_streams = 0;
  int64_t crashes = 0;
  int64_t router_crashes = 0;
  int64_t pauses = 0;
  int64_t router_pauses = 0;
  int64_t silences = 0;
  int64_t partitions = 0;
  int64_t drains = 0;
  int64_t moves = 0;
  int64_t moved = 0;
  int64_t stalls = 0;
  int64_t given_up = 0;
  int64_t rejoins = 0;
  int64_t block_reports = 0;
  int64_t several_routers = 0;
  int64_t others_blocks = 0;
  int64_t ordered_drains = 0;
  int64_t kept = 0;
  int64_t recovered = 0;
  int64_t resumed = 0;
  int64_t joined = 0;
  int64_t full_disks = 0;
  int64_t unwritten = 0;
  int64_t unfollowed = 0;
  int64_t forgotten = 0;
  int64_t events = 0;

  void Add(const Counts& other);
  std::string ToString() const;
};

struct NamedCount {
  int64_t Counts::*value;
  const char* name;
};
absl::Span<const NamedCount> NamedCounts();

// Durations drawn for one run, in nanoseconds.
struct Pace {
  int64_t max_network_ns = 2 * kNsPerMs;
  // One message in twenty is late, by this much at most.
  int64_t max_late_ns = 30 * kNsPerMs;
  int64_t max_step_ns = 4 * kNsPerMs;
};

// What an attempt acquires, in this order. All attempts keep to it, and a preempted sequence waits without holding
// anything: so no cycle of waits can close. An attempt that goes on with the KV of a running one finds that complete,
// so that it waits for nobody's blocks.
enum class Hold : uint8_t { kNothing, kDecodeBlocks, kPrefillBlocks, kPullSlot };

// When a worker could not do its part. Its jobs may fail that lived at such a time.
struct Trouble {
  TimeNs begin = 0;
  // kNever while it lasts.
  TimeNs end = kNever;
};

// Between two workers nothing goes from one to the other, or neither way. Each is named by its target.
struct PairCut {
  std::string source;
  std::string reader;
  bool to_source = false;
  bool to_reader = false;
  TimeNs until = 0;
};

// What is wrong with the network for a while.
struct Weather {
  // All messages may take as long as this.
  TimeNs slow_until = 0;
  int64_t slow_max_ns = 0;
  // What may come twice does so now and then.
  TimeNs twice_until = 0;
  // What is read of a peer's memory is damaged now and then.
  TimeNs damages_until = 0;
  std::vector<PairCut> cuts;
  // Fetch streams are cut now and then, in calm weather too.
  bool cuts_streams = true;
};

class Simulation {
 public:
  // In place of a worker's incarnation: those whose trouble is everybody's, and a router.
  static constexpr Incarnation kNetwork = {.high = 1, .low = 0};
  static Incarnation RouterName(int router) { return {.high = 0, .low = static_cast<uint64_t>(router)}; }
  // Likewise what stands between a worker and one router.
  static Incarnation LinkName(const Incarnation& worker, int router) {
    return {.high = worker.high, .low = worker.low + 1 + static_cast<uint64_t>(router)};
  }

  // And that a worker takes no jobs, which is no trouble for those that it has.
  static Incarnation AbsenceName(const Incarnation& worker) { return {.high = ~worker.high, .low = worker.low}; }

  Simulation(uint64_t seed, bool traces)
      : random(seed),
        router_random(seed ^ kRouterStream),
        ahead_random(seed ^ kAheadStream),
        grammar_random(seed ^ kGrammarStream),
        kept_random(seed ^ kKeptStream),
        traces_(traces) {}
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  bool Chance(int percent) { return random.Below(100) < static_cast<uint64_t>(percent); }
  // Both ends included.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random.Below(static_cast<uint64_t>(high - low + 1)));
  }
  int64_t MsBetween(int64_t low, int64_t high) { return Between(low * kNsPerMs, high * kNsPerMs); }
  int64_t NetworkDelay() {
    if (queue.Now() < weather.slow_until) return Between(20'000, weather.slow_max_ns);
    return Between(20'000, Chance(5) ? pace.max_late_ns : pace.max_network_ns);
  }
  // Whether something happens twice that may.
  bool Twice() { return queue.Now() < weather.twice_until && Chance(30); }
  // One of the routers, or a choice that only runs with several of them have.
  int DrawRouter() { return routers == 1 ? 0 : static_cast<int>(router_random.Below(static_cast<uint64_t>(routers))); }
  bool RouterChance(int percent) { return routers > 1 && router_random.Below(100) < static_cast<uint64_t>(percent); }
  // What only runs with kept requests have.
  bool KeptChance(int percent) { return kept_random.Below(100) < static_cast<uint64_t>(percent); }
  int64_t KeptBetween(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(kept_random.Below(static_cast<uint64_t>(high - low + 1)));
  }
  bool Damages() { return queue.Now() < weather.damages_until && Chance(2); }
  // How the pair is cut now; null: not at all.
  const PairCut* FindCut(const std::string& source, const std::string& reader) const;

  // The first failure counts.
  void Fail(const std::string& what) {
    Trace("FAILED: ", what);
    if (error_.empty()) error_ = absl::StrCat("at ", Millis(), " ms: ", what);
  }
  const std::string& error() const { return error_; }

  void Acquire(const JobKey& key, Hold hold);
  // The attempt goes on with KV that is complete.
  void FindsKv(const JobKey& key) { finds_kv_.insert(key); }
  bool Finds(const JobKey& key) const { return finds_kv_.contains(key); }

  // The worker is in trouble from now on, until the given time or the call of Recovered. RouterName stands for a
  // router.
  void Troubled(const Incarnation& worker, TimeNs end = kNever);
  void Recovered(const Incarnation& worker);
  // Whether the worker was in trouble at `since` or later.
  bool WasTroubled(const Incarnation& worker, TimeNs since) const;
  bool AnyoneWasTroubled(TimeNs since) const;
  // Since when the router has been paused or away; `time` if it has worked since then.
  TimeNs RouterAwaySince(int router, TimeNs time) const;

  template <typename... Args>
  void Trace(const Args&... args) const {
    if (traces_) std::cout << Millis() << " ms  " << absl::StrCat(args...) << "\n";
  }

  VirtualTime queue;
  SeededRandom random;
  // Draws what only runs with several routers have, so that a run with one is the same whatever is drawn here.
  SeededRandom router_random;
  // Draws whether engines take steps ahead, so that all else of a run is drawn as without.
  SeededRandom ahead_random;
  // Likewise how long grammars take.
  SeededRandom grammar_random;
  // Draws what only runs with requests have that outlive their calls; likewise.
  SeededRandom kept_random;
  int routers = 1;
  // Some requests outlive their calls, and routers have journals.
  bool has_kept = false;
  Pace pace;
  engine::FakeModelOptions model;
  Counts counts;
  Weather weather;
  // Jobs whose Fetch stream the network has cut, or whose blocks it has damaged.
  std::set<JobId> cut_jobs;
  // Processes whose clock has leapt; routers too.
  std::set<Incarnation> leapt;
  // Whoever computes for one of these dies of it.
  std::set<JobId> poison;
  // A worker is in a step with poison.
  std::function<void(const Incarnation&)> on_poisoned;

 private:
  static constexpr uint64_t kRouterStream = 0x5eed0f7e7e7a1501;
  static constexpr uint64_t kAheadStream = 0x5eed0f5de95ab0ad;
  static constexpr uint64_t kGrammarStream = 0x5eed0f96a33a6b0c;
  static constexpr uint64_t kKeptStream = 0x5eed0f6e97a11ce5;

  double Millis() const { return NsToMs(queue.Now() - VirtualTime::kStart); }

  const bool traces_;
  std::string error_;
  // By job and attempt; only attempts whose prompt is computed at another worker.
  std::map<JobKey, Hold> holds_;
  std::set<JobKey> finds_kv_;
  std::multimap<Incarnation, Trouble> troubles_;
};

// One direction of a stream: each message has a delay of its own, and they arrive in order.
class Lane {
 public:
  void Send(Simulation& sim, Task deliver) { SendLater(sim, sim.NetworkDelay(), std::move(deliver)); }
  void SendLater(Simulation& sim, int64_t delay_ns, Task deliver) {
    last_ = std::max(last_, sim.queue.Now() + delay_ns);
    sim.queue.At(last_, std::move(deliver));
  }
  // What is sent from now on arrives at this time or later.
  void HoldUntil(TimeNs time) { last_ = std::max(last_, time); }

 private:
  TimeNs last_ = 0;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_SIMULATION_H_
