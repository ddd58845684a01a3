// When an error says that its call may come again.
#ifndef BATON_COMMON_RPC_RETRY_DELAY_H_
#define BATON_COMMON_RPC_RETRY_DELAY_H_

#include <cstdint>
#include <optional>

#include "google/rpc/status.pb.h"

namespace baton::rpc {

// The delay of the status's RetryInfo (google/rpc/error_details.proto) in milliseconds, whoever wrote it: never
// negative. Empty without a RetryInfo.
std::optional<int64_t> RetryDelayMs(const google::rpc::Status& status);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_RETRY_DELAY_H_
