// baton.internal.v1.PrefillService: gRPC to the loop's events and back.
#ifndef BATON_PREFILL_WORKER_PREFILL_SERVICE_H_
#define BATON_PREFILL_WORKER_PREFILL_SERVICE_H_

#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/clock.h"
#include "engine/engine_loop.h"
#include "prefill_worker/prefill_core.h"
#include "worker/update_streams.h"

namespace baton::prefill_worker {

// Thread-safe. The core is only touched on the loop.
class PrefillService final : public internal::v1::PrefillService::CallbackService {
 public:
  using Streams = worker::UpdateStreams<internal::v1::PrefillResponse>;

  // All references outlive the service; `streams` is the core's UpdateSink.
  PrefillService(const Incarnation& incarnation, const Clock& clock, engine::EngineLoop& loop, PrefillCore& core,
                 Streams& streams)
      : incarnation_(incarnation), clock_(clock), loop_(loop), core_(core), streams_(streams) {}

  grpc::ServerWriteReactor<internal::v1::PrefillResponse>* Prefill(
      grpc::CallbackServerContext* context, const internal::v1::PrefillRequest* request) override;

 private:
  absl::StatusOr<WorkerJob> Read(const internal::v1::PrefillRequest& request) const;

  const Incarnation incarnation_;
  const Clock& clock_;
  engine::EngineLoop& loop_;
  PrefillCore& core_;
  Streams& streams_;
};

// What a FetchService in front of the core does with its streams: to the loop, from gRPC's threads.
void PostFetchRequest(engine::EngineLoop& loop, PrefillCore& core, kvtransfer::FetchStreamId stream,
                      const kvtransfer::FetchRequest& request);
void PostFetchClosed(engine::EngineLoop& loop, PrefillCore& core, kvtransfer::FetchStreamId stream);

}  // namespace baton::prefill_worker

#endif  // BATON_PREFILL_WORKER_PREFILL_SERVICE_H_
