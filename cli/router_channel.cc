#include "cli/router_channel.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "common/limits.h"
#include "common/rpc/channel_cache.h"
#include "common/secret_file.h"
#include "common/status.h"

namespace baton::cli {
namespace {

absl::StatusOr<std::string> ReadApiKey(const TargetFlags& flags) {
  std::string key;
  std::string where = kApiKeyVariable;
  if (!flags.api_key_file.empty()) {
    const SecretFile file = {.flag = "--api-key-file", .path = flags.api_key_file, .is_private = true};
    BATON_ASSIGN_OR_RETURN(key, ReadSecretFile(file));
    where = absl::StrCat(file.flag, " ", file.path);
  } else if (const char* const value = std::getenv(kApiKeyVariable); value != nullptr) {
    key = value;
  } else {
    return key;
  }
  absl::StripAsciiWhitespace(&key);
  const bool is_key =
      !key.empty() && key.size() <= kMaxApiKeyBytes && std::all_of(key.begin(), key.end(), absl::ascii_isgraph);
  if (is_key) return key;
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": expected one API key, of 1 to ", kMaxApiKeyBytes, " characters without spaces"));
}

}  // namespace

void AddTargetFlags(CLI::App& app, TargetFlags& flags) {
  flags.target = "127.0.0.1:" + std::to_string(kDefaultGrpcPort);
  app.add_option("--target", flags.target, "HOST:PORT of the router")->capture_default_str();
  AddTlsFlags(app, flags.tls);
  app.add_option("--tls-server-name", flags.tls_server_name,
                 "the name that the router's certificate has, where that is not the host of --target");
  app.add_option("--api-key-file", flags.api_key_file, "file with the API key [what BATON_API_KEY says]")
      ->type_name("FILE");
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const TargetFlags& flags) {
  if (flags.tls.cert.empty() != flags.tls.key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key belong together");
  }
  if (flags.tls.ca.empty() && (flags.tls.is_on() || !flags.tls_server_name.empty())) {
    return absl::InvalidArgumentError(
        "--tls-ca is missing: TLS needs the authority that issued the router's certificate");
  }
  rpc::ClientCredentialsOptions options;
  options.files = {.cert = flags.tls.cert, .key = flags.tls.key, .ca = flags.tls.ca};
  BATON_ASSIGN_OR_RETURN(options.api_key, ReadApiKey(flags));
  BATON_ASSIGN_OR_RETURN(const auto credentials, rpc::MakeClientCredentials(options));
  grpc::ChannelArguments arguments = rpc::ClientChannelArguments();
  if (!flags.tls_server_name.empty()) arguments.SetSslTargetNameOverride(flags.tls_server_name);
  return grpc::CreateCustomChannel(flags.target, credentials, arguments);
}

}  // namespace baton::cli
