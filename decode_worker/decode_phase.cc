#include "decode_worker/decode_phase.h"

#include <utility>

#include "common/rpc/wire.h"
#include "common/status.h"

namespace baton::decode_worker {

absl::StatusOr<DecodeSource> SourceOf(const internal::v1::DecodeStart& decode) {
  DecodeSource source{.local = decode.local_prefill(), .prefill_target = decode.prefill_target()};
  if (!source.local) {
    BATON_ASSIGN_OR_RETURN(source.prefill_incarnation, rpc::FromBytes(decode.prefill_incarnation()));
    for (const internal::v1::KvOrigin& proto : decode.earlier()) {
      BATON_ASSIGN_OR_RETURN(KvOrigin origin, rpc::FromProto(proto));
      source.earlier.push_back(std::move(origin));
    }
  }
  return source;
}

absl::Status DecodePhase::Start(WorkerJob job, const internal::v1::CallStart& start) {
  BATON_ASSIGN_OR_RETURN(const DecodeSource source, SourceOf(start.decode()));
  core_->OnDecode(std::move(job), source);
  return absl::OkStatus();
}

}  // namespace baton::decode_worker
