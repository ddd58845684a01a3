#include "prefill_worker/prefill_service.h"

#include <utility>
#include <variant>

#include "common/log.h"
#include "common/status.h"

namespace baton::prefill_worker {
namespace pb = internal::v1;
namespace {

void Deliver(PrefillCore& core, kvtransfer::FetchStreamId stream, const kvtransfer::FetchRequest& request) {
  if (const auto* open = std::get_if<kvtransfer::FetchOpen>(&request)) return core.OnFetchOpen(stream, *open);
  if (const auto* renew = std::get_if<kvtransfer::FetchRenew>(&request)) return core.OnFetchRenew(stream, *renew);
  core.OnFetchRelease(stream);
}

// A lost Fetch event is safe: the lease runs out.
void PostOrWarn(engine::EngineLoop& loop, engine::EngineLoop::Task task) {
  if (!loop.Post(std::move(task))) spdlog::warn("the prefill loop takes no more events: a Fetch event is dropped");
}

}  // namespace

absl::StatusOr<WorkerJob> PrefillService::Read(const pb::PrefillRequest& request) const {
  BATON_RETURN_IF_ERROR(rpc::CheckIncarnation(request.job().worker_incarnation(), incarnation_));
  return rpc::FromProto(request.job(), clock_.Now());
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
        PostOrWarn(loop_, [this, key] { core_.OnCancel(key, absl::CancelledError("the router cancelled")); });
      },
      opened);
  if (!opened) return stream.get();
  const bool posted = loop_.Post(
      [this, job = *std::move(job), solo = request->solo()]() mutable { core_.OnPrefill(std::move(job), solo); });
  if (!posted) streams_.End(key, absl::ResourceExhaustedError("the prefill worker is overloaded"));
  return stream.get();
}

void PostFetchRequest(engine::EngineLoop& loop, PrefillCore& core, kvtransfer::FetchStreamId stream,
                      const kvtransfer::FetchRequest& request) {
  PostOrWarn(loop, [&core, stream, request] { Deliver(core, stream, request); });
}

void PostFetchClosed(engine::EngineLoop& loop, PrefillCore& core, kvtransfer::FetchStreamId stream) {
  PostOrWarn(loop, [&core, stream] { core.OnFetchClosed(stream); });
}

}  // namespace baton::prefill_worker
