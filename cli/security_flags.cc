#include "cli/security_flags.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::cli {

void AddTlsFlags(CLI::App& app, TlsFlags& flags) {
  app.add_option("--tls-cert", flags.cert, "PEM file of this process's certificate, whose URIs are its roles")
      ->type_name("FILE");
  app.add_option("--tls-key", flags.key, "PEM file of the certificate's private key")->type_name("FILE");
  app.add_option("--tls-ca", flags.ca, "PEM file of the authorities whose certificates count")->type_name("FILE");
}

void AddClientAccessFlags(CLI::App& app, ClientAccessFlags& flags) {
  app.add_option("--api-keys", flags.api_keys,
                 "file of hashes of API keys: clients need a key, which names their tenant")
      ->type_name("FILE");
  app.add_option("--tls-client-auth", flags.tls_client_auth,
                 "with TLS: whether clients must show a certificate of the role client or operator")
      ->check(CLI::IsMember({"optional", "require"}))
      ->capture_default_str();
}

absl::StatusOr<std::unique_ptr<rpc::Credentials>> LoadCredentials(const TlsFlags& flags, rpc::RoleSet needed) {
  if (!flags.is_on()) return std::unique_ptr<rpc::Credentials>();
  for (const auto& [name, value] :
       {std::pair("--tls-cert", &flags.cert), std::pair("--tls-key", &flags.key), std::pair("--tls-ca", &flags.ca)}) {
    if (value->empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is missing: --tls-cert, --tls-key and --tls-ca belong together"));
    }
  }
  return rpc::Credentials::Create({.cert = flags.cert, .key = flags.key, .ca = flags.ca}, needed);
}

}  // namespace baton::cli
