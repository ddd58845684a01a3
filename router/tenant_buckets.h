// The tokens that each tenant may use: a bucket that holds `burst` tokens and is filled with `per_second`. A request
// takes its cost in the unit of tenant_shares.h.
//
//   event                                  | the tenant's bucket
//   ---------------------------------------+--------------------------------------------------------------------------
//   a request comes, and the bucket holds  | the request is taken, and its cost with all the outputs that it may have
//   its cost or is full                    | is taken out, at most a whole bucket
//   a request comes otherwise              | the request is refused until the bucket holds as much
//   a request ends                         | gets back what the request did not use, or owes what it used beyond that
//   it is full                             | is forgotten: a new one is as full
//   kMaxBuckets are remembered             | the one that is full first is forgotten
//
// So in no time does a tenant get more than `burst` and what has flown in meanwhile, and the costs of its running
// requests beyond a whole bucket each. Nobody verifies the tenant's name: who gives each request another one has a full
// bucket for each.
#ifndef BATON_ROUTER_TENANT_BUCKETS_H_
#define BATON_ROUTER_TENANT_BUCKETS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/clock.h"

namespace baton::router {

struct TenantBucketOptions {
  // 0: no bounds.
  int64_t tokens_per_second = 0;
  // 0: as much as flows in within kDefaultBurstSeconds.
  int64_t burst_tokens = 0;
};

inline constexpr int64_t kDefaultBurstSeconds = 10;

// Used by one thread.
class TenantBuckets {
 public:
  static constexpr size_t kMaxBuckets = 1u << 16;

  explicit TenantBuckets(const TenantBucketOptions& options);

  // How long until the tenant may send a request of this cost; 0: it may now.
  int64_t WaitNs(TimeNs now, const std::string& tenant, int64_t cost) const;
  // Takes the cost out of the bucket. What was taken, for Settle.
  int64_t Take(TimeNs now, const std::string& tenant, int64_t cost);
  // The request for which `taken` was taken has cost so much.
  void Settle(TimeNs now, const std::string& tenant, int64_t taken, int64_t cost);
  // Buckets that are not full.
  size_t size() const { return full_at_.size(); }

 private:
  // The bucket is full so much later.
  void Move(TimeNs now, const std::string& tenant, int64_t tokens);
  int64_t NsFor(int64_t tokens) const;

  const int64_t tokens_per_second_;
  const int64_t burst_tokens_;
  // When each bucket is full again, and the same in order.
  std::map<std::string, TimeNs> full_at_;
  std::set<std::pair<TimeNs, std::string>> order_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TENANT_BUCKETS_H_
