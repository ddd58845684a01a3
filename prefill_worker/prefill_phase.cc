#include "prefill_worker/prefill_phase.h"

#include <utility>

namespace baton::prefill_worker {

absl::Status PrefillPhase::Start(WorkerJob job, const internal::v1::CallStart& start) {
  core_->OnPrefill(std::move(job), start.prefill().solo());
  return absl::OkStatus();
}

}  // namespace baton::prefill_worker
