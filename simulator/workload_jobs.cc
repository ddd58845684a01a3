// Where requests are: at which router, and at which workers.
#include <memory>
#include <utility>

#include "simulator/workload.h"

namespace baton::simulator {
namespace {

// A router ends a job at the second death in a step of its current attempt. Those of former ones, whose cancellation
// was on its way, count for nothing.
constexpr int kMaxPoisonDeaths = 4;

}  // namespace

void Workload::OnRouterGone(const RouterNode* router) {
  for (auto& [key, job] : jobs_) {
    if (job.router != router || job.ended) continue;
    job.ended = true;
    if (job.is_kept) continue;
    ++sim_.counts.failed;
    --open_;
  }
  kept_.OnRouterGone(router);
}

void Workload::OnSubmitted(const std::shared_ptr<const router::JobSpec>& spec, const RouterNode& router) {
  KeptClients::Work work = kept_.OnSubmitted(*spec, router);
  Job job{.spec = spec, .expected = std::move(work.computed)};
  job.home = router.number();
  job.router = &router;
  job.submitted = sim_.queue.Now();
  job.is_kept = true;
  // As if its client left with a stop string that matched.
  job.gave_up = work.is_cut;
  jobs_[spec->key()] = std::move(job);
}

void Workload::OnPlaced(const JobKey& key, const Incarnation& worker) {
  Job& job = jobs_.at(key.choice_key());
  if (job.attempt != key.attempt) {
    job.workers.clear();
    job.placed = sim_.queue.Now();
  }
  job.attempt = key.attempt;
  job.workers.push_back(worker);
  job.all_workers.insert(worker);
}

void Workload::OnDeath(const JobKey& key, const RouterNode& router) {
  Job& job = jobs_.at(key.choice_key());
  if (job.router != &router) return;
  ++job.deaths;
  if (sim_.poison.contains(key.job) && job.deaths > kMaxPoisonDeaths) Wrong(job, "kills worker after worker");
}

}  // namespace baton::simulator
