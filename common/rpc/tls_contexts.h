// TLS for servers of HTTP/1.1: contexts of OpenSSL with the certificate of the process.
#ifndef BATON_COMMON_RPC_TLS_CONTEXTS_H_
#define BATON_COMMON_RPC_TLS_CONTEXTS_H_

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/rpc/credentials.h"

namespace baton::rpc {

// Used by one thread.
class TlsContexts {
 public:
  // `credentials` outlive the contexts. With `requires_certificate` a client has to show a certificate of the cluster's
  // authority; without, it is asked for none. INVALID_ARGUMENT for a certificate or a key that OpenSSL does not take,
  // such as one that is too short.
  static absl::StatusOr<std::unique_ptr<TlsContexts>> Create(const Credentials& credentials, bool requires_certificate);

  // What the next handshake uses: another object after each change of the certificate. Where the new one cannot be
  // used, the log says why, once, and the former stays.
  std::shared_ptr<SSL_CTX> Current();

 private:
  TlsContexts(const Credentials& credentials, bool requires_certificate)
      : credentials_(credentials), requires_certificate_(requires_certificate) {}

  absl::Status Renew();

  const Credentials& credentials_;
  const bool requires_certificate_;
  // The generation of the certificate that was tried last.
  int64_t generation_ = 0;
  std::shared_ptr<SSL_CTX> current_;
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_TLS_CONTEXTS_H_
