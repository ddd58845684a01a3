// Plain structs to and from the messages of baton/internal/v1. Everything that comes in is checked.
#ifndef BATON_COMMON_RPC_WIRE_H_
#define BATON_COMMON_RPC_WIRE_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/clock.h"
#include "common/worker_job.h"

namespace baton::rpc {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

void ToProto(const JobKey& key, internal::v1::JobKey* proto);
absl::StatusOr<JobKey> FromProto(const internal::v1::JobKey& proto);

// `now` turns the deadline into what is left of it, and back on the receiver's clock.
void ToProto(const WorkerJob& job, TimeNs now, internal::v1::JobParams* proto);
absl::StatusOr<WorkerJob> FromProto(const internal::v1::JobParams& proto, TimeNs now);

void ToProto(const OutputToken& token, internal::v1::Token* proto);
// INVALID_ARGUMENT for an unknown finish, or log-probabilities that do not match their ids or exceed kMaxLogprobs.
absl::StatusOr<OutputToken> FromProto(const internal::v1::Token& proto);

void ToProto(const WorkerUpdate& update, internal::v1::WorkerUpdate* proto);
absl::StatusOr<WorkerUpdate> FromProto(const internal::v1::WorkerUpdate& proto);

// FAILED_PRECONDITION unless `stated` is this process's incarnation.
absl::Status CheckIncarnation(const std::string& stated, const Incarnation& own);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_WIRE_H_
