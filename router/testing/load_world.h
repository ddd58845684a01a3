// Clients that send at a rate of their own, whatever the answers are, or each its next request once it has an answer, a
// real dispatcher, and one prefill worker and some decode workers of known speed, on virtual time. For tests of
// overload.
#ifndef BATON_ROUTER_TESTING_LOAD_WORLD_H_
#define BATON_ROUTER_TESTING_LOAD_WORLD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/testing/virtual_time.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {

// One tenant's requests, which come at random.
struct LoadOptions {
  std::string tenant;
  double requests_per_second = 0;
  // From the beginning.
  int64_t from_ms = 0;
  int64_t until_ms = 0;
  int prompt_tokens = 200;
  int max_tokens = 8;
  int32_t priority = 0;
  // Each request has so much time; 0: any.
  int64_t deadline_ms = 0;
  // A refused client comes back when it is asked to, once.
  bool comes_back = false;
  // All requests come at `from_ms`, so many of them.
  int at_once = 0;
  // Until `until_ms` each of these clients sends its next request when the last one has ended.
  bool closed_loop = false;
};

struct LoadResult {
  int sent = 0;
  int ok = 0;
  int refused = 0;
  // Accepted, and then ended otherwise.
  int failed = 0;
  // Refused clients that came back, and those of them that were refused again.
  int came_back = 0;
  int refused_again = 0;
  int64_t served_cost = 0;
  // TTFT of the jobs that ended well, in order of their ends.
  std::vector<double> ttft_ms;
  int64_t last_end_ms = 0;

  double WorstTtftMs(double share) const;
};

// What the workers are like.
struct LoadWorkers {
  int32_t max_sequences = 64;
  // Each second they are slower by a factor that is drawn from 1 to this one: others use the machine too.
  double worst_slowdown = 1;
  int decode_workers = 1;
};

class LoadWorld {
 public:
  static constexpr int64_t kPrefillNsPerToken = 100'000;
  static constexpr int64_t kStepNs = 20 * kNsPerMs;

  LoadWorld(uint64_t seed, const DispatcherOptions& options, const LoadWorkers& workers = {});
  void Add(const LoadOptions& load);
  // Until every job has ended.
  void Run();
  // What a request of this shape keeps the prefill worker busy for: the decode worker is never the bottleneck.
  static double CapacityPerSecond(int prompt_tokens) {
    return 1e9 / static_cast<double>(kPrefillNsPerToken * prompt_tokens);
  }

  const LoadResult& of(const std::string& tenant) { return results_[tenant]; }
  // Since the beginning.
  int64_t NowMs() const { return (clock_.Now() - VirtualTime::kStart) / kNsPerMs; }
  Dispatcher& dispatcher() { return dispatcher_; }
  // A decode worker dies, drawn from those that serve, and joins anew after a while.
  void KillOne(int64_t returns_after_ms);
  // Before Run, or from an event.
  void At(int64_t ms, std::function<void()> event) { clock_.At(VirtualTime::kStart + ms * kNsPerMs, std::move(event)); }

 private:
  struct Client {
    LoadOptions load;
    std::shared_ptr<const JobSpec> spec;
    bool is_back = false;
    TimeNs sent = 0;
    std::optional<TimeNs> first_token;
    int outputs = 0;
  };

  struct WorkerCall {
    WorkerId worker;
    std::shared_ptr<const JobSpec> job;
  };

  // A member, or the next membership of a worker that has died.
  void Join(WorkerRole role);
  // What takes so long at full speed, begun now.
  int64_t Slowed(int64_t ns);
  void SendNext(const LoadOptions& load);
  void Send(Client client);
  void Compute();
  void Decode(const JobKey& key, int32_t index);
  void Pump();
  void Handle(const StartPrefill& start);
  void Handle(const StartDecode& start);
  void Handle(const CancelAttempt& cancel);
  void Handle(const HandOverAttempt&) { FAIL() << "no worker drains"; }
  void Handle(const EndMembership&) { FAIL() << "a worker is given up"; }
  void Handle(const DrainWorker&) { FAIL() << "nobody has ordered a drain"; }
  void Handle(const EmitToken& emit);
  void Handle(const EndJob& end);

  const LoadWorkers workers_;
  VirtualTime clock_;
  SeededRandom random_;
  SeededRandom slowdowns_;
  int64_t slowed_since_ms_ = -1'000;
  double slowdown_ = 1;
  SeededRandom secrets_{1};
  SeededRandom victims_;
  Dispatcher dispatcher_;
  uint64_t next_job_ = 1;
  int next_worker_ = 1;
  std::vector<WorkerId> decode_workers_;
  std::map<ChoiceKey, Client> clients_;
  std::map<std::string, LoadResult> results_;
  // Prompts at the prefill worker; the first one is being computed.
  std::deque<StartPrefill> prompts_;
  std::map<CallKey, WorkerCall> calls_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_LOAD_WORLD_H_
