#include "router/tenant_shares.h"

#include <algorithm>

#include "common/check.h"

namespace baton::router {
namespace {

// CostAhead looks at so many tenants that wait, so that it never takes long.
constexpr int kMostTenantsCounted = 64;

}  // namespace

void TenantShares::OnWaiting(const std::string& tenant, int64_t expected_cost, TimeNs now) {
  Tenant& entry = tenants_[tenant];
  entry.pace.OnWaiting(now);
  entry.waiting_cost += expected_cost;
  waiting_cost_ += expected_cost;
  if (entry.waiting++ > 0) return;
  entry.counter = std::max(entry.counter, Least());
  order_.emplace(entry.counter, tenant);
}

void TenantShares::OnWaitingEnded(const std::string& tenant, int64_t expected_cost) {
  Tenant& entry = tenants_.at(tenant);
  entry.pace.OnWaitingEnded();
  entry.waiting_cost -= expected_cost;
  waiting_cost_ -= expected_cost;
  BATON_CHECK(entry.waiting > 0);
  if (--entry.waiting > 0) return;
  last_least_ = std::max(last_least_, Least());
  order_.erase({entry.counter, tenant});
  ForgetIdle(tenant);
}

void TenantShares::OnPlaced(const std::string& tenant, const PlacedJob& placed) {
  Tenant& entry = tenants_[tenant];
  entry.pace.OnPlaced(placed);
  ++entry.running;
  Raise(tenant, entry, placed.cost);
}

void TenantShares::OnEnded(const std::string& tenant, int64_t cost_error) {
  Tenant& entry = tenants_.at(tenant);
  BATON_CHECK(entry.running > 0);
  --entry.running;
  Raise(tenant, entry, cost_error);
  ForgetIdle(tenant);
}

void TenantShares::OnUsualCostChanged(double more) {
  for (auto& [name, entry] : tenants_) entry.pace.OnUsualCostChanged(more);
}

void TenantShares::Raise(const std::string& tenant, Tenant& entry, int64_t tokens) {
  if (entry.waiting > 0) order_.erase({entry.counter, tenant});
  entry.counter += tokens;
  if (entry.waiting > 0) order_.emplace(entry.counter, tenant);
}

int32_t TenantShares::waiting(const std::string& tenant) const {
  const auto it = tenants_.find(tenant);
  return it == tenants_.end() ? 0 : it->second.waiting;
}

// Another tenant's jobs go first until it is more than the quantum ahead of where this tenant is when its own jobs have
// been served. The tenants that have got the least come first in `order_`, so the rest of them yield after the first
// one that does.
int64_t TenantShares::CostAhead(const std::string& tenant) const {
  const auto own = tenants_.find(tenant);
  const Tenant entry = own == tenants_.end() ? Tenant() : own->second;
  const int64_t counter = entry.waiting > 0 ? entry.counter : std::max(entry.counter, Least());
  const int64_t limit = counter + entry.waiting_cost + kQuantumTokens;
  int64_t ahead = entry.waiting_cost;
  int counted = 0;
  for (auto it = order_.begin(); it != order_.end() && it->first <= limit; ++it) {
    if (it->second == tenant) continue;
    if (++counted > kMostTenantsCounted) return waiting_cost_;
    ahead += std::min(tenants_.at(it->second).waiting_cost, limit - it->first);
  }
  return ahead;
}

int64_t TenantShares::OwnWaitNs(const std::string& tenant, int64_t most_cost, TimeNs now) const {
  const auto it = tenants_.find(tenant);
  if (it == tenants_.end()) return 0;
  return it->second.pace.NsForCost(now, std::min(it->second.waiting_cost, most_cost));
}

// A tenant without jobs gives up what it is ahead: it cannot be told from one that chose another name.
void TenantShares::ForgetIdle(const std::string& tenant) {
  const auto it = tenants_.find(tenant);
  if (it->second.waiting > 0 || it->second.running > 0) return;
  tenants_.erase(it);
}

bool TenantShares::Update() {
  std::set<std::string> yielding;
  const int64_t limit = Least() + kQuantumTokens;
  for (auto it = order_.rbegin(); it != order_.rend() && it->first > limit; ++it) yielding.insert(it->second);
  if (yielding == yielding_) return false;
  yielding_ = std::move(yielding);
  return true;
}

}  // namespace baton::router
