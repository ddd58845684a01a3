#include "router/tenant_buckets.h"

#include <algorithm>

namespace baton::router {

TenantBuckets::TenantBuckets(const TenantBucketOptions& options)
    : tokens_per_second_(options.tokens_per_second),
      burst_tokens_(options.burst_tokens > 0 ? options.burst_tokens
                                             : options.tokens_per_second * kDefaultBurstSeconds) {}

int64_t TenantBuckets::NsFor(int64_t tokens) const {
  return static_cast<int64_t>(static_cast<double>(tokens) * kNsPerSecond / static_cast<double>(tokens_per_second_));
}

int64_t TenantBuckets::WaitNs(TimeNs now, const std::string& tenant, int64_t cost) const {
  if (tokens_per_second_ == 0) return 0;
  const auto it = full_at_.find(tenant);
  if (it == full_at_.end()) return 0;
  // One more for what was rounded, so that the last tokens of a bucket can be had.
  const TimeNs holds_cost_at = it->second - NsFor(burst_tokens_ - std::min(cost, burst_tokens_)) - 1;
  return std::max<int64_t>(holds_cost_at - now, 0);
}

int64_t TenantBuckets::Take(TimeNs now, const std::string& tenant, int64_t cost) {
  if (tokens_per_second_ == 0) return 0;
  const int64_t taken = std::min(cost, burst_tokens_);
  Move(now, tenant, taken);
  return taken;
}

void TenantBuckets::Settle(TimeNs now, const std::string& tenant, int64_t taken, int64_t cost) {
  if (tokens_per_second_ > 0) Move(now, tenant, cost - taken);
}

void TenantBuckets::Move(TimeNs now, const std::string& tenant, int64_t tokens) {
  while (!order_.empty() && order_.begin()->first <= now) {
    full_at_.erase(order_.begin()->second);
    order_.erase(order_.begin());
  }
  const auto it = full_at_.find(tenant);
  const TimeNs before = it == full_at_.end() ? now : it->second;
  const TimeNs full_at = before + NsFor(tokens);
  if (it != full_at_.end()) {
    order_.erase({it->second, tenant});
    full_at_.erase(it);
  }
  if (full_at <= now) return;
  full_at_.emplace(tenant, full_at);
  order_.emplace(full_at, tenant);
  if (full_at_.size() <= kMaxBuckets) return;
  full_at_.erase(order_.begin()->second);
  order_.erase(order_.begin());
}

}  // namespace baton::router
