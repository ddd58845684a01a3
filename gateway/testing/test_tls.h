// The TLS of a server in a test: an authority, the files of a certificate, and contexts that follow the files.
#ifndef BATON_GATEWAY_TESTING_TEST_TLS_H_
#define BATON_GATEWAY_TESTING_TEST_TLS_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "common/check.h"
#include "common/rpc/credentials.h"
#include "common/rpc/tls_contexts.h"
#include "common/testing/test_authority.h"

namespace baton::gateway {

class TestTls {
 public:
  explicit TestTls(bool requires_certificate = false) {
    files_.Write(authority_.Issue(Router()), authority_);
    auto credentials = rpc::Credentials::Create(files_.names(), {rpc::Role::kRouter});
    BATON_CHECK(credentials.ok()) << credentials.status();
    credentials_ = *std::move(credentials);
    auto contexts = rpc::TlsContexts::Create(*credentials_, requires_certificate);
    BATON_CHECK(contexts.ok()) << contexts.status();
    contexts_ = *std::move(contexts);
  }

  static rpc::TestCertificateOptions Router() { return {.names = {rpc::RoleName("router"), "IP:127.0.0.1"}}; }

  // As HttpServerOptions::tls_context.
  std::shared_ptr<SSL_CTX> Current() { return contexts_->Current(); }
  // The files from now on, and what they lead to.
  void Replace(const rpc::TestCertificate& certificate, const rpc::TestAuthority& authority) {
    files_.Write(certificate, authority);
    credentials_->Reload();
  }
  const rpc::TestAuthority& authority() const { return authority_; }
  const std::string& ca_pem() const { return authority_.cert_pem(); }
  const rpc::Credentials& credentials() const { return *credentials_; }

 private:
  const rpc::TestAuthority authority_;
  const rpc::TestTlsFiles files_;
  std::unique_ptr<rpc::Credentials> credentials_;
  std::unique_ptr<rpc::TlsContexts> contexts_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TESTING_TEST_TLS_H_
