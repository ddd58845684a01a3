// baton.internal.v1.PrefillService: gRPC to the loop's events and back.
#ifndef BATON_PREFILL_WORKER_PREFILL_SERVICE_H_
#define BATON_PREFILL_WORKER_PREFILL_SERVICE_H_

#include "baton/internal/v1/worker.grpc.pb.h"
#include "prefill_worker/prefill_core.h"
#include "worker/update_streams.h"
#include "worker/worker_core.h"

namespace baton::prefill_worker {

// Thread-safe. The core is only touched on the loop.
class PrefillService final : public internal::v1::PrefillService::CallbackService {
 public:
  using Streams = worker::UpdateStreams<internal::v1::PrefillResponse>;

  // All references outlive the service; `streams` is the core's UpdateSink.
  PrefillService(worker::WorkerCore& worker, PrefillCore& core, Streams& streams)
      : worker_(worker), core_(core), streams_(streams) {}

  grpc::ServerWriteReactor<internal::v1::PrefillResponse>* Prefill(
      grpc::CallbackServerContext* context, const internal::v1::PrefillRequest* request) override;

 private:
  absl::StatusOr<WorkerJob> Read(const internal::v1::PrefillRequest& request) const;

  worker::WorkerCore& worker_;
  PrefillCore& core_;
  Streams& streams_;
};

}  // namespace baton::prefill_worker

#endif  // BATON_PREFILL_WORKER_PREFILL_SERVICE_H_
