#include "router/pair_health.h"

#include <algorithm>

namespace baton::router {

bool PairHealth::OnFailed(const Pair& pair, TimeNs placed) {
  if (registry_.Find(pair.prefill) == nullptr || registry_.Find(pair.decode) == nullptr) return false;
  const auto [it, is_new] = failures_.try_emplace(pair);
  Failure& failure = it->second;
  if (!is_new) {
    if (placed < failure.failed) return false;
    failure.avoid_ms = std::min(2 * failure.avoid_ms, kMaxAvoidMs);
  }
  failure.failed = clock_.Now();
  Avoid(failure);
  return is_new;
}

bool PairHealth::OnHandedOver(const Pair& pair, TimeNs placed) {
  const auto it = failures_.find(pair);
  if (it == failures_.end() || placed < it->second.failed) return false;
  failures_.erase(it);
  return true;
}

void PairHealth::OnPlaced(const Pair& pair) {
  const auto it = failures_.find(pair);
  if (it == failures_.end() || clock_.Now() < it->second.avoided_until) return;
  Avoid(it->second);
  const bool prefill_at_fault = AtFault(pair.prefill);
  const bool decode_at_fault = AtFault(pair.decode);
  for (auto& [other, failure] : failures_) {
    const bool shares_trial =
        (prefill_at_fault && other.prefill == pair.prefill) || (decode_at_fault && other.decode == pair.decode);
    if (shares_trial) failure.avoided_until = std::max(failure.avoided_until, it->second.avoided_until);
  }
}

void PairHealth::OnWorkerLost(const WorkerId& worker) {
  std::erase_if(failures_,
                [&worker](const auto& entry) { return entry.first.prefill == worker || entry.first.decode == worker; });
}

std::vector<Pair> PairHealth::OnTrial() const {
  std::vector<Pair> on_trial;
  for (const auto& [pair, failure] : failures_) {
    if (clock_.Now() >= failure.avoided_until) on_trial.push_back(pair);
  }
  return on_trial;
}

std::vector<Pair> PairHealth::Avoided() const {
  std::vector<Pair> avoided;
  for (const auto& [pair, failure] : failures_) {
    if (clock_.Now() < After(failure.avoided_until, canary_trial_ms_)) avoided.push_back(pair);
  }
  return avoided;
}

std::vector<WorkerId> PairHealth::BadPartners(const WorkerId& worker) const {
  std::vector<WorkerId> partners;
  for (const auto& [pair, failure] : failures_) {
    if (pair.prefill == worker) partners.push_back(pair.decode);
    if (pair.decode == worker) partners.push_back(pair.prefill);
  }
  return partners;
}

bool PairHealth::AtFault(const WorkerId& worker) const {
  const std::vector<WorkerId> partners = PartnersOf(worker);
  if (partners.size() < 2) return false;
  return std::all_of(partners.begin(), partners.end(), [&](const WorkerId& partner) {
    if (!IsBad(worker, partner)) return false;
    const std::vector<WorkerId> others = PartnersOf(partner);
    return std::any_of(others.begin(), others.end(),
                       [&](const WorkerId& other) { return other != worker && !IsBad(partner, other); });
  });
}

std::vector<WorkerId> PairHealth::PartnersOf(const WorkerId& worker) const {
  std::vector<WorkerId> partners;
  const Worker* self = registry_.Find(worker);
  if (self == nullptr) return partners;
  const auto group = registry_.serving_groups().find(self->info.fingerprint);
  if (group == registry_.serving_groups().end()) return partners;
  for (const Worker* other : group->second) {
    const bool hands_over =
        (self->can_prefill() && other->can_decode()) || (self->can_decode() && other->can_prefill());
    if (other->info.id != worker && hands_over) partners.push_back(other->info.id);
  }
  return partners;
}

bool PairHealth::IsBad(const WorkerId& one, const WorkerId& other) const {
  return failures_.contains({.prefill = one, .decode = other}) || failures_.contains({.prefill = other, .decode = one});
}

void PairHealth::Avoid(Failure& failure) {
  const int64_t shortest_ms = failure.avoid_ms * 3 / 4;
  const auto spread_ms = static_cast<uint64_t>(failure.avoid_ms / 2) + 1;
  failure.avoided_until = After(clock_.Now(), shortest_ms + static_cast<int64_t>(random_.Below(spread_ms)));
}

}  // namespace baton::router
