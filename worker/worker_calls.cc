#include "worker/worker_calls.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "common/limits.h"

namespace baton::worker {

WorkerCalls::WorkerCalls(size_t routers, const Clock& clock, WorkNote& work) {
  for (size_t i = 0; i < routers; ++i) routers_.push_back(std::make_unique<RouterCalls>(clock, work));
}

UpdateSink& WorkerCalls::Add(Phase& phase) {
  phases_.push_back(std::make_unique<SharedPhase>(phase));
  for (const auto& router : routers_) phases_.back()->AddRouter(*router);
  return *phases_.back();
}

void WorkerCalls::Flush(absl::FunctionRef<BlockReport()> blocks) {
  std::vector<RouterCalls*> due;
  for (const auto& router : routers_) {
    if (router->BlocksAreDue()) due.push_back(router.get());
  }
  if (!due.empty() || RemembersMany()) SayBlocks(blocks(), due);
  for (const auto& router : routers_) router->Flush();
}

bool WorkerCalls::RemembersMany() const {
  const size_t bound = kMaxEndedAttempts + open_calls();
  return std::any_of(phases_.begin(), phases_.end(),
                     [bound](const auto& phase) { return phase->known_attempts() > bound; });
}

void WorkerCalls::SayBlocks(const BlockReport& report, const std::vector<RouterCalls*>& due) {
  for (RouterCalls* router : due) router->SayBlocks(PartOf(*router, report));
  absl::flat_hash_set<JobKey> holders;
  for (const BlockHolder& holder : report.holders) holders.insert(holder.key);
  for (const auto& phase : phases_) phase->KeepOnly(holders);
}

BlockReport WorkerCalls::PartOf(const RouterCalls& router, const BlockReport& report) const {
  BlockReport part = {.free_blocks = report.free_blocks, .cached_blocks = report.cached_blocks, .holders = {}};
  for (const BlockHolder& holder : report.holders) {
    const RouterCalls* const member = MemberOf(holder.key);
    if (member == nullptr || member == &router) {
      part.holders.push_back(holder);
    } else {
      part.other_routers_blocks += holder.own_blocks;
    }
  }
  return part;
}

const RouterCalls* WorkerCalls::MemberOf(const JobKey& key) const {
  for (const auto& phase : phases_) {
    const std::optional<size_t> router = phase->RouterOf(key);
    if (router.has_value()) return routers_[*router]->has_joined() ? routers_[*router].get() : nullptr;
  }
  return nullptr;
}

std::vector<ChoiceKey> WorkerCalls::CutAll(int64_t drain_timeout_ms) {
  std::vector<ChoiceKey> cut;
  for (const auto& router : routers_) {
    const std::vector<ChoiceKey> its = router->CutAll(drain_timeout_ms);
    cut.insert(cut.end(), its.begin(), its.end());
  }
  std::sort(cut.begin(), cut.end());
  cut.erase(std::unique(cut.begin(), cut.end()), cut.end());
  return cut;
}

size_t WorkerCalls::open_calls() const {
  size_t calls = 0;
  for (const auto& router : routers_) calls += router->open_calls();
  return calls;
}

int64_t WorkerCalls::frozen_calls() const {
  int64_t calls = 0;
  for (const auto& router : routers_) calls += router->frozen_calls();
  return calls;
}

}  // namespace baton::worker
