#include "worker/shared_phase.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::worker {

class SharedPhase::View final : public Phase {
 public:
  View(SharedPhase& shared, size_t router) : shared_(shared), router_(router) {}

  // The phase itself has been added.
  void AddTo(WorkerCore& /*worker*/, UpdateSink& /*updates*/) override {}
  internal::v1::CallStart::SideCase side() const override { return shared_.phase_.side(); }
  absl::Status Start(WorkerJob job, const internal::v1::CallStart& start) override {
    return shared_.Start(router_, std::move(job), start);
  }
  void Cancel(const JobKey& key, const absl::Status& why) override { shared_.phase_.Cancel(key, why); }
  void Begin(const JobKey& key, const HandOver& hand_over) override { shared_.phase_.Begin(key, hand_over); }

  // The router's end of its calls.
  UpdateSink* sink = nullptr;

 private:
  SharedPhase& shared_;
  const size_t router_;
};

SharedPhase::SharedPhase(Phase& phase) : phase_(phase) {}
SharedPhase::~SharedPhase() = default;

void SharedPhase::AddRouter(RouterCalls& calls) {
  views_.push_back(std::make_unique<View>(*this, views_.size()));
  views_.back()->sink = &calls.Add(*views_.back());
}

std::optional<size_t> SharedPhase::RouterOf(const JobKey& key) const {
  const auto it = owners_.find(key);
  if (it == owners_.end()) return std::nullopt;
  return it->second.router;
}

void SharedPhase::KeepOnly(const absl::flat_hash_set<JobKey>& holders) {
  absl::erase_if(owners_,
                 [&holders](const auto& owner) { return !owner.second.open && !holders.contains(owner.first); });
}

absl::Status SharedPhase::Start(size_t router, WorkerJob job, const internal::v1::CallStart& start) {
  const JobKey key = job.key;
  const auto [it, is_new] = owners_.try_emplace(key, Owner{.router = router});
  if (it->second.open || it->second.router != router) {
    return absl::AlreadyExistsError(absl::StrCat("attempt ", key.ToString(), " of another call"));
  }
  it->second.open = true;
  absl::Status started = phase_.Start(std::move(job), start);
  if (!started.ok()) owners_.at(key).open = false;
  return started;
}

void SharedPhase::Update(const JobKey& key, const WorkerUpdate& update) {
  // A lone router's tokens are looked up once, by its calls.
  if (views_.size() == 1) return views_.front()->sink->Update(key, update);
  const auto it = owners_.find(key);
  if (it != owners_.end()) views_[it->second.router]->sink->Update(key, update);
}

void SharedPhase::End(const JobKey& key, const absl::Status& status) {
  const auto it = owners_.find(key);
  if (it == owners_.end()) return;
  it->second.open = false;
  views_[it->second.router]->sink->End(key, status);
}

}  // namespace baton::worker
