#include "common/rpc/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/check.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "common/status.h"

namespace baton::rpc {
namespace {

std::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }
std::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

RoleSet RolesOfPeer(Peer peer) {
  return peer == Peer::kKvOwner ? RoleSet{Role::kPrefillWorker, Role::kMixedWorker} : RoleSet{Role::kRouter};
}

void AddRole(std::string_view uri, std::string_view trust_domain, RoleSet& roles) {
  const std::optional<RoleUri> read = ParseRoleUri(uri);
  if (read.has_value() && read->trust_domain == trust_domain) roles.Add(read->role);
}

// Looks at the certificate of the server that a channel has reached. That an authority issued it is known by then.
class PeerVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  // An empty trust domain: any.
  PeerVerifier(Peer peer, std::string trust_domain) : peer_(peer), trust_domain_(std::move(trust_domain)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    *status = grpc::Status::OK;
    if (peer_ == Peer::kRouterByName) name_.Verify(request, {}, status);
    if (!status->ok()) return true;
    RoleSet roles;
    for (const grpc::string_ref& uri : request->uri_names()) {
      const std::optional<RoleUri> read = ParseRoleUri(View(uri));
      if (read.has_value() && (trust_domain_.empty() || read->trust_domain == trust_domain_)) roles.Add(read->role);
    }
    if (!roles.HasAny(RolesOfPeer(peer_))) {
      *status = {grpc::StatusCode::UNAUTHENTICATED,
                 absl::StrCat("its certificate does not carry the role ", RoleNames(RolesOfPeer(peer_), " or "))};
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const Peer peer_;
  const std::string trust_domain_;
  grpc::experimental::HostNameCertificateVerifier name_;
};

std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const TlsMaterial& material, Peer peer) {
  std::vector<grpc::experimental::IdentityKeyCertPair> own;
  if (!material.cert_pem.empty()) {
    own.push_back({.private_key = material.key_pem, .certificate_chain = material.cert_pem});
  }
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(material.ca_pem, own));
  options.watch_root_certs();
  if (!own.empty()) options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<PeerVerifier>(peer, material.trust_domain));
  // The verifier has looked at the name where that matters, and no call names another host.
  options.set_check_call_host(false);
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace

KeyState ServerGuard::ReadKey(const std::vector<std::string_view>& authorizations) const {
  if (authorizations.empty()) return KeyState::kNone;
  const std::optional<std::string_view> key = BearerKey(authorizations);
  return key.has_value() && knows_key(*key) ? KeyState::kKnown : KeyState::kUnknown;
}

struct Credentials::ServedFiles {
  Credentials* owner = nullptr;
  // What the server has.
  int64_t generation = 0;

  // Asked before each handshake, by the thread that has accepted the connection.
  static grpc_ssl_certificate_config_reload_status Fetch(void* user_data, grpc_ssl_server_certificate_config** config) {
    auto& served = *static_cast<ServedFiles*>(user_data);
    absl::MutexLock lock(&served.owner->mutex_);
    return served.FetchLocked(config);
  }

  grpc_ssl_certificate_config_reload_status FetchLocked(grpc_ssl_server_certificate_config** config)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(owner->mutex_) {
    if (generation == owner->generation_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    generation = owner->generation_;
    const grpc_ssl_pem_key_cert_pair pair = {.private_key = owner->material_.key_pem.c_str(),
                                             .cert_chain = owner->material_.cert_pem.c_str()};
    *config = grpc_ssl_server_certificate_config_create(owner->material_.ca_pem.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }
};

// What decides about each call of one server before its message is read.
struct Credentials::CallGuard {
  const Credentials* owner;
  ServerGuard guard;

  Caller ReadCaller(const grpc_auth_context* context) const {
    Caller caller;
    grpc_auth_property_iterator certificates =
        grpc_auth_context_find_properties_by_name(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
    caller.has_certificate = grpc_auth_property_iterator_next(&certificates) != nullptr;
    if (!caller.has_certificate) return caller;
    const std::string trust_domain = owner->trust_domain();
    grpc_auth_property_iterator uris = grpc_auth_context_find_properties_by_name(context, GRPC_PEER_URI_PROPERTY_NAME);
    while (const grpc_auth_property* const uri = grpc_auth_property_iterator_next(&uris)) {
      AddRole({uri->value, uri->value_length}, trust_domain, caller.roles);
    }
    return caller;
  }

  absl::Status Check(const grpc_auth_context* context, absl::Span<const grpc_metadata> metadata) const {
    std::string_view path;
    std::vector<std::string_view> authorizations;
    for (const grpc_metadata& entry : metadata) {
      const std::string_view key = View(entry.key);
      if (key == ":path") path = View(entry.value);
      if (key == "authorization") authorizations.push_back(View(entry.value));
    }
    Caller caller = ReadCaller(context);
    if (NeedsKey(guard.rules, path)) caller.key = guard.ReadKey(authorizations);
    absl::Status status = Authorize(guard.rules, path, caller);
    if (!status.ok() && guard.rules.port != Port::kClients) Log(path, status);
    return status;
  }

  // Between our own processes this is a mistake of whoever gave out the certificates, or an attack.
  static void Log(std::string_view path, const absl::Status& status) {
    static LogLimit limit;
    if (const auto left_out = limit.Admit()) {
      spdlog::warn("a call of {} is refused: {}{}", std::string(path.substr(0, 128)), std::string(status.message()),
                   LeftOutNote(*left_out));
    }
  }

  static void Process(void* state, grpc_auth_context* context, const grpc_metadata* metadata, size_t count,
                      grpc_process_auth_metadata_done_cb done, void* user_data) {
    const absl::Status status = static_cast<const CallGuard*>(state)->Check(context, {metadata, count});
    const std::string message(status.message());
    done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.code()), message.c_str());
  }
};

// gRPC's own classes of server credentials cannot change their certificates in a way that survives a wrong file, so
// this one stands on the C interface.
class Credentials::ServerSide final : public grpc::ServerCredentials {
 public:
  ServerSide(ServedFiles* files, std::unique_ptr<CallGuard> guard) {
    const CallRules& rules = guard->guard.rules;
    const bool demands = rules.port != Port::kClients || rules.requires_certificate;
    credentials_ =
        grpc_ssl_server_credentials_create_with_options(grpc_ssl_server_credentials_create_options_using_config_fetcher(
            demands ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                    : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY,
            &ServedFiles::Fetch, files));
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_, {.process = &CallGuard::Process,
                       .destroy = [](void* state) { delete static_cast<CallGuard*>(state); },
                       .state = guard.release()});
  }
  ~ServerSide() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    BATON_CHECK(false);  // The guard is the processor.
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* credentials_;
};

