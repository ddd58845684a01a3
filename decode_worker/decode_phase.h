// The decode phase of a worker's process.
#ifndef BATON_DECODE_WORKER_DECODE_PHASE_H_
#define BATON_DECODE_WORKER_DECODE_PHASE_H_

#include <optional>
#include <string>

#include "decode_worker/decode_core.h"
#include "decode_worker/decode_service.h"
#include "worker/phase.h"

namespace baton::decode_worker {

class DecodePhase final : public worker::Phase {
 public:
  explicit DecodePhase(const DecodeOptions& options) : options_(options) {}

  void AddTo(worker::WorkerCore& worker) override {
    core_.emplace(options_, worker, streams_);
    service_.emplace(worker, *core_, streams_);
  }
  grpc::Service& service() override { return *service_; }
  std::string service_name() const override { return internal::v1::DecodeService::service_full_name(); }

 private:
  const DecodeOptions options_;
  DecodeService::Streams streams_;
  std::optional<DecodeCore> core_;
  std::optional<DecodeService> service_;
};

}  // namespace baton::decode_worker

#endif  // BATON_DECODE_WORKER_DECODE_PHASE_H_
