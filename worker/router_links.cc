#include "worker/router_links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/log.h"
#include "common/log_limit.h"

namespace baton::worker {

std::unique_ptr<RouterLinks::Link> RouterLinks::MakeLink(const std::string& target, size_t place) {
  auto made = std::make_unique<Link>();
  Link& one = *made;
  one.target = target;
  RouterLink::Options options = options_;
  options.router_target = target;
  options.on_serving = [this, &one](bool serving) { OnServing(one, serving); };
  options.on_fault_told = [this, &one] { OnFaultTold(one); };
  one.link = std::make_unique<RouterLink>(std::move(options), calls_.Of(place));
  return made;
}

void RouterLinks::Follow(const std::vector<std::string>& targets) {
  for (const std::string& target : MarkWanted(targets)) {
    const std::optional<size_t> place = FreePlace();
    if (!place) {
      static LogLimit limit;
      if (const auto left_out = limit.Admit()) {
        spdlog::warn("the router at {} is left out: a worker has at most {} routers{}", target, calls_.routers(),
                     LeftOutNote(*left_out));
      }
      continue;
    }
    std::unique_ptr<Link> made = MakeLink(target, *place);
    absl::MutexLock lock(&mutex_);
    if (draining_) made->link->Drain();
    made->link->Start();
    links_[*place] = std::move(made);
  }
}

std::vector<std::string> RouterLinks::MarkWanted(const std::vector<std::string>& targets) {
  absl::MutexLock lock(&mutex_);
  named_ = targets;
  std::vector<std::string> missing = targets;
  for (const auto& one : links_) {
    if (one == nullptr) continue;
    const auto found = std::find(missing.begin(), missing.end(), one->target);
    one->wanted = found != missing.end();
    one->link->SetWanted(one->wanted);
    if (one->wanted) missing.erase(found);
  }
  return missing;
}

std::optional<size_t> RouterLinks::FreePlace() {
  std::unique_ptr<Link> former;
  size_t place = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto is_free = [](const auto& one) { return one == nullptr; };
    const auto is_idle = [](const auto& one) { return !one->wanted && !one->link->is_member(); };
    auto it = std::find_if(links_.begin(), links_.end(), is_free);
    if (it == links_.end()) it = std::find_if(links_.begin(), links_.end(), is_idle);
    if (it == links_.end()) return std::nullopt;
    place = static_cast<size_t>(it - links_.begin());
    former = std::move(*it);
  }
  if (former == nullptr) return place;
  // Its thread may tell of its end, which takes the lock.
  former->link->Stop();
  absl::MutexLock lock(&mutex_);
  former_joins_ += former->link->joins();
  return place;
}

void RouterLinks::Drain() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  for (const auto& one : links_) {
    if (one != nullptr) one->link->Drain();
  }
}

void RouterLinks::Stop() {
  std::vector<Link*> links;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& one : links_) {
      if (one != nullptr) links.push_back(one.get());
    }
  }
  for (Link* one : links) one->link->AskToStop();
  for (Link* one : links) one->link->Stop();
}

std::vector<size_t> RouterLinks::Members() const {
  absl::MutexLock lock(&mutex_);
  std::vector<size_t> members;
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i] != nullptr && links_[i]->link->is_member()) members.push_back(i);
  }
  return members;
}

int64_t RouterLinks::joins() const {
  absl::MutexLock lock(&mutex_);
  int64_t joins = former_joins_;
  for (const auto& one : links_) joins += one == nullptr ? 0 : one->link->joins();
  return joins;
}

std::string RouterLinks::Names() const {
  absl::MutexLock lock(&mutex_);
  return absl::StrJoin(named_, " or ");
}

// The owner is told under the mutex, so that it hears of changes in their order.
void RouterLinks::OnServing(Link& link, bool serving) {
  absl::MutexLock lock(&mutex_);
  if (link.serving == serving) return;
  link.serving = serving;
  const int before = std::exchange(serving_links_, serving_links_ + (serving ? 1 : -1));
  if ((before > 0) != (serving_links_ > 0)) options_.on_serving(serving);
}

void RouterLinks::OnFaultTold(Link& link) {
  absl::MutexLock lock(&mutex_);
  link.told_fault = true;
  const bool all_know = std::all_of(links_.begin(), links_.end(), [](const auto& one) {
    return one == nullptr || one->told_fault || !one->link->is_member();
  });
  if (all_know) options_.on_fault_told();
}

}  // namespace baton::worker
