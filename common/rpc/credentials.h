// The credentials of all gRPC servers and channels of a process: the one place that knows whether they use TLS. Without
// TLS (a null Credentials) everything is plain text, and everybody who reaches a port is trusted.
#ifndef BATON_COMMON_RPC_CREDENTIALS_H_
#define BATON_COMMON_RPC_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/file_watch.h"
#include "common/rpc/call_policy.h"
#include "common/rpc/tls_files.h"

namespace baton::rpc {

// Whom a channel leads to, as the certificate there has to say.
enum class Peer : uint8_t {
  // For our own processes: any certificate of the role `router`. The name of its host does not matter.
  kRouter,
  // Likewise, of the role `prefill-worker` or `mixed-worker`.
  kKvOwner,
  // For clients: a certificate of the role `router` and of the host's name.
  kRouterByName,
};

// This says whom a server lets in.
struct ServerGuard {
  CallRules rules;
  // Whether somebody has this API key. Any thread; outlives the server. Needed where the rules require a key.
  std::function<bool(std::string_view key)> knows_key = nullptr;

  // What all `authorization` headers of a call that needs a key say.
  KeyState ReadKey(const std::vector<std::string_view>& authorizations) const;
};

// The certificate of a process, read again whenever its files change. New handshakes use the new ones; connections
// stay. Files that are wrong change nothing, which the log says. Thread-safe.
class Credentials {
 public:
  // `needed` are the roles without which others would refuse this process. Errors are those of LoadTlsFiles, and a role
  // that is missing.
  static absl::StatusOr<std::unique_ptr<Credentials>> Create(const TlsFileNames& files, RoleSet needed,
                                                             int64_t watch_interval_ms = kFileWatchIntervalMs);
  ~Credentials();

  // The credentials of one server, which ends before this object.
  std::shared_ptr<grpc::ServerCredentials> ForServer(ServerGuard guard) ABSL_LOCKS_EXCLUDED(mutex_);
  // The credentials of a channel that is made now. A channel keeps its certificate: see generation().
  std::shared_ptr<grpc::ChannelCredentials> ForChannel(Peer peer) ABSL_LOCKS_EXCLUDED(mutex_);
  // Another number whenever there are new files: long-lived channels are then made anew.
  int64_t generation() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What a caller's certificate carries, of the trust domain of ours.
  RoleSet RolesOf(const grpc::AuthContext& caller) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, of the URIs among its alternative names.
  RoleSet RolesOf(const std::vector<std::string>& uris) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::string trust_domain() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What is in use, the private key too: for those of common/rpc that sign and verify.
  TlsMaterial material() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the files again, as the watch does after each change.
  void Reload() ABSL_LOCKS_EXCLUDED(reloading_, mutex_);

 private:
  // What gRPC asks for the certificates of one server.
  struct ServedFiles;
  class ServerSide;
  struct CallGuard;

  Credentials(const TlsFileNames& files, RoleSet needed);
  absl::StatusOr<TlsMaterial> Load() const;

  const TlsFileNames files_;
  const RoleSet needed_;
  // Held while the files are read and taken over, so that what was read last counts.
  absl::Mutex reloading_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable absl::Mutex mutex_;
  TlsMaterial material_ ABSL_GUARDED_BY(mutex_);
  int64_t generation_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<Peer, std::shared_ptr<grpc::ChannelCredentials>> of_channels_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<ServedFiles>> served_ ABSL_GUARDED_BY(mutex_);
  // Last: its thread ends first.
  FileWatch watch_;
};

// As the members of these names; plain text when `credentials` is null.
std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(Credentials* credentials, ServerGuard guard);
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(Credentials* credentials, Peer peer);

// The credentials of a client, which ends soon and reads its files once.
struct ClientCredentialsOptions {
  // Without an authority: plain text.
  TlsFileNames files;
  // Sent with each call; empty: none. INVALID_ARGUMENT in plain text, which everybody on the way could read.
  std::string api_key;
};
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeClientCredentials(
    const ClientCredentialsOptions& options);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_CREDENTIALS_H_
