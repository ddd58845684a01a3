// The prefill phase of a worker's process.
#ifndef BATON_PREFILL_WORKER_PREFILL_PHASE_H_
#define BATON_PREFILL_WORKER_PREFILL_PHASE_H_

#include <optional>
#include <string>

#include "prefill_worker/prefill_core.h"
#include "prefill_worker/prefill_service.h"
#include "worker/phase.h"

namespace baton::prefill_worker {

class PrefillPhase final : public worker::Phase {
 public:
  void AddTo(worker::WorkerCore& worker) override {
    core_.emplace(worker, streams_);
    service_.emplace(worker, *core_, streams_);
  }
  grpc::Service& service() override { return *service_; }
  std::string service_name() const override { return internal::v1::PrefillService::service_full_name(); }

 private:
  PrefillService::Streams streams_;
  std::optional<PrefillCore> core_;
  std::optional<PrefillService> service_;
};

}  // namespace baton::prefill_worker

#endif  // BATON_PREFILL_WORKER_PREFILL_PHASE_H_
