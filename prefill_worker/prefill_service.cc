#include "prefill_worker/prefill_service.h"

#include <utility>

#include "common/status.h"
#include "worker/accept_call.h"

namespace baton::prefill_worker {
namespace pb = internal::v1;

absl::StatusOr<WorkerJob> PrefillService::Read(const pb::PrefillRequest& request) const {
  BATON_RETURN_IF_ERROR(rpc::CheckIncarnation(request.job().worker_incarnation(), worker_.options().incarnation));
  return rpc::FromProto(request.job(), worker_.clock().Now());
}

grpc::ServerWriteReactor<pb::PrefillResponse>* PrefillService::Prefill(grpc::CallbackServerContext*,
                                                                       const pb::PrefillRequest* request) {
  absl::StatusOr<WorkerJob> job = Read(*request);
  if (!job.ok()) return Streams::Refuse(job.status()).get();
  const JobKey key = job->key;
  return worker::AcceptCall(
      worker::CallTarget<PrefillCore, pb::PrefillResponse>{
          .phase = "prefill", .worker = worker_, .core = core_, .streams = streams_},
      key, [this, job = *std::move(job), solo = request->solo()]() mutable { core_.OnPrefill(std::move(job), solo); });
}

}  // namespace baton::prefill_worker
