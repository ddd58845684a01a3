#include "router/cluster_health.h"

#include "absl/strings/str_cat.h"

namespace baton::router {

ClusterHealth::ClusterHealth(const Clock& clock, RandomSource& random, const WorkerRegistry& registry,
                             int64_t canary_trial_ms)
    : registry_(registry), workers_(clock, registry), pairs_(clock, random, registry, canary_trial_ms) {}

void ClusterHealth::OnWorkerLost(const WorkerId& worker) {
  workers_.OnWorkerLost(worker);
  pairs_.OnWorkerLost(worker);
}

void ClusterHealth::OnPlaced(const Pair& pair) {
  workers_.OnPlaced(pair.prefill);
  if (pair.decode.is_zero() || pair.decode == pair.prefill) return;
  workers_.OnPlaced(pair.decode);
  pairs_.OnPlaced(pair);
}

void ClusterHealth::OnHandOffFailed(const Pair& pair, TimeNs placed, const std::string& why) {
  if (!pairs_.OnFailed(pair, placed)) return;
  Note(absl::StrCat("hand-offs from ", NameOf(pair.prefill), " to ", NameOf(pair.decode),
                    " fail, so other pairs get the requests: look at the network between the two; ", why));
}

void ClusterHealth::OnHandedOver(const Pair& pair, TimeNs placed) {
  if (!pairs_.OnHandedOver(pair, placed)) return;
  Note(absl::StrCat("hand-offs from ", NameOf(pair.prefill), " to ", NameOf(pair.decode), " go well again"));
}

void ClusterHealth::OnWrongAnswer(const Pair& pair, TimeNs placed, const std::string& outputs) {
  pairs_.OnFailed(pair, placed);
  Note(absl::StrCat("WRONG OUTPUT: a canary from ", NameOf(pair.prefill), " to ", NameOf(pair.decode),
                    " gave the tokens ", outputs,
                    ", and not those that workers of the same fingerprint gave before, so other pairs get the ",
                    "requests: look at the memory and the processor of both machines"));
}

void ClusterHealth::OnSample(const WorkerId& worker, const WorkSample& sample) {
  switch (workers_.OnSample(worker, sample)) {
    case HealthChange::kNone:
      return;
    case HealthChange::kEjected:
      ++ejections_[static_cast<size_t>(registry_.Find(worker)->info.role)];
      return Note(absl::StrCat(NameOf(worker), " is much slower than its peers at equal work, so it gets only trials: ",
                               "look at what else its machine does, or restart it"));
    case HealthChange::kReturned:
      return Note(absl::StrCat(NameOf(worker), " is as fast as its peers again, and gets its share"));
  }
}

Shunned ClusterHealth::Now(const std::map<WorkerId, WorkerAssignment>& assigned) const {
  return {.ramping = workers_.Ramping(assigned), .ejected = workers_.Ejected(assigned), .pairs = pairs_.Avoided()};
}

WorkerCondition ClusterHealth::ConditionOf(const WorkerId& worker) const {
  WorkerCondition condition = {.slow = workers_.IsEjected(worker), .bad_partners = {}};
  for (const WorkerId& partner : pairs_.BadPartners(worker)) {
    if (const Worker* known = registry_.Find(partner)) condition.bad_partners.push_back(known->info.target);
  }
  condition.hand_offs_fail = !condition.bad_partners.empty() && pairs_.AtFault(worker);
  return condition;
}

std::string ClusterHealth::NameOf(const WorkerId& worker) const {
  const Worker* known = registry_.Find(worker);
  if (known == nullptr) return "a lost worker";
  return absl::StrCat(RoleName(known->info.role), " worker ", known->info.target);
}

void ClusterHealth::Note(std::string note) {
  if (notes_.size() < kMaxHealthNotes) notes_.push_back(std::move(note));
}

}  // namespace baton::router
