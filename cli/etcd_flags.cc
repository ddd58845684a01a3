#include "cli/etcd_flags.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "common/rpc/certificates.h"
#include "common/secret_file.h"
#include "common/status.h"
#include "telemetry/metrics.h"

namespace baton::cli {
namespace {

// A key of the fleet is the prefix, a slash and more.
CLI::Validator EtcdPrefix() {
  return CLI::Validator(
      [](std::string& text) {
        const bool is_prefix = text.size() > 1 && absl::StartsWith(text, "/") && !absl::EndsWith(text, "/");
        return is_prefix ? std::string()
                         : absl::StrCat("not a prefix such as /baton, without a slash at its end: ", text);
      },
      "/NAME");
}

absl::StatusOr<std::string> ReadCertificatePem(const SecretFile& file) {
  BATON_ASSIGN_OR_RETURN(std::string pem, ReadSecretFile(file));
  if (!rpc::ReadCertificates(pem).empty()) return pem;
  return absl::InvalidArgumentError(absl::StrCat(file.Prefix(), "expected certificates in PEM"));
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ReadCredentials(const EtcdFlags& flags) {
  if (flags.ca.empty()) {
    if (flags.cert.empty() && flags.key.empty()) return grpc::InsecureChannelCredentials();
    return absl::InvalidArgumentError("--etcd-ca is missing: --etcd-cert and --etcd-key need it");
  }
  if (flags.cert.empty() != flags.key.empty()) {
    return absl::InvalidArgumentError("--etcd-cert and --etcd-key belong together");
  }
  grpc::SslCredentialsOptions files;
  BATON_ASSIGN_OR_RETURN(files.pem_root_certs, ReadCertificatePem({.flag = "--etcd-ca", .path = flags.ca}));
  if (flags.cert.empty()) return grpc::SslCredentials(files);
  BATON_ASSIGN_OR_RETURN(files.pem_cert_chain, ReadCertificatePem({.flag = "--etcd-cert", .path = flags.cert}));
  BATON_ASSIGN_OR_RETURN(files.pem_private_key,
                         ReadSecretFile({.flag = "--etcd-key", .path = flags.key, .is_private = true}));
  return grpc::SslCredentials(files);
}

}  // namespace

CLI::Option* AddEtcdFlags(CLI::App& app, EtcdFlags& flags) {
  CLI::Option* const endpoints =
      app.add_option("--etcd", flags.endpoints,
                     "HOST:PORT of each member of an etcd, separated by commas: routers and workers find each other "
                     "there")
          ->group(kAddressGroup)
          ->check(RouterList());
  app.add_option("--etcd-prefix", flags.prefix, "what the keys of this fleet begin with")
      ->group(kAddressGroup)
      ->check(EtcdPrefix())
      ->capture_default_str();
  app.add_option("--etcd-ca", flags.ca, "PEM file of the authorities of the etcd's certificate; without it: plain text")
      ->group(kAddressGroup)
      ->type_name("FILE");
  app.add_option("--etcd-cert", flags.cert, "PEM file of the certificate for the etcd")
      ->group(kAddressGroup)
      ->type_name("FILE");
  app.add_option("--etcd-key", flags.key, "PEM file of its private key")->group(kAddressGroup)->type_name("FILE");
  return endpoints;
}

absl::StatusOr<std::unique_ptr<discovery::Directory>> JoinDirectory(
    const EtcdFlags& flags, discovery::SessionOptions own, std::function<void(const discovery::Fleet&)> on_change) {
  if (!flags.is_on()) return std::unique_ptr<discovery::Directory>();
  BATON_ASSIGN_OR_RETURN(auto credentials, ReadCredentials(flags));
  discovery::DirectoryOptions options;
  options.endpoints = ParseRouters(flags.endpoints);
  options.prefix = flags.prefix;
  options.credentials = [flags, last = std::move(credentials)]() mutable {
    // Files that are being replaced may be half there.
    if (auto renewed = ReadCredentials(flags); renewed.ok()) last = *std::move(renewed);
    return last;
  };
  return std::make_unique<discovery::Directory>(std::move(options), std::move(own), std::move(on_change));
}

std::vector<std::shared_ptr<prometheus::Collectable>> DirectoryMetrics(const discovery::Directory* directory) {
  if (directory == nullptr) return {};
  auto metrics = std::make_shared<telemetry::CallbackMetrics>();
  metrics->AddGauge("baton_etcd_connected", "Whether the process is announced in its etcd, and follows it.",
                    [directory]() -> double { return directory->status().ok() ? 1 : 0; });
  metrics->AddGauge("baton_etcd_entries", "Routers and workers that the etcd has announced.",
                    [directory]() -> double { return static_cast<double>(directory->entries()); });
  return {std::move(metrics)};
}

}  // namespace baton::cli
