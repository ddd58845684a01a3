// Converts the messages of baton.v1.GenerationService to and from the types of generation.h.
#ifndef BATON_ROUTER_GENERATION_WIRE_H_
#define BATON_ROUTER_GENERATION_WIRE_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/generation.pb.h"
#include "router/generation.h"

namespace baton::router {

// These take the strings out of the message. The request's id, times and trace context are not on the wire.
GenerationRequest FromProto(v1::GenerateRequest&& proto);
ChatPrompt FromProto(v1::ChatPrompt&& proto);
// INVALID_ARGUMENT for what is no job's id.
absl::StatusOr<ResumeRequest> FromProto(const v1::ResumeRequest& proto);
// The request's text.
TextPrompt TakeText(v1::TokenizeRequest& proto);

v1::GenerateResponse ToProto(const GenerationAccepted& accepted);
// Replaces what `output` held.
void ToProto(const GenerationDelta& delta, v1::Output* output);
v1::GenerateResponse ToProto(const GenerationFinished& finished);

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);
// The GenerateResponse of a delta. It is made for every token: a message of the thread is used anew each time.
grpc::ByteBuffer Serialize(const GenerationDelta& delta);

// The details of error_details.h become google.rpc's: BadRequest and RetryInfo.
grpc::Status ToClientStatus(const absl::Status& status);
// Says in the call's trailers what RetryInfo says in the status, for clients whose retries are gRPC's own
// (`grpc-retry-pushback-ms`, gRFC A6). Comes before the call's end.
void AddRetryPushback(const grpc::Status& status, grpc::ServerContextBase& context);

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATION_WIRE_H_
