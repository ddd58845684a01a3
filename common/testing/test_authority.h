// A certificate authority for tests, and the certificates that it issues.
#ifndef BATON_COMMON_TESTING_TEST_AUTHORITY_H_
#define BATON_COMMON_TESTING_TEST_AUTHORITY_H_

#include <memory>
#include <string>
#include <vector>

#include "common/rpc/tls_files.h"

namespace baton::rpc {

struct TestCertificateOptions {
  // Such as "URI:spiffe://test.baton/baton/router" and "IP:127.0.0.1".
  std::vector<std::string> names;
  // The time of the certificate, from now on.
  int begin_s = -60;
  int end_s = 3600;
  // RSA with 2048 bits instead of P-256.
  bool is_rsa = false;
};

struct TestCertificate {
  std::string cert_pem;
  std::string key_pem;
};

class TestAuthority {
 public:
  TestAuthority();
  ~TestAuthority();

  TestCertificate Issue(const TestCertificateOptions& options) const;
  const std::string& cert_pem() const { return cert_pem_; }

 private:
  struct Parts;

  std::unique_ptr<Parts> parts_;
  std::string cert_pem_;
};

// "URI:spiffe://test.baton/baton/ROLE"
std::string RoleName(const std::string& role);

// Files in a folder of their own, which goes with its owner.
class TestTlsFiles {
 public:
  TestTlsFiles();
  ~TestTlsFiles();

  // Each file is replaced as a whole. The key is for its owner alone.
  void Write(const TestCertificate& certificate, const TestAuthority& authority) const;
  TlsFileNames names() const { return {.cert = folder_ + "/cert", .key = folder_ + "/key", .ca = folder_ + "/ca"}; }

 private:
  std::string folder_;
};

void WriteFile(const std::string& path, const std::string& content, int mode = 0600);

}  // namespace baton::rpc

#endif  // BATON_COMMON_TESTING_TEST_AUTHORITY_H_
