// The channel of a command that is a client of a running router.
#ifndef BATON_CLI_ROUTER_CHANNEL_H_
#define BATON_CLI_ROUTER_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "cli/security_flags.h"

namespace baton::cli {

// The environment variable that may hold an API key. A flag could not: everybody on a host sees the command lines
// there.
inline constexpr char kApiKeyVariable[] = "BATON_API_KEY";

struct TargetFlags {
  // host:port.
  std::string target;
  TlsFlags tls;
  // Empty: the host of `target`.
  std::string tls_server_name;
  std::string api_key_file;
};

// --target, --tls-*, --api-key-file. `flags` outlives `app`.
void AddTargetFlags(CLI::App& app, TargetFlags& flags);

// Connects at its first call, and sends the API key with each. INVALID_ARGUMENT in one line for files and keys that are
// wrong, and for a key without TLS.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const TargetFlags& flags);

}  // namespace baton::cli

#endif  // BATON_CLI_ROUTER_CHANNEL_H_
