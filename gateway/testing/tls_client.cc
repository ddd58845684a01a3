#include "gateway/testing/tls_client.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <csignal>

#include "common/check.h"

namespace baton::gateway {

TlsClient::TlsClient(int port, const TlsClientOptions& options)
    : RawClient(port, options.receive_bytes), context_(SSL_CTX_new(TLS_client_method())) {
  // OpenSSL writes to a connection that has ended.
  std::signal(SIGPIPE, SIG_IGN);
  for (const rpc::X509Ptr& authority : rpc::ReadCertificates(options.ca_pem)) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority.get());
  }
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  // So that versions which nobody should speak can be tried.
  SSL_CTX_set_security_level(context_.get(), 0);
  if (options.version != 0) {
    SSL_CTX_set_min_proto_version(context_.get(), options.version);
    SSL_CTX_set_max_proto_version(context_.get(), options.version);
  }
  if (!options.cert_pem.empty()) {
    const rpc::KeyPtr key(PEM_read_bio_PrivateKey(rpc::OpenPem(options.key_pem).get(), nullptr, nullptr, nullptr));
    BATON_CHECK(SSL_CTX_use_certificate(context_.get(), rpc::ReadCertificates(options.cert_pem).front().get()) == 1);
    BATON_CHECK(SSL_CTX_use_PrivateKey(context_.get(), key.get()) == 1);
  }
  ssl_.reset(SSL_new(context_.get()));
  const std::string offered = static_cast<char>(options.protocol.size()) + options.protocol;
  if (!options.protocol.empty()) {
    SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(offered.data()),
                        static_cast<unsigned>(offered.size()));
  }
  SSL_set_fd(ssl_.get(), fd());
  ERR_clear_error();
  is_connected_ = SSL_connect(ssl_.get()) == 1;
}

std::string TlsClient::protocol() const {
  const unsigned char* name = nullptr;
  unsigned bytes = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &bytes);
  return {reinterpret_cast<const char*>(name), bytes};
}

std::string TlsClient::ServerCertificate() const {
  const rpc::BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), SSL_get0_peer_certificate(ssl_.get()));
  char* text = nullptr;
  const auto bytes = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<size_t>(bytes)};
}

bool TlsClient::AskForKeyUpdate() {
  ERR_clear_error();
  return SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_REQUESTED) == 1 && SSL_do_handshake(ssl_.get()) == 1;
}

bool TlsClient::Send(std::string_view bytes) {
  ERR_clear_error();
  return bytes.empty() || SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
}

ssize_t TlsClient::Receive(char* into, size_t bytes) {
  ERR_clear_error();
  const int got = SSL_read(ssl_.get(), into, static_cast<int>(bytes));
  if (got <= 0) was_told_the_end_ = SSL_get_error(ssl_.get(), got) == SSL_ERROR_ZERO_RETURN;
  return got;
}

}  // namespace baton::gateway
