// The simulated clients: what they ask for and when, when they give up, and whether they get what is right.
#ifndef BATON_SIMULATOR_WORKLOAD_H_
#define BATON_SIMULATOR_WORKLOAD_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "router/dispatcher.h"
#include "simulator/kept_clients.h"
#include "simulator/request_mix.h"
#include "simulator/router_node.h"
#include "simulator/simulation.h"
#include "simulator/worker_node.h"

namespace baton::simulator {

// What the clients of one run are like.
struct WorkloadOptions {
  MixOptions mix;
  // Requests come within this time.
  int64_t arrival_ms = 500;
};

// Requests that come nearly at once.
struct Wave {
  // Since the beginning of the run.
  int64_t at_ns = 0;
  int32_t requests = 0;
  int64_t within_ns = 0;
};

class Workload final : public JobListener {
 public:
  Workload(Simulation& sim, RouterDirectory& routers);

  // Before all requests: which of them outlive their calls.
  void Keep(const KeptSetup& setup) { kept_.Use(setup); }
  // Draws the jobs and schedules what the clients do.
  void Schedule(const WorkloadOptions& options);
  // Likewise for a long run. A request is left out when `kept` is false of its number; the others stay what they are.
  void ScheduleWaves(const MixOptions& mix, const std::vector<Wave>& waves, absl::FunctionRef<bool(int)> kept);
  // Requests that together take more blocks than there are.
  void FillPools(int count);
  // A request that kills whoever computes it.
  void SubmitPoison();
  // Requests that come to one router all at once, for one token or for some.
  void Probe(int router, int count, bool decodes);
  // Clients of a dead router have their one error.
  void OnRouterGone(const RouterNode* router);

  void OnPlaced(const JobKey& key, const Incarnation& worker) override;
  void OnSubmitted(const std::shared_ptr<const router::JobSpec>& spec, const RouterNode& router) override;
  void OnDeath(const JobKey& key, const RouterNode& router) override;
  void OnPrompt(const ChoiceKey& key, const std::vector<PromptLogprob>& logprobs) override;
  void OnToken(const ChoiceKey& key, const OutputToken& token) override;
  void OnEnd(const ChoiceKey& key, const router::JobResult& result) override;

  bool done() const { return open_ == 0 && kept_.done(); }
  // The last time at which a client does something of its own accord.
  TimeNs last_event() const { return std::max(last_event_, kept_.last_event()); }
  // The jobs that have not ended; empty when there are none.
  std::string Open() const;
  // How long one worker alone would take for what is open, if it computed nothing for two requests at once.
  int64_t OpenWorkNs() const;
  // Routers, each with the workers that had a part in a request of it that ended well.
  const std::set<std::pair<int, Incarnation>>& served() const { return served_; }
  void ForgetServed() { served_.clear(); }
  // Whether a prompt of at most `most_tokens` waits at the router since `since` or longer and was never placed.
  bool AnyWaits(int router, TimeNs since, int32_t most_tokens) const;
  int64_t longest_wait_ns() const { return longest_wait_ns_; }
  int32_t most_attempts() const { return most_attempts_; }
  // The longest time from a request's submission to its end, whatever befell it.
  int64_t longest_life_ns() const { return longest_life_ns_; }
  // When the last request ended.
  TimeNs last_end() const { return last_end_; }
  // Requests of ScheduleWaves, with those that were left out.
  int drawn() const { return drawn_; }

 private:
  struct Job {
    std::shared_ptr<const router::JobSpec> spec;
    // All that it may get.
    std::vector<int32_t> expected;
    std::vector<int32_t> got;
    // It has got the log-probabilities of its prompt.
    bool has_prompt = false;
    // The number of its router.
    int home = 0;
    // Where it was sent; nullptr before.
    const RouterNode* router = nullptr;
    TimeNs submitted = 0;
    // Its last attempt.
    uint32_t attempt = 0;
    TimeNs placed = 0;
    std::vector<Incarnation> workers;
    // The workers of all its attempts.
    std::set<Incarnation> all_workers;
    // How many workers have told its router that they died in a step with it.
    int deaths = 0;
    // It outlives its calls: the times here are those at the router that has it now, and its clients are others.
    bool is_kept = false;
    bool ended = false;
    // The status with which the client gave up; set with `gave_up`.
    bool gave_up = false;
    absl::Status why;
  };

  std::vector<int32_t> ComputedFor(const router::JobSpec& spec) const;
  Job& AddJob(std::shared_ptr<const router::JobSpec> spec, int home, TimeNs submitted);
  // Some requests are for several choices. The result is that of choice 0.
  ChoiceKey AddChoices(const std::shared_ptr<const router::JobSpec>& spec, int home, TimeNs submitted);
  void Submit(const ChoiceKey& key);
  void OnRefused(const ChoiceKey& key, const absl::Status& status);
  // How the client may end it of its own accord: when, and with what.
  struct Leaving {
    int64_t after_ns = 0;
    absl::Status why;
  };
  Leaving DrawLeaving();
  void LeaveAfter(const ChoiceKey& key, const Leaving& leaving);
  void GiveUp(const ChoiceKey& key, const absl::Status& why);
  // Its client reads nothing for this time.
  void LeaveUnread(const ChoiceKey& key, int64_t ns);
  void CheckOk(const Job& job, const router::JobResult& result);
  void CheckDigest(const Job& job, const std::string& digest);
  void CheckError(const Job& job, const router::JobResult& result);
  // Whether the router has tried for as long as it must before a job ends with a worker's error.
  bool TriedEnough(const Job& job, const router::JobResult& result) const;
  // Whether its deadline may have passed early for the router or for a worker of its last attempt.
  bool SomeClockLeapt(const Job& job) const;
  // Whether a fault befell its last attempt.
  bool MayBeLost(const Job& job) const;
  // Whether a fault befell one of its attempts.
  bool MayFailOver(const Job& job) const;
  void Wrong(const Job& job, const std::string& what) { sim_.Fail(absl::StrCat(job.spec->id.ToHex(), ": ", what)); }

  Simulation& sim_;
  RouterDirectory& routers_;
  MixOptions options_;
  // No request that lives in no trouble waits longer for its end.
  int64_t max_wait_ns_ = 0;
  RequestMix mix_;
  std::map<ChoiceKey, Job> jobs_;
  // Digests by prompt, as far as they are known.
  std::map<std::vector<int32_t>, std::string> digests_;
  std::set<std::pair<int, Incarnation>> served_;
  int open_ = 0;
  TimeNs last_event_ = 0;
  int64_t longest_wait_ns_ = 0;
  int32_t most_attempts_ = 0;
  int64_t longest_life_ns_ = 0;
  TimeNs last_end_ = 0;
  int drawn_ = 0;
  KeptClients kept_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_WORKLOAD_H_
