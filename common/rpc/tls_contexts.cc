#include "common/rpc/tls_contexts.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "common/rpc/certificates.h"
#include "common/status.h"

namespace baton::rpc {
namespace {

// The ciphers of TLS 1.2 that are still thought well of: a fresh key for each connection, and authenticated encryption.
// TLS 1.3 has no others.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
// As ALPN writes a list: the name's length before the name.
constexpr unsigned char kProtocols[] = "\x08http/1.1";
constexpr unsigned int kProtocolsBytes = sizeof(kProtocols) - 1;

absl::Status Unusable(const std::string& what) {
  const char* const why = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " cannot serve TLS over HTTP: ", why == nullptr ? "unknown reason" : why));
}

// A client that offers other protocols alone is refused, one that offers none is taken to speak ours.
int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes, const unsigned char* offered,
                   unsigned int offered_bytes, void*) {
  unsigned char* found = nullptr;
  const int result = SSL_select_next_proto(&found, chosen_bytes, kProtocols, kProtocolsBytes, offered, offered_bytes);
  if (result != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

absl::Status UseCertificate(SSL_CTX* context, const TlsMaterial& material) {
  const std::vector<X509Ptr> chain = ReadCertificates(material.cert_pem);
  if (chain.empty()) return Unusable("--tls-cert");
  if (SSL_CTX_use_certificate(context, chain.front().get()) != 1) return Unusable("the certificate of --tls-cert");
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) return Unusable("a certificate of --tls-cert");
  }
  const KeyPtr key(PEM_read_bio_PrivateKey(OpenPem(material.key_pem).get(), nullptr, nullptr, nullptr));
  if (key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1) return Unusable("the key of --tls-key");
  return absl::OkStatus();
}

void RequireCertificate(SSL_CTX* context, const TlsMaterial& material) {
  for (const X509Ptr& authority : ReadCertificates(material.ca_pem)) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get());
    // By these names a client that has several certificates finds the one to show.
    SSL_CTX_add_client_CA(context, authority.get());
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(const TlsMaterial& material, bool requires_certificate) {
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  BATON_CHECK(context != nullptr);
  BATON_CHECK(SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1);
  BATON_CHECK(SSL_CTX_set_cipher_list(context.get(), kCiphers) == 1);
  // Every connection has a whole handshake, so that a certificate which no longer counts opens no further one.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  // Connections that are idle hold no buffers, of which there would be 34 KiB each.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context.get(), &ChooseProtocol, nullptr);
  BATON_RETURN_IF_ERROR(UseCertificate(context.get(), material));
  if (requires_certificate) RequireCertificate(context.get(), material);
  ERR_clear_error();
  return context;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContexts>> TlsContexts::Create(const Credentials& credentials,
                                                                 bool requires_certificate) {
  std::unique_ptr<TlsContexts> contexts(new TlsContexts(credentials, requires_certificate));
  BATON_RETURN_IF_ERROR(contexts->Renew());
  return contexts;
}

absl::Status TlsContexts::Renew() {
  // Before the material, so that a change in between is seen by the next call.
  generation_ = credentials_.generation();
  BATON_ASSIGN_OR_RETURN(current_, MakeContext(credentials_.material(), requires_certificate_));
  return absl::OkStatus();
}

std::shared_ptr<SSL_CTX> TlsContexts::Current() {
  if (generation_ == credentials_.generation()) return current_;
  if (const absl::Status renewed = Renew(); !renewed.ok()) {
    spdlog::error("{}; the former certificate stays in use there", std::string(renewed.message()));
  }
  return current_;
}

}  // namespace baton::rpc
