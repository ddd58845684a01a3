#include "router/call_ledger.h"

#include <algorithm>

#include "common/check.h"

namespace baton::router {
namespace {

void Charge(WorkerAssignment& assigned, int64_t prompt_tokens, int64_t blocks) {
  assigned.uncomputed_prompt_tokens += prompt_tokens;
  assigned.unheard_prompt_tokens += prompt_tokens;
  assigned.reserved_blocks += blocks;
  assigned.unheard_blocks += blocks;
}

}  // namespace

void CallLedger::Open(const CallKey& key, Call call) {
  WorkerAssignment& assigned = assigned_[call.worker];
  call.heartbeats = assigned.heartbeats;
  const bool inserted = calls_.emplace(key, call).second;
  BATON_CHECK(inserted) << key.key.ToString();
  Charge(assigned, call.prompt_tokens, call.blocks);
  ++assigned.jobs;
  ++assigned.unheard_jobs;
}

Call* CallLedger::Find(const CallKey& key) {
  const auto it = calls_.find(key);
  return it == calls_.end() ? nullptr : &it->second;
}

std::optional<WorkerId> CallLedger::WorkerOf(const CallKey& key) const {
  const auto it = calls_.find(key);
  return it == calls_.end() ? std::nullopt : std::optional(it->second.worker);
}

void CallLedger::OnComputed(Call& call, int64_t tokens) {
  const int64_t computed = std::min(tokens, call.prompt_tokens);
  call.prompt_tokens -= computed;
  Charge(assigned_.at(call.worker), -computed, 0);
}

std::optional<Call> CallLedger::Close(const CallKey& key, const absl::Status& end) {
  const auto it = calls_.find(key);
  if (it == calls_.end()) return std::nullopt;
  const Call call = it->second;
  calls_.erase(it);
  WorkerAssignment& assigned = assigned_.at(call.worker);
  Charge(assigned, -call.prompt_tokens, -call.blocks);
  --assigned.jobs;
  --assigned.unheard_jobs;
  if (call.IsRefusal(end) && assigned.heartbeats != call.heartbeats) {
    assigned.unheard_prompt_tokens += call.prompt_tokens;
    assigned.unheard_blocks += call.blocks;
    ++assigned.unheard_jobs;
  }
  return call;
}

void CallLedger::OnLoadHeard(const WorkerId& worker) {
  const auto it = assigned_.find(worker);
  if (it == assigned_.end()) return;
  it->second.unheard_prompt_tokens = 0;
  it->second.unheard_blocks = 0;
  it->second.unheard_jobs = 0;
  ++it->second.heartbeats;
  if (it->second.jobs == 0) assigned_.erase(it);
}

void CallLedger::OnWorkerLost(const WorkerId& worker) {
  std::erase_if(calls_, [&worker](const auto& entry) { return entry.second.worker == worker; });
  assigned_.erase(worker);
}

}  // namespace baton::router
