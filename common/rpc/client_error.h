// How a call of ours failed, in words for its user.
#ifndef BATON_COMMON_RPC_CLIENT_ERROR_H_
#define BATON_COMMON_RPC_CLIENT_ERROR_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/status/status.h"

namespace baton::rpc {

// What matters of gRPC's words for a connection that did not come up, such as "Connection refused".
std::string ConnectionTrouble(const std::string& message);

// What happened, where, and what to do. `status`, an error, is how a call of `context` to the router at `target` has
// ended. Tells a router that answered from a place where nobody or somebody else did.
absl::Status ExplainRouterError(const grpc::ClientContext& context, const grpc::Status& status,
                                const std::string& target);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_CLIENT_ERROR_H_
