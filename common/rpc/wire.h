// Plain structs to and from the messages of baton/internal/v1. Everything that comes in is checked.
#ifndef BATON_COMMON_RPC_WIRE_H_
#define BATON_COMMON_RPC_WIRE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/block_report.h"
#include "common/clock.h"
#include "common/kv_origin.h"
#include "common/worker_job.h"

namespace baton::rpc {

// The largest duration or count that a worker may state, so that sums of them do not overflow: 13 days in nanoseconds,
// or a PiB.
inline constexpr int64_t kMaxStatedNumber = int64_t{1} << 50;

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// The 16 bytes of an id, most significant first; FromBytes fails with INVALID_ARGUMENT for another number of bytes.
std::string ToBytes(const Id128& id);
absl::StatusOr<Id128> FromBytes(const std::string& bytes);

void ToProto(const JobKey& key, internal::v1::JobKey* proto);
absl::StatusOr<JobKey> FromProto(const internal::v1::JobKey& proto);

void ToProto(const KvOrigin& origin, internal::v1::KvOrigin* proto);
absl::StatusOr<KvOrigin> FromProto(const internal::v1::KvOrigin& proto);

// `now` turns the deadline into what is left of it, and back on the receiver's clock.
void ToProto(const WorkerJob& job, TimeNs now, internal::v1::JobParams* proto);
absl::StatusOr<WorkerJob> FromProto(const internal::v1::JobParams& proto, TimeNs now);

void ToProto(const OutputToken& token, internal::v1::Token* proto);
// INVALID_ARGUMENT for an unknown finish, or log-probabilities that do not match their ids or exceed kMaxLogprobs.
absl::StatusOr<OutputToken> FromProto(const internal::v1::Token& proto);

// Adds what a worker says about its call number `call` to the list of its kind.
void AddReport(uint64_t call, const WorkerUpdate& update, internal::v1::WorkerMessage* proto);
void AddEnd(uint64_t call, const absl::Status& status, internal::v1::WorkerMessage* proto);
// As for Token.
absl::StatusOr<OutputToken> FromProto(const internal::v1::CallToken& proto);
// An update of kind kKvCommitted. INVALID_ARGUMENT for a number below zero or above kMaxStatedNumber.
absl::StatusOr<WorkerUpdate> FromProto(const internal::v1::CallCommitted& proto);
// An update of kind kFrozen. INVALID_ARGUMENT as for Token.
absl::StatusOr<WorkerUpdate> FromProto(const internal::v1::CallFrozen& proto);
// An update of kind kPrompt. INVALID_ARGUMENT for lists that do not belong together, or more than kMaxLogprobs likely
// tokens in a place.
absl::StatusOr<WorkerUpdate> FromProto(const internal::v1::CallPrompt& proto);
// An update of kind kFinished. INVALID_ARGUMENT as for CallCommitted.
absl::StatusOr<WorkerUpdate> FromProto(const internal::v1::CallFinished& proto);
// Sets `end` to how the call ended. INVALID_ARGUMENT for a code that no status has.
absl::Status FromProto(const internal::v1::CallEnded& proto, absl::Status& end);

void ToProto(const BlockReport& report, internal::v1::BlockReport* proto);
// INVALID_ARGUMENT for more than kMaxSequences holders, counts below zero, or a holder with more blocks of its own than
// blocks.
absl::StatusOr<BlockReport> FromProto(const internal::v1::BlockReport& proto);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_WIRE_H_
