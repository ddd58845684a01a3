// Errors as clients see them: a gRPC status with google.rpc details.
#ifndef BATON_ROUTER_ERROR_DETAILS_H_
#define BATON_ROUTER_ERROR_DETAILS_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace baton::router {

// INVALID_ARGUMENT with BadRequest: `field` is the path in the request, such as "sampling.top_p".
grpc::Status FieldViolation(std::string_view field, std::string_view description);

// Any status; RESOURCE_EXHAUSTED carries RetryInfo.
grpc::Status ToClientStatus(const absl::Status& status);

}  // namespace baton::router

#endif  // BATON_ROUTER_ERROR_DETAILS_H_
