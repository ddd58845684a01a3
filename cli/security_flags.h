// The flags by which processes show who they are, and learn who others are.
#ifndef BATON_CLI_SECURITY_FLAGS_H_
#define BATON_CLI_SECURITY_FLAGS_H_

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "common/rpc/credentials.h"

namespace baton::cli {

// --tls-cert, --tls-key, --tls-ca: names of files. All empty: plain text.
struct TlsFlags {
  std::string cert;
  std::string key;
  std::string ca;

  bool is_on() const { return !cert.empty() || !key.empty() || !ca.empty(); }
};

// What a router asks of its clients.
struct ClientAccessFlags {
  std::string api_keys;
  std::string tls_client_auth = "optional";
};

// `flags` outlives `app`.
void AddTlsFlags(CLI::App& app, TlsFlags& flags);
void AddClientAccessFlags(CLI::App& app, ClientAccessFlags& flags);

// Null without TLS. `needed` are the roles that the process's certificate must carry. INVALID_ARGUMENT in one line.
absl::StatusOr<std::unique_ptr<rpc::Credentials>> LoadCredentials(const TlsFlags& flags, rpc::RoleSet needed);

}  // namespace baton::cli

#endif  // BATON_CLI_SECURITY_FLAGS_H_
