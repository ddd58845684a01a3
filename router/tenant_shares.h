// What each tenant has got of the workers, in tokens, so that one tenant's burst does not make all others wait behind
// it. This is the virtual token counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024), with
// a quantum: a tenant yields once it is more than kQuantumTokens ahead of the waiting tenant that has got the least.
//
//   event                        | the tenant's counter
//   -----------------------------+-----------------------------------------------------------------------------------
//   its first job waits          | is raised to the least of those that wait, or to what that was when somebody waited
//                                | last: nobody saves up
//   a job of it is placed        | rises by the cost that is expected
//   a job of it ends             | is set right by what the job really cost
//
// So of two tenants that both have jobs waiting all the time, neither gets more than the quantum and the costs of its
// running jobs ahead of the other.
#ifndef BATON_ROUTER_TENANT_SHARES_H_
#define BATON_ROUTER_TENANT_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/clock.h"
#include "router/job.h"
#include "router/queue_pace.h"

namespace baton::router {

// An output token takes a step of its own, a prompt token a row of one.
inline constexpr int64_t kOutputTokenCost = 2;
// What a job costs that gives so many outputs.
inline int64_t CostOf(const JobSpec& spec, int64_t output_tokens) {
  return spec.client_prompt_tokens() + kOutputTokenCost * output_tokens;
}
// A few requests of usual size.
inline constexpr int64_t kQuantumTokens = 2'048;

// Used by one thread. Remembers the tenants that have jobs waiting or running, and no others.
class TenantShares {
 public:
  // A job of the tenant, expected to cost so much, begins to wait, or waits no more.
  void OnWaiting(const std::string& tenant, int64_t expected_cost, TimeNs now);
  void OnWaitingEnded(const std::string& tenant, int64_t expected_cost);
  // A job of the tenant was placed for the first time, at the cost that is expected.
  void OnPlaced(const std::string& tenant, const PlacedJob& placed);
  // A job that was charged is placed again, after it has waited like a new one.
  void OnPlacedAgain(const std::string& tenant, const PlacedJob& placed) { tenants_.at(tenant).pace.OnPlaced(placed); }
  // A job that was placed has ended, and cost that much more or less.
  void OnEnded(const std::string& tenant, int64_t cost_error);

  // Nobody waits. As QueuePace's, for the paces of all tenants.
  void OnUsualCostChanged(double more);

  // Jobs of the tenant that wait.
  int32_t waiting(const std::string& tenant) const;
  // Whether the jobs of the tenant yield to those of others, as of the last Update.
  bool yields(const std::string& tenant) const { return yielding_.contains(tenant); }
  // Finds out who yields now. True when that has changed.
  bool Update();
  // What the jobs cost together that wait now and go before a new one of the tenant. At most, because of many tenants
  // that wait only the first are looked at.
  int64_t CostAhead(const std::string& tenant) const;
  // How long jobs of the tenant that wait now take to be placed, but at most those of this cost, at the pace of this
  // tenant's own; 0: unknown. It tells what others keep taking that come later and go first.
  int64_t OwnWaitNs(const std::string& tenant, int64_t most_cost, TimeNs now) const;
  // Tenants that are remembered.
  size_t size() const { return tenants_.size(); }

 private:
  struct Tenant {
    int64_t counter = 0;
    int32_t waiting = 0;
    int32_t running = 0;
    int64_t waiting_cost = 0;
    QueuePace pace;
  };

  void Raise(const std::string& tenant, Tenant& entry, int64_t tokens);
  void ForgetIdle(const std::string& tenant);
  int64_t Least() const { return order_.empty() ? last_least_ : order_.begin()->first; }

  std::map<std::string, Tenant> tenants_;
  // Tenants with jobs waiting, by counter.
  std::set<std::pair<int64_t, std::string>> order_;
  std::set<std::string> yielding_;
  int64_t last_least_ = 0;
  int64_t waiting_cost_ = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TENANT_SHARES_H_
