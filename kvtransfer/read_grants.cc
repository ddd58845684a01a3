#include "kvtransfer/read_grants.h"

#include <algorithm>
#include <iterator>

#include "common/check.h"
#include "common/log.h"

namespace baton::kvtransfer {
namespace {

// Adds [begin, end), joined with what it overlaps or touches.
void Insert(uint64_t begin, uint64_t end, std::map<uint64_t, uint64_t>& ranges) {
  auto next = ranges.upper_bound(begin);
  if (next != ranges.begin() && std::prev(next)->second >= begin) {
    --next;
    begin = next->first;
  }
  while (next != ranges.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ranges.erase(next);
  }
  ranges.emplace(begin, end);
}

}  // namespace

void ReadGrants::Grant(const Id128& fetch, absl::Span<const RegionRange> ranges) {
  if (fetch.is_zero()) return;
  absl::MutexLock lock(&mutex_);
  Fetch& entry = fetches_[fetch];
  for (const RegionRange& range : ranges) Insert(range.offset, range.offset + range.bytes, entry.ranges);
}

bool ReadGrants::Withdraw(const Id128& fetch) {
  absl::MutexLock lock(&mutex_);
  const auto it = fetches_.find(fetch);
  if (it == fetches_.end()) return true;
  it->second.ranges.clear();
  if (it->second.sends > 0) return false;
  fetches_.erase(it);
  return true;
}

bool ReadGrants::BeginSend(const Id128& fetch, const RegionRange& range) {
  absl::MutexLock lock(&mutex_);
  const auto it = fetches_.find(fetch);
  if (it == fetches_.end()) return false;
  const auto after = it->second.ranges.upper_bound(range.offset);
  if (after == it->second.ranges.begin()) return false;
  const uint64_t end = std::prev(after)->second;
  if (range.offset >= end || range.bytes > end - range.offset) return false;
  ++it->second.sends;
  return true;
}

void ReadGrants::EndSend(const Id128& fetch) {
  absl::MutexLock lock(&mutex_);
  const auto it = fetches_.find(fetch);
  BATON_CHECK(it != fetches_.end() && it->second.sends > 0) << "a send ends that did not begin";
  if (--it->second.sends == 0 && it->second.ranges.empty()) fetches_.erase(it);
}

void ReadGrants::CountRefusal() {
  if (refusals_.fetch_add(1, std::memory_order_relaxed) > 0) return;
  spdlog::warn("refused a read of KV over the network: no open Fetch announced these blocks. Further ones are counted");
}

}  // namespace baton::kvtransfer
