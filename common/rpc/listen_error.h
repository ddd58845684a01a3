// Why a server cannot listen, which the libraries that listen do not say.
#ifndef BATON_COMMON_RPC_LISTEN_ERROR_H_
#define BATON_COMMON_RPC_LISTEN_ERROR_H_

#include <string>

#include "absl/status/status.h"

namespace baton::rpc {

// Tries the address once more and names what is wrong: the host of `bind_flag`, or the port of `port_flag`.
absl::Status ExplainListenError(const std::string& bind, int port, const std::string& port_flag,
                                const std::string& bind_flag = "--bind");

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_LISTEN_ERROR_H_
