// Fetch messages to and from baton/internal/v1/kv.proto. Everything that comes in is checked for form; what it means is
// the state machines' business.
#ifndef BATON_KVTRANSFER_RPC_FETCH_WIRE_H_
#define BATON_KVTRANSFER_RPC_FETCH_WIRE_H_

#include "absl/status/statusor.h"
#include "baton/internal/v1/kv.pb.h"
#include "kvtransfer/fetch_messages.h"

namespace baton::kvtransfer {

internal::v1::FetchRequest ToProto(const FetchRequest& request);
absl::StatusOr<FetchRequest> FromProto(const internal::v1::FetchRequest& proto);

internal::v1::FetchResponse ToProto(const FetchReply& reply);
absl::StatusOr<FetchReply> FromProto(const internal::v1::FetchResponse& proto);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_RPC_FETCH_WIRE_H_
