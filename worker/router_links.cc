#include "worker/router_links.h"

#include <algorithm>
#include <utility>

namespace baton::worker {

RouterLinks::RouterLinks(const std::vector<std::string>& targets, RouterLink::Options link, WorkerCalls& calls)
    : options_(std::move(link)) {
  for (const std::string& target : targets) {
    Link& one = *links_.emplace_back(std::make_unique<Link>());
    RouterLink::Options options = options_;
    options.router_target = target;
    options.on_serving = [this, &one](bool serving) { OnServing(one, serving); };
    options.on_fault_told = [this, &one] { OnFaultTold(one); };
    one.link = std::make_unique<RouterLink>(std::move(options), calls.Of(links_.size() - 1));
  }
}

void RouterLinks::Start() {
  for (const auto& one : links_) one->link->Start();
}

void RouterLinks::Drain() {
  for (const auto& one : links_) one->link->Drain();
}

void RouterLinks::Stop() {
  for (const auto& one : links_) one->link->AskToStop();
  for (const auto& one : links_) one->link->Stop();
}

std::vector<size_t> RouterLinks::Members() const {
  std::vector<size_t> members;
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i]->link->is_member()) members.push_back(i);
  }
  return members;
}

int64_t RouterLinks::joins() const {
  int64_t joins = 0;
  for (const auto& one : links_) joins += one->link->joins();
  return joins;
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
  const bool all_know = std::all_of(links_.begin(), links_.end(),
                                    [](const auto& one) { return one->told_fault || !one->link->is_member(); });
  if (all_know) options_.on_fault_told();
}

}  // namespace baton::worker
