// The simulated clients: what they ask for and when, when they give up, and whether they get what is right.
#ifndef BATON_SIMULATOR_WORKLOAD_H_
#define BATON_SIMULATOR_WORKLOAD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/dispatcher.h"
#include "simulator/router_node.h"
#include "simulator/simulation.h"

namespace baton::simulator {

class Workload final : public JobListener {
 public:
  explicit Workload(Simulation& sim);

  // Draws the jobs and schedules what the clients do. `router` outlives the run.
  void Schedule(RouterNode& router);

  void OnPlaced(const JobKey& key, const Incarnation& worker) override;
  void OnToken(const ChoiceKey& key, const OutputToken& token) override;
  void OnEnd(const ChoiceKey& key, const router::JobResult& result) override;

  bool done() const { return open_ == 0; }
  // The last time at which a client does something of its own accord.
  TimeNs last_event() const { return last_event_; }
  // The jobs that have not ended; empty when there are none.
  std::string Open() const;

 private:
  struct Job {
    std::shared_ptr<const router::JobSpec> spec;
    // All that it may get.
    std::vector<int32_t> expected;
    std::vector<int32_t> got;
    // The workers of its last attempt.
    uint32_t attempt = 0;
    std::vector<Incarnation> workers;
    bool ended = false;
    // The status with which the client gave up; set with `gave_up`.
    bool gave_up = false;
    absl::Status why;
  };

  std::shared_ptr<const router::JobSpec> DrawSpec(TimeNs submitted);
  std::vector<int32_t> DrawPrompt();
  SamplingParams DrawSampling();
  void Submit(RouterNode& router, const ChoiceKey& key);
  void GiveUp(RouterNode& router, const ChoiceKey& key, const absl::Status& why);
  void CheckOk(const Job& job, const router::JobResult& result);
  void CheckDigest(const Job& job, const std::string& digest);
  void CheckError(const Job& job, const absl::Status& status);
  // Whether one of its workers has crashed or its Fetch stream was cut.
  bool MayBeLost(const Job& job) const;
  void Wrong(const Job& job, const std::string& what) { sim_.Fail(absl::StrCat(job.spec->id.ToHex(), ": ", what)); }

  Simulation& sim_;
  // Beginnings that prompts share.
  std::vector<std::vector<int32_t>> bases_;
  std::map<ChoiceKey, Job> jobs_;
  // Digests by prompt, as far as they are known.
  std::map<std::vector<int32_t>, std::string> digests_;
  int open_ = 0;
  TimeNs last_event_ = 0;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_WORKLOAD_H_
