#include "router/refused_workers.h"

#include <algorithm>
#include <utility>

#include "common/limits.h"

namespace baton::router {
namespace {

bool IsGone(const RefusedWorker& refused, TimeNs now) {
  return After(refused.asked_at, RefusedWorkers::kGoneMs) <= now;
}

}  // namespace

bool RefusedWorkers::Add(RefusedWorker refused) {
  const auto before = by_target_.find(refused.target);
  if (before != by_target_.end()) {
    const bool is_news = before->second.why != refused.why || IsGone(before->second, refused.asked_at);
    before->second = std::move(refused);
    return is_news;
  }
  if (by_target_.size() >= static_cast<size_t>(kMaxWorkers)) {
    by_target_.erase(std::min_element(by_target_.begin(), by_target_.end(), [](const auto& a, const auto& b) {
      return a.second.asked_at < b.second.asked_at;
    }));
  }
  std::string target = refused.target;
  by_target_.emplace(std::move(target), std::move(refused));
  return true;
}

std::vector<RefusedWorker> RefusedWorkers::Present(TimeNs now) const {
  std::vector<RefusedWorker> present;
  for (const auto& [target, refused] : by_target_) {
    if (!IsGone(refused, now)) present.push_back(refused);
  }
  return present;
}

}  // namespace baton::router
