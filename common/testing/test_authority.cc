#include "common/testing/test_authority.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_join.h"
#include "common/check.h"

namespace baton::rpc {
namespace {

template <typename Write>
std::string Pem(Write write) {
  BIO* const bio = BIO_new(BIO_s_mem());
  BATON_CHECK(write(bio) == 1);
  char* text = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(bio, &text));
  std::string pem(text, size);
  BIO_free(bio);
  return pem;
}

std::string Pem(X509* certificate) {
  return Pem([certificate](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  BATON_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* NewCertificate(EVP_PKEY* key, const char* name, int begin_s, int end_s) {
  static int serial = 1;
  X509* const certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), begin_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate), end_s);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  return certificate;
}

}  // namespace

struct TestAuthority::Parts {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = NewCertificate(key, "authority", -3600, 7200);
};

TestAuthority::TestAuthority() : parts_(std::make_unique<Parts>()) {
  X509* const certificate = parts_->certificate;
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  // Two authorities of one name differ by this.
  AddExtension(certificate, certificate, NID_subject_key_identifier, "hash");
  BATON_CHECK(X509_sign(certificate, parts_->key, EVP_sha256()) > 0);
  cert_pem_ = Pem(certificate);
}

TestAuthority::~TestAuthority() {
  X509_free(parts_->certificate);
  EVP_PKEY_free(parts_->key);
}

TestCertificate TestAuthority::Issue(const TestCertificateOptions& options) const {
  EVP_PKEY* const key = options.is_rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
  X509* const certificate = NewCertificate(key, "test", options.begin_s, options.end_s);
  X509_set_issuer_name(certificate, X509_get_subject_name(parts_->certificate));
  AddExtension(certificate, parts_->certificate, NID_authority_key_identifier, "keyid");
  if (!options.names.empty()) {
    AddExtension(certificate, parts_->certificate, NID_subject_alt_name, absl::StrJoin(options.names, ","));
  }
  BATON_CHECK(X509_sign(certificate, parts_->key, EVP_sha256()) > 0);
  TestCertificate issued;
  issued.cert_pem = Pem(certificate);
  issued.key_pem =
      Pem([key](BIO* bio) { return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
  X509_free(certificate);
  EVP_PKEY_free(key);
  return issued;
}

std::string RoleName(const std::string& role) { return "URI:spiffe://test.baton/baton/" + role; }

TestTlsFiles::TestTlsFiles() {
  std::string pattern = (std::filesystem::temp_directory_path() / "baton_tls_XXXXXX").string();
  BATON_CHECK(mkdtemp(pattern.data()) != nullptr);
  folder_ = pattern;
}

TestTlsFiles::~TestTlsFiles() { std::filesystem::remove_all(folder_); }

void TestTlsFiles::Write(const TestCertificate& certificate, const TestAuthority& authority) const {
  WriteFile(names().cert, certificate.cert_pem);
  WriteFile(names().key, certificate.key_pem);
  WriteFile(names().ca, authority.cert_pem());
}

void WriteFile(const std::string& path, const std::string& content, int mode) {
  const std::string fresh = path + ".new";
  const int fd = open(fresh.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  BATON_CHECK(fd >= 0 && write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
  BATON_CHECK(fchmod(fd, static_cast<mode_t>(mode)) == 0 && close(fd) == 0);
  BATON_CHECK(rename(fresh.c_str(), path.c_str()) == 0);
}

}  // namespace baton::rpc
