#include "decode_worker/decode_service.h"

#include "common/status.h"
#include "worker/accept_call.h"

namespace baton::decode_worker {
namespace pb = internal::v1;

absl::StatusOr<std::pair<WorkerJob, DecodeSource>> DecodeService::Read(const pb::DecodeRequest& request) const {
  BATON_RETURN_IF_ERROR(rpc::CheckIncarnation(request.job().worker_incarnation(), worker_.options().incarnation));
  BATON_ASSIGN_OR_RETURN(WorkerJob job, rpc::FromProto(request.job(), worker_.clock().Now()));
  DecodeSource source{.local = request.local_prefill(), .prefill_target = request.prefill_target()};
  if (!source.local) {
    BATON_ASSIGN_OR_RETURN(source.prefill_incarnation, Id128::FromHex(request.prefill_incarnation()));
  }
  return std::pair(std::move(job), std::move(source));
}

grpc::ServerWriteReactor<pb::DecodeResponse>* DecodeService::Decode(grpc::CallbackServerContext*,
                                                                    const pb::DecodeRequest* request) {
  auto read = Read(*request);
  if (!read.ok()) return Streams::Refuse(read.status()).get();
  const JobKey key = read->first.key;
  return worker::AcceptCall(
      worker::CallTarget<DecodeCore, pb::DecodeResponse>{
          .phase = "decode", .worker = worker_, .core = core_, .streams = streams_},
      key, [this, read = *std::move(read)]() mutable { core_.OnDecode(std::move(read.first), read.second); });
}

}  // namespace baton::decode_worker