Credentials::Credentials(const TlsFileNames& files, RoleSet needed)
    : files_(files), needed_(needed), watch_({files.cert, files.key, files.ca}) {}

Credentials::~Credentials() = default;

absl::StatusOr<std::unique_ptr<Credentials>> Credentials::Create(const TlsFileNames& files, RoleSet needed,
                                                                 int64_t watch_interval_ms) {
  std::unique_ptr<Credentials> credentials(new Credentials(files, needed));
  BATON_ASSIGN_OR_RETURN(TlsMaterial material, credentials->Load());
  spdlog::info("TLS with the certificate in {}, valid until {}", files.cert, material.valid_until);
  {
    absl::MutexLock lock(&credentials->mutex_);
    credentials->material_ = std::move(material);
  }
  credentials->watch_.Start([raw = credentials.get()] { raw->Reload(); }, watch_interval_ms);
  return credentials;
}

absl::StatusOr<TlsMaterial> Credentials::Load() const {
  BATON_ASSIGN_OR_RETURN(TlsMaterial material, LoadTlsFiles(files_));
  if (!material.roles.HasAll(needed_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--tls-cert ", files_.cert, ": the certificate needs a URI spiffe://TRUST-DOMAIN/baton/ROLE for ",
        RoleNames(needed_, " and "), " among its alternative names, and has ",
        material.roles.empty() ? "none" : RoleNames(material.roles, " and "), "; docs/security.md tells how"));
  }
  return material;
}

void Credentials::Reload() {
  absl::MutexLock reloading(&reloading_);
  absl::StatusOr<TlsMaterial> material = Load();
  if (!material.ok()) {
    return spdlog::error("{}; the former certificate stays in use", std::string(material.status().message()));
  }
  absl::MutexLock lock(&mutex_);
  const bool is_same = material->cert_pem == material_.cert_pem && material->key_pem == material_.key_pem &&
                       material->ca_pem == material_.ca_pem;
  if (is_same) return;
  spdlog::info("new connections use the new certificate in {}, valid until {}", files_.cert, material->valid_until);
  material_ = *std::move(material);
  of_channels_.clear();
  ++generation_;
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForServer(ServerGuard guard) {
  ServedFiles* served = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    served = served_.emplace_back(std::make_unique<ServedFiles>(ServedFiles{.owner = this})).get();
  }
  return std::make_shared<ServerSide>(served,
                                      std::make_unique<CallGuard>(CallGuard{.owner = this, .guard = std::move(guard)}));
}

std::shared_ptr<grpc::ChannelCredentials> Credentials::ForChannel(Peer peer) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<grpc::ChannelCredentials>& made = of_channels_[peer];
  if (made == nullptr) made = MakeChannelCredentials(material_, peer);
  return made;
}

int64_t Credentials::generation() const {
  absl::MutexLock lock(&mutex_);
  return generation_;
}

std::string Credentials::trust_domain() const {
  absl::MutexLock lock(&mutex_);
  return material_.trust_domain;
}

TlsMaterial Credentials::material() const {
  absl::MutexLock lock(&mutex_);
  return material_;
}

RoleSet Credentials::RolesOf(const grpc::AuthContext& caller) const {
  const std::string domain = trust_domain();
  RoleSet roles;
  for (const grpc::string_ref& uri : caller.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    AddRole(View(uri), domain, roles);
  }
  return roles;
}

RoleSet Credentials::RolesOf(const std::vector<std::string>& uris) const {
  const std::string domain = trust_domain();
  RoleSet roles;
  for (const std::string& uri : uris) AddRole(uri, domain, roles);
  return roles;
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(Credentials* credentials, ServerGuard guard) {
  return credentials == nullptr ? grpc::InsecureServerCredentials() : credentials->ForServer(std::move(guard));
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(Credentials* credentials, Peer peer) {
  return credentials == nullptr ? grpc::InsecureChannelCredentials() : credentials->ForChannel(peer);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeClientCredentials(
    const ClientCredentialsOptions& options) {
  if (options.files.ca.empty()) {
    if (options.api_key.empty()) return grpc::InsecureChannelCredentials();
    return absl::InvalidArgumentError("an API key travels over TLS alone: give --tls-ca FILE as well");
  }
  BATON_ASSIGN_OR_RETURN(const TlsMaterial material, LoadTlsFiles(options.files));
  std::shared_ptr<grpc::ChannelCredentials> channel = MakeChannelCredentials(material, Peer::kRouterByName);
  if (options.api_key.empty()) return channel;
  return grpc::CompositeChannelCredentials(channel, grpc::AccessTokenCredentials(options.api_key));
}

}  // namespace baton::rpc
