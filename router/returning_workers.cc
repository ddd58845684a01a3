#include "router/returning_workers.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "common/limits.h"

namespace baton::router {
namespace {

struct Roles {
  bool prefill = false;
  bool decode = false;

  void Add(WorkerRole role) {
    prefill |= role != WorkerRole::kDecode;
    decode |= role != WorkerRole::kPrefill;
  }
  bool Serve(AttemptKind kind) const {
    switch (kind) {
      case AttemptKind::kPair:
        return prefill && decode;
      case AttemptKind::kSolo:
        return prefill;
      case AttemptKind::kLocal:
        return decode;
    }
    return false;
  }
};

// The roles of the workers of one fingerprint, for each set of features: of those that know all of it.
struct GroupRoles {
  std::array<Roles, kJobFeatureSets> roles;

  void Add(const WorkerInfo& info) {
    for (size_t features = 0; features < roles.size(); ++features) {
      if (Covers(info.job_features, static_cast<JobFeatures>(features))) roles[features].Add(info.role);
    }
  }
  bool Serve(const JobNeeds& needs) const { return roles[needs.features].Serve(needs.kind); }
};

}  // namespace

void ReturningWorkers::OnLost(const WorkerInfo& info, TimeNs now) {
  if (lost_.size() >= static_cast<size_t>(kMaxWorkers)) lost_.pop_front();
  lost_.push_back({.info = info, .until = After(now, return_ms_)});
}

void ReturningWorkers::OnJoined(const WorkerInfo& info) {
  // A process that was announced after another had died replaces that one as well.
  std::erase_if(lost_,
                [&info](const Lost& lost) { return lost.only_announced && lost.info.incarnation == info.incarnation; });
  auto replaced = std::find_if(lost_.begin(), lost_.end(),
                               [&info](const Lost& lost) { return lost.info.incarnation == info.incarnation; });
  if (replaced == lost_.end()) {
    replaced = std::find_if(lost_.begin(), lost_.end(), [&info](const Lost& lost) {
      return !lost.only_announced && lost.info.role == info.role && lost.info.fingerprint == info.fingerprint;
    });
  }
  if (replaced != lost_.end()) lost_.erase(replaced);
}

void ReturningWorkers::OnAnnounced(const std::vector<WorkerInfo>& announced, const WorkerRegistry& registry,
                                   TimeNs now) {
  absl::flat_hash_set<Incarnation> known = std::exchange(announced_, {});
  for (const WorkerInfo& info : announced) announced_.insert(info.incarnation);
  std::erase_if(
      lost_, [this](const Lost& lost) { return lost.only_announced && !announced_.contains(lost.info.incarnation); });
  for (const Lost& lost : lost_) known.insert(lost.info.incarnation);
  for (const WorkerInfo& info : announced) {
    if (lost_.size() >= static_cast<size_t>(kMaxWorkers)) return;
    if (!known.insert(info.incarnation).second || !registry.CheckJoin(info).ok()) continue;
    lost_.push_back({.info = info, .until = After(now, return_ms_), .only_announced = true});
  }
}

void ReturningWorkers::Expire(TimeNs now) {
  while (NextExpiry() <= now) lost_.pop_front();
}

// Workers that were lost last are expected longest, so they are counted first.
std::array<TimeNs, JobNeeds::kClasses> ReturningWorkers::ExpectedUntil(const WorkerRegistry& registry) const {
  std::array<TimeNs, JobNeeds::kClasses> until = {};
  std::map<std::string, GroupRoles> groups;
  for (const auto& [fingerprint, group] : registry.serving_groups()) {
    for (const Worker* worker : group) groups[fingerprint].Add(worker->info);
  }
  for (auto lost = lost_.rbegin(); lost != lost_.rend(); ++lost) {
    GroupRoles& roles = groups[lost->info.fingerprint];
    roles.Add(lost->info);
    for (size_t i = 0; i < JobNeeds::kClasses; ++i) {
      if (until[i] == 0 && roles.Serve(JobNeeds::OfClass(i))) until[i] = lost->until;
    }
  }
  return until;
}

WorkerRegistry ReturningWorkers::Everybody(const WorkerRegistry& registry) const {
  WorkerRegistry everybody;
  // A refused join means that the worker is counted already.
  for (const auto& [fingerprint, group] : registry.serving_groups()) {
    for (const Worker* worker : group) everybody.Join(worker->info, 0).IgnoreError();
  }
  for (const Lost& lost : lost_) {
    WorkerInfo info = lost.info;
    // It resumes nothing here: a process that was lost twice counts once as well.
    info.resumes = {};
    everybody.Join(info, 0).IgnoreError();
  }
  return everybody;
}

}  // namespace baton::router
