// The decode phase of a worker's process.
#ifndef BATON_DECODE_WORKER_DECODE_PHASE_H_
#define BATON_DECODE_WORKER_DECODE_PHASE_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/internal/v1/worker.pb.h"
#include "decode_worker/decode_core.h"
#include "worker/phase.h"

namespace baton::decode_worker {

// Where the router says that a job's KV comes from. INVALID_ARGUMENT for an incarnation that has not its 16 bytes.
absl::StatusOr<DecodeSource> SourceOf(const internal::v1::DecodeStart& decode);

class DecodePhase final : public worker::Phase {
 public:
  explicit DecodePhase(const DecodeOptions& options) : options_(options) {}

  void AddTo(worker::WorkerCore& worker, UpdateSink& updates) override { core_.emplace(options_, worker, updates); }
  internal::v1::CallStart::SideCase side() const override { return internal::v1::CallStart::kDecode; }
  absl::Status Start(WorkerJob job, const internal::v1::CallStart& start) override;
  void Cancel(const JobKey& key, const absl::Status& why) override { core_->OnCancel(key, why); }
  void Begin(const JobKey& key, const HandOver& hand_over) override { core_->OnHandOver(key, hand_over); }

 private:
  const DecodeOptions options_;
  std::optional<DecodeCore> core_;
};

}  // namespace baton::decode_worker

#endif  // BATON_DECODE_WORKER_DECODE_PHASE_H_
