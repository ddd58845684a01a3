// The prefill phase of a worker's process.
#ifndef BATON_PREFILL_WORKER_PREFILL_PHASE_H_
#define BATON_PREFILL_WORKER_PREFILL_PHASE_H_

#include <optional>

#include "prefill_worker/prefill_core.h"
#include "worker/phase.h"

namespace baton::prefill_worker {

class PrefillPhase final : public worker::Phase {
 public:
  void AddTo(worker::WorkerCore& worker, UpdateSink& updates) override { core_.emplace(worker, updates); }
  internal::v1::CallStart::SideCase side() const override { return internal::v1::CallStart::kPrefill; }
  absl::Status Start(WorkerJob job, const internal::v1::CallStart& start) override;
  void Cancel(const JobKey& key, const absl::Status& why) override { core_->OnCancel(key, why); }

 private:
  std::optional<PrefillCore> core_;
};

}  // namespace baton::prefill_worker

#endif  // BATON_PREFILL_WORKER_PREFILL_PHASE_H_
