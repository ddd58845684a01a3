#include "worker/shared_phase.h"

#include <utility>

#include "common/status.h"

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

absl::Status SharedPhase::Start(size_t router, WorkerJob job, const internal::v1::CallStart& start) {
  const JobKey key = job.key;
  BATON_RETURN_IF_ERROR(owners_.Begin(key, router));
  absl::Status started = phase_.Start(std::move(job), start);
  if (!started.ok()) owners_.End(key);
  return started;
}

void SharedPhase::Update(const JobKey& key, const WorkerUpdate& update) {
  // A lone router's tokens are looked up once, by its calls.
  if (views_.size() == 1) return views_.front()->sink->Update(key, update);
  const std::optional<size_t> router = owners_.RouterOf(key);
  if (router.has_value()) views_[*router]->sink->Update(key, update);
}

void SharedPhase::End(const JobKey& key, const absl::Status& status) {
  const std::optional<size_t> router = owners_.RouterOf(key);
  if (!router.has_value()) return;
  owners_.End(key);
  views_[*router]->sink->End(key, status);
}

}  // namespace baton::worker
