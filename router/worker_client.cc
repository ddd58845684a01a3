#include "router/worker_client.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/wire.h"

namespace baton::router {
namespace pb = internal::v1;
namespace {

void FillJob(const JobSpec& job, const JobKey& key, const WorkerId& worker, TimeNs now, pb::JobParams* proto) {
  rpc::ToProto({.key = key,
                .prompt = job.prompt,
                .sampling = job.sampling,
                .tenant = job.tenant,
                .deadline = job.deadline,
                .want_kv_digest = job.want_kv_digest},
               now, proto);
  proto->set_worker_incarnation(worker.ToHex());
}

}  // namespace

WorkerClient::~WorkerClient() {
  absl::MutexLock lock(&mutex_);
  for (auto& [key, cancel] : calls_) cancel();
  mutex_.Await(absl::Condition(this, &WorkerClient::Idle));
}

template <typename Request, typename Response, typename StartCall>
void WorkerClient::Launch(const CallKey& key, Request request, StartCall start) {
  // The lock is held while the call starts, because the call may end at once and OnDone must find its entry.
  absl::MutexLock lock(&mutex_);
  auto call = rpc::ClientStream<Request, Response>::Create(
      std::move(request), std::move(start),
      {.on_message =
           [this, key](const Response& response) {
             absl::StatusOr<WorkerUpdate> update = rpc::FromProto(response.update());
             if (!update.ok()) return;
             loop_.PostWhenRoom([key, update = *std::move(update)](Dispatcher& dispatcher) {
               dispatcher.OnWorkerUpdate(key.first, key.second, update);
             });
           },
       .on_done = [this, key](const grpc::Status& status) { OnDone(key, rpc::FromGrpc(status)); }});
  calls_[key] = [call] { call->Cancel(); };
}

void WorkerClient::OnDone(const CallKey& key, const absl::Status& status) {
  loop_.PostWhenRoom([key, status](Dispatcher& dispatcher) { dispatcher.OnWorkerEnd(key.first, key.second, status); });
  absl::MutexLock lock(&mutex_);
  calls_.erase(key);
}

void WorkerClient::Start(const StartPrefill& start) {
  pb::PrefillRequest request;
  FillJob(*start.job, start.key, start.worker, clock_.Now(), request.mutable_job());
  request.set_solo(start.solo);
  auto stub = std::make_shared<pb::PrefillService::Stub>(channels_.Get(start.target));
  Launch<pb::PrefillRequest, pb::PrefillResponse>(
      {Side::kPrefill, start.key}, std::move(request),
      [stub](auto* context, const auto* message, auto* reactor) { stub->async()->Prefill(context, message, reactor); });
}

void WorkerClient::Start(const StartDecode& start) {
  pb::DecodeRequest request;
  FillJob(*start.job, start.key, start.worker, clock_.Now(), request.mutable_job());
  request.set_local_prefill(start.local_prefill);
  request.set_prefill_target(start.prefill_target);
  request.set_prefill_incarnation(start.prefill_worker.ToHex());
  auto stub = std::make_shared<pb::DecodeService::Stub>(channels_.Get(start.target));
  Launch<pb::DecodeRequest, pb::DecodeResponse>(
      {Side::kDecode, start.key}, std::move(request),
      [stub](auto* context, const auto* message, auto* reactor) { stub->async()->Decode(context, message, reactor); });
}

void WorkerClient::Cancel(const CancelAttempt& cancel) {
  absl::MutexLock lock(&mutex_);
  if (const auto it = calls_.find({cancel.side, cancel.key}); it != calls_.end()) it->second();
}

}  // namespace baton::router
