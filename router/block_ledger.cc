#include "router/block_ledger.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace baton::router {
namespace {

// By attempt, what the report before said. A worker has an attempt once, unless it has a bug.
using Earlier = absl::flat_hash_map<JobKey, LedgerEntry>;

bool IsOrphan(const LedgerEntry& entry) { return entry.verdict == HolderVerdict::kOrphan; }

Earlier ByAttempt(const WorkerBlocks* blocks) {
  Earlier earlier;
  if (blocks == nullptr) return earlier;
  for (const LedgerEntry& entry : blocks->entries) {
    LedgerEntry& kept = earlier.try_emplace(entry.holder.key, entry).first->second;
    if (IsOrphan(entry)) kept = entry;
  }
  return earlier;
}

LedgerEntry Judge(const WorkerId& worker, const BlockHolder& holder, const AttemptCalls& calls,
                  int32_t reports_before) {
  if (holder.hold == BlockHold::kUnowned) {
    return {.holder = holder, .verdict = HolderVerdict::kOrphan, .reports_without_call = reports_before + 1};
  }
  if (calls.prefill == worker || calls.decode == worker) return {.holder = holder, .verdict = HolderVerdict::kCalled};
  if (holder.hold == BlockHold::kForReader && calls.decode.has_value()) {
    return {.holder = holder, .verdict = HolderVerdict::kRead};
  }
  const int32_t reports = reports_before + 1;
  return {.holder = holder,
          .verdict = reports >= kOrphanReports ? HolderVerdict::kOrphan : HolderVerdict::kEnding,
          .reports_without_call = reports};
}

}  // namespace

bool WorkerBlocks::has_orphans() const {
  return unaccounted_blocks != 0 || std::any_of(entries.begin(), entries.end(), IsOrphan);
}

LedgerNews BlockLedger::OnReport(const WorkerId& worker, int32_t total_blocks, const BlockReport& report,
                                 FindCalls find_calls) {
  const WorkerBlocks* const last = Find(worker);
  const Earlier earlier = ByAttempt(last);
  WorkerBlocks now = {.reported_at = clock_.Now(),
                      .free_blocks = report.free_blocks,
                      .cached_blocks = report.cached_blocks,
                      .other_routers_blocks = report.other_routers_blocks,
                      .entries = {}};
  now.entries.reserve(report.holders.size());
  now.unaccounted_blocks =
      int64_t{total_blocks} - report.free_blocks - report.cached_blocks - report.other_routers_blocks;
  LedgerNews news;
  for (const BlockHolder& holder : report.holders) {
    now.unaccounted_blocks -= holder.own_blocks;
    const auto before = earlier.find(holder.key);
    const int32_t reports_before = before == earlier.end() ? 0 : before->second.reports_without_call;
    const LedgerEntry entry = Judge(worker, holder, find_calls(holder.key), reports_before);
    now.entries.push_back(entry);
    if (!IsOrphan(entry)) continue;
    now.orphaned_blocks += holder.blocks;
    if (before == earlier.end() || !IsOrphan(before->second)) news.orphans.push_back(holder);
  }
  now.orphaned_blocks += std::abs(now.unaccounted_blocks);
  if (last == nullptr || last->unaccounted_blocks == 0) news.unaccounted_blocks = now.unaccounted_blocks;
  workers_.insert_or_assign(worker, std::move(now));
  return news;
}

const WorkerBlocks* BlockLedger::Find(const WorkerId& worker) const {
  const auto it = workers_.find(worker);
  return it == workers_.end() ? nullptr : &it->second;
}

}  // namespace baton::router
