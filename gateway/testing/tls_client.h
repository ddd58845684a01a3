// A client that speaks TLS to a server on loopback and says any bytes by it, for tests of servers.
#ifndef BATON_GATEWAY_TESTING_TLS_CLIENT_H_
#define BATON_GATEWAY_TESTING_TLS_CLIENT_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/rpc/certificates.h"
#include "telemetry/testing/raw_client.h"

namespace baton::gateway {

struct TlsClientOptions {
  // The authority that must have issued the server's certificate.
  std::string ca_pem;
  // What the client shows; empty: nothing.
  std::string cert_pem = {};
  std::string key_pem = {};
  // What it offers by ALPN; empty: nothing.
  std::string protocol = "http/1.1";
  // The one version that it speaks; 0: all.
  int version = 0;
  // As RawClient's constructor takes it.
  int receive_bytes = 0;
};

class TlsClient final : public telemetry::RawClient {
 public:
  // Connects and shakes hands.
  TlsClient(int port, const TlsClientOptions& options);

  // Whether our side of the handshake is over. With TLS 1.3 the server may refuse our certificate later.
  bool is_connected() const { return is_connected_; }
  // What ALPN has chosen.
  std::string protocol() const;
  int version() const { return SSL_version(ssl_.get()); }
  // The certificate of the server, in PEM.
  std::string ServerCertificate() const;
  // The server has said that this is the end, as ReadToEnd found.
  bool was_told_the_end() const { return was_told_the_end_; }
  // Asks the server for a new key, for which it has to send something. False when the connection has ended.
  bool AskForKeyUpdate();

  bool Send(std::string_view bytes) override;

 private:
  ssize_t Receive(char* into, size_t bytes) override;

  std::unique_ptr<SSL_CTX, rpc::Freer<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, rpc::Freer<SSL_free>> ssl_;
  bool is_connected_ = false;
  bool was_told_the_end_ = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TESTING_TLS_CLIENT_H_
