// The simulated clients: what they ask for and when, when they give up, and whether they get what is right.
#ifndef BATON_SIMULATOR_WORKLOAD_H_
#define BATON_SIMULATOR_WORKLOAD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "router/dispatcher.h"
#include "simulator/router_node.h"
#include "simulator/simulation.h"
#include "simulator/worker_node.h"

namespace baton::simulator {

// What the clients of one run are like.
struct WorkloadOptions {
  // Some workers hold no more tokens than this; 0: all hold every prompt with its output. Prompts then are either far
  // below it or above it.
  int32_t small_worker_tokens = 0;
  // A steady flow of requests with a few large prompts among them, in place of a few requests of all kinds.
  bool flows = false;
  // Requests come within this time.
  int64_t arrival_ms = 500;
};

class Workload final : public JobListener {
 public:
  Workload(Simulation& sim, RouterDirectory& routers);

  // Draws the jobs and schedules what the clients do.
  void Schedule(const WorkloadOptions& options);
  // Requests that come all at once, for one token or for some.
  void Probe(int count, bool decodes);
  // Clients of a dead router have their one error.
  void OnRouterGone(const RouterNode* router);

  void OnPlaced(const JobKey& key, const Incarnation& worker) override;
  void OnToken(const ChoiceKey& key, const OutputToken& token) override;
  void OnEnd(const ChoiceKey& key, const router::JobResult& result) override;

  bool done() const { return open_ == 0; }
  // The last time at which a client does something of its own accord.
  TimeNs last_event() const { return last_event_; }
  // The jobs that have not ended; empty when there are none.
  std::string Open() const;
  // Workers that had a part in a request that ended well.
  const std::set<Incarnation>& served() const { return served_; }
  void ForgetServed() { served_.clear(); }
  // Whether a prompt of at most `most_tokens` waits since `since` or longer and was never placed.
  bool AnyWaits(TimeNs since, int32_t most_tokens) const;
  int64_t longest_wait_ns() const { return longest_wait_ns_; }
  int32_t most_attempts() const { return most_attempts_; }

 private:
  struct Job {
    std::shared_ptr<const router::JobSpec> spec;
    // All that it may get.
    std::vector<int32_t> expected;
    std::vector<int32_t> got;
    // Where it was sent; nullptr before.
    const RouterNode* router = nullptr;
    TimeNs submitted = 0;
    // Its last attempt.
    uint32_t attempt = 0;
    TimeNs placed = 0;
    std::vector<Incarnation> workers;
    bool ended = false;
    // The status with which the client gave up; set with `gave_up`.
    bool gave_up = false;
    absl::Status why;
  };

  std::shared_ptr<const router::JobSpec> DrawSpec(TimeNs submitted);
  std::vector<int32_t> DrawPrompt();
  SamplingParams DrawSampling(int32_t prompt_tokens);
  Job& AddJob(std::shared_ptr<const router::JobSpec> spec, TimeNs submitted);
  void Submit(const ChoiceKey& key);
  void OnRefused(const ChoiceKey& key, const absl::Status& status);
  void GiveUp(const ChoiceKey& key, const absl::Status& why);
  void CheckOk(const Job& job, const router::JobResult& result);
  void CheckDigest(const Job& job, const std::string& digest);
  void CheckError(const Job& job, const absl::Status& status);
  // Whether a fault befell its last attempt.
  bool MayBeLost(const Job& job) const;
  void Wrong(const Job& job, const std::string& what) { sim_.Fail(absl::StrCat(job.spec->id.ToHex(), ": ", what)); }

  Simulation& sim_;
  RouterDirectory& routers_;
  WorkloadOptions options_;
  // Beginnings that prompts share.
  std::vector<std::vector<int32_t>> bases_;
  std::map<ChoiceKey, Job> jobs_;
  // Digests by prompt, as far as they are known.
  std::map<std::vector<int32_t>, std::string> digests_;
  std::set<Incarnation> served_;
  int open_ = 0;
  TimeNs last_event_ = 0;
  int64_t longest_wait_ns_ = 0;
  int32_t most_attempts_ = 0;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_WORKLOAD_H_
