// baton.internal.v1.DecodeService: gRPC to the loop's events and back.
#ifndef BATON_DECODE_WORKER_DECODE_SERVICE_H_
#define BATON_DECODE_WORKER_DECODE_SERVICE_H_

#include <utility>

#include "baton/internal/v1/worker.grpc.pb.h"
#include "decode_worker/decode_core.h"
#include "worker/update_streams.h"
#include "worker/worker_core.h"

namespace baton::decode_worker {

// Thread-safe. The core is only touched on the loop.
class DecodeService final : public internal::v1::DecodeService::CallbackService {
 public:
  using Streams = worker::UpdateStreams<internal::v1::DecodeResponse>;

  // All references outlive the service; `streams` is the core's UpdateSink.
  DecodeService(worker::WorkerCore& worker, DecodeCore& core, Streams& streams)
      : worker_(worker), core_(core), streams_(streams) {}

  grpc::ServerWriteReactor<internal::v1::DecodeResponse>* Decode(grpc::CallbackServerContext* context,
                                                                 const internal::v1::DecodeRequest* request) override;

 private:
  absl::StatusOr<std::pair<WorkerJob, DecodeSource>> Read(const internal::v1::DecodeRequest& request) const;

  worker::WorkerCore& worker_;
  DecodeCore& core_;
  Streams& streams_;
};

}  // namespace baton::decode_worker

#endif  // BATON_DECODE_WORKER_DECODE_SERVICE_H_
