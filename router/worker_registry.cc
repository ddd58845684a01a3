#include "router/worker_registry.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/limits.h"
#include "common/status.h"

namespace baton::router {
namespace {

// A bound far above the number of groups in any model.
constexpr int32_t kMaxLayerGroups = 1024;

absl::Status Validate(const WorkerInfo& info) {
  if (info.id.is_zero()) return absl::InvalidArgumentError("the worker has no membership");
  if (info.incarnation.is_zero()) return absl::InvalidArgumentError("the worker has no incarnation");
  for (const std::string* text : {&info.target, &info.model, &info.fingerprint, &info.admin}) {
    if (text->size() > kMaxWorkerTextBytes) {
      return absl::InvalidArgumentError(absl::StrCat("the worker states an address, model or fingerprint of ",
                                                     text->size(), " bytes, more than ", kMaxWorkerTextBytes));
    }
  }
  if (info.target.empty()) return absl::InvalidArgumentError("the worker states no address");
  const std::string who = absl::StrCat("worker ", info.target, " states ");
  if (info.fingerprint.empty()) return absl::InvalidArgumentError(absl::StrCat(who, "no fingerprint"));
  if (info.total_blocks <= 0) return absl::InvalidArgumentError(absl::StrCat(who, info.total_blocks, " KV blocks"));
  if (info.headroom_blocks < 0 || info.headroom_blocks > info.total_blocks) {
    return absl::InvalidArgumentError(absl::StrCat(who, info.headroom_blocks, " blocks of headroom"));
  }
  if (info.max_sequences <= 0) return absl::InvalidArgumentError(absl::StrCat(who, info.max_sequences, " sequences"));
  if (info.chunk_tokens <= 0) return absl::InvalidArgumentError(absl::StrCat(who, info.chunk_tokens, " chunk tokens"));
  if (info.context_length <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(who, "a context of ", info.context_length, " tokens"));
  }
  const KvGroups& groups = info.groups;
  // In this order: the count of two numbers that were not looked at may overflow.
  if (groups.full < 0 || groups.full > kMaxLayerGroups || groups.sliding < 0 || groups.sliding > kMaxLayerGroups ||
      groups.count() < 1 || (groups.sliding > 0 && groups.window < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(who, groups.full, " full and ", groups.sliding,
                                                   " sliding groups of layers, a window of ", groups.window));
  }
  return absl::OkStatus();
}

}  // namespace

const char* RoleName(WorkerRole role) {
  return role == WorkerRole::kPrefill ? "prefill" : role == WorkerRole::kDecode ? "decode" : "mixed";
}

absl::Status WorkerRegistry::CheckJoin(const WorkerInfo& info) const {
  BATON_RETURN_IF_ERROR(Validate(info));
  BATON_CHECK(!workers_.contains(info.id)) << "the router has drawn a membership twice";
  const Worker* before = FindProcess(info.incarnation);
  if (before != nullptr) {
    if (before->info.id == info.resumes) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("worker ", info.target, " has joined already: ", info.incarnation.ToHex()));
  }
  if (workers_.size() >= static_cast<size_t>(kMaxWorkers)) {
    return absl::ResourceExhaustedError(absl::StrCat("the router has its ", kMaxWorkers, " workers"));
  }
  return absl::OkStatus();
}

absl::Status WorkerRegistry::Join(const WorkerInfo& info, TimeNs now) {
  BATON_RETURN_IF_ERROR(CheckJoin(info));
  BATON_CHECK(FindProcess(info.incarnation) == nullptr) << "the membership before has not left";
  Worker worker{.info = info, .load = {}, .last_heard = now};
  worker.load.free_blocks = info.total_blocks;
  workers_.emplace(info.id, std::move(worker));
  refused_.Forget(info.target);
  Regroup();
  return absl::OkStatus();
}

bool WorkerRegistry::Heartbeat(const WorkerId& id, const WorkerLoad& load, TimeNs now) {
  const auto it = workers_.find(id);
  if (it == workers_.end()) return false;
  const bool state_changed = it->second.load.state != load.state;
  it->second.load = load;
  it->second.last_heard = now;
  if (state_changed) Regroup();
  return true;
}

bool WorkerRegistry::Leave(const WorkerId& id) {
  if (workers_.erase(id) == 0) return false;
  Regroup();
  return true;
}

// Membership and state change rarely, placements look at the groups all the time.
void WorkerRegistry::Regroup() {
  serving_groups_.clear();
  std::set<std::string> present;
  for (const auto& [id, worker] : workers_) {
    present.insert(worker.info.fingerprint);
    if (worker.load.state == WorkerState::kServing) serving_groups_[worker.info.fingerprint].push_back(&worker);
  }
  std::erase_if(group_numbers_, [&present](const auto& entry) { return !present.contains(entry.first); });
  std::set<int> taken;
  for (const auto& [fingerprint, number] : group_numbers_) taken.insert(number);
  for (const std::string& fingerprint : present) {
    if (group_numbers_.contains(fingerprint)) continue;
    int number = 0;
    while (taken.contains(number)) ++number;
    taken.insert(number);
    group_numbers_[fingerprint] = number;
  }
}

bool WorkerRegistry::CanServe() const {
  for (const auto& [fingerprint, group] : serving_groups_) {
    bool prefills = false;
    bool decodes = false;
    for (const Worker* worker : group) {
      prefills = prefills || worker->can_prefill();
      decodes = decodes || worker->can_decode();
    }
    if (prefills && decodes) return true;
  }
  return false;
}

std::string WorkerRegistry::GroupName(const std::string& fingerprint) const {
  const auto it = group_numbers_.find(fingerprint);
  BATON_CHECK(it != group_numbers_.end()) << "no member has the fingerprint " << fingerprint;
  std::string name;
  for (int rest = it->second + 1; rest > 0; rest = (rest - 1) / 26) {
    name.insert(name.begin(), static_cast<char>('A' + (rest - 1) % 26));
  }
  return name;
}

std::vector<WorkerId> WorkerRegistry::Silent(TimeNs before) const {
  std::vector<WorkerId> silent;
  for (const auto& [id, worker] : workers_) {
    if (worker.last_heard <= before) silent.push_back(id);
  }
  return silent;
}

const Worker* WorkerRegistry::Find(const WorkerId& id) const {
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

const Worker* WorkerRegistry::FindProcess(const Incarnation& incarnation) const {
  for (const auto& [id, worker] : workers_) {
    if (worker.info.incarnation == incarnation) return &worker;
  }
  return nullptr;
}

}  // namespace baton::router
