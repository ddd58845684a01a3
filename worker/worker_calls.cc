#include "worker/worker_calls.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "common/limits.h"
#include "worker/attempt_owners.h"

namespace baton::worker {

WorkerCalls::WorkerCalls(size_t routers, const Clock& clock, WorkNote& work) {
  for (size_t i = 0; i < routers; ++i) routers_.push_back(std::make_unique<RouterCalls>(clock, work));
}

UpdateSink& WorkerCalls::Add(Phase& phase) {
  phases_.push_back(std::make_unique<SharedPhase>(phase));
  for (const auto& router : routers_) phases_.back()->AddRouter(*router);
  return *phases_.back();
}

void WorkerCalls::Flush(bool holds_nothing, absl::FunctionRef<BlockReport()> blocks) {
  std::vector<size_t> due;
  for (size_t router = 0; router < routers_.size(); ++router) {
    if (routers_[router]->BlocksAreDue(holds_nothing)) due.push_back(router);
  }
  if (!due.empty() || RemembersMany()) SayBlocks(blocks(), due);
  for (const auto& router : routers_) router->Flush();
}

bool WorkerCalls::RemembersMany() const {
  const size_t bound = kMaxEndedAttempts + open_calls();
  return std::any_of(phases_.begin(), phases_.end(),
                     [bound](const auto& phase) { return phase->known_attempts() > bound; });
}

void WorkerCalls::SayBlocks(const BlockReport& report, const std::vector<size_t>& due) {
  const auto member_of = [this](const JobKey& key) { return MemberOf(key); };
  for (const size_t router : due) routers_[router]->SayBlocks(PartOf(report, router, member_of));
  const absl::flat_hash_set<JobKey> holders = HoldersOf(report);
  for (const auto& phase : phases_) phase->KeepOnly(holders);
}

std::optional<size_t> WorkerCalls::MemberOf(const JobKey& key) const {
  for (const auto& phase : phases_) {
    const std::optional<size_t> router = phase->RouterOf(key);
    if (router.has_value()) return routers_[*router]->has_joined() ? router : std::nullopt;
  }
  return std::nullopt;
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
