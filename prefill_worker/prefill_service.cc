#include "prefill_worker/prefill_service.h"

#include <utility>

#include "common/log.h"
#include "common/status.h"

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
  bool opened = false;
  auto stream = streams_.Open(
      key,
      [this, key] {
        const bool posted =
            worker_.loop().Post([this, key] { core_.OnCancel(key, absl::CancelledError("the router cancelled")); });
        if (!posted) spdlog::warn("the prefill loop takes no more events: a cancellation waits for its deadline");
      },
      opened);
  if (!opened) return stream.get();
  const bool posted = worker_.loop().Post(
      [this, job = *std::move(job), solo = request->solo()]() mutable { core_.OnPrefill(std::move(job), solo); });
  if (!posted) streams_.End(key, absl::ResourceExhaustedError("the prefill worker is overloaded"));
  return stream.get();
}

}  // namespace baton::prefill_worker
