#include "common/rpc/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/certificates.h"
#include "common/secret_file.h"
#include "common/status.h"

namespace baton::rpc {
namespace {

absl::Status Bad(const SecretFile& file, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(file.Prefix(), what));
}

// An encrypted key would otherwise be asked for at the terminal.
int RefusePassword(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<std::vector<X509Ptr>> ReadChain(const SecretFile& file, const std::string& pem) {
  std::vector<X509Ptr> certificates = ReadCertificates(pem);
  if (certificates.empty()) return Bad(file, "expected certificates in PEM");
  return certificates;
}

absl::StatusOr<KeyPtr> ReadKey(const SecretFile& file, const std::string& pem) {
  bool is_encrypted = false;
  KeyPtr key(PEM_read_bio_PrivateKey(OpenPem(pem).get(), nullptr, &RefusePassword, &is_encrypted));
  ERR_clear_error();
  if (is_encrypted) return Bad(file, "the key is encrypted; give one that is not, such as `openssl pkey` writes");
  if (key == nullptr) return Bad(file, "expected a private key in PEM");
  return key;
}

std::string TimeText(const ASN1_TIME* time) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(bio.get(), time);
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<size_t>(size)};
}

absl::Status CheckTime(const SecretFile& file, const X509& certificate) {
  const ASN1_TIME* const begin = X509_get0_notBefore(&certificate);
  const ASN1_TIME* const end = X509_get0_notAfter(&certificate);
  if (X509_cmp_current_time(end) <= 0) {
    return Bad(file, absl::StrCat("the certificate has expired on ", TimeText(end), "; give a new one"));
  }
  if (X509_cmp_current_time(begin) > 0) {
    return Bad(file, absl::StrCat("the certificate is not valid before ", TimeText(begin), "; is the clock right?"));
  }
  return absl::OkStatus();
}

absl::Status CheckIssuer(const SecretFile& cert_file, const std::vector<X509Ptr>& chain, const SecretFile& ca_file,
                         const std::vector<X509Ptr>& authorities) {
  const std::string why = WhyNotIssued(chain, authorities);
  if (why.empty()) return absl::OkStatus();
  return Bad(cert_file, absl::StrCat("no authority in ", ca_file.flag, " ", ca_file.path,
                                     " has issued the certificate (", why, ")"));
}

absl::Status ReadRoles(const SecretFile& file, const X509& certificate, TlsMaterial& material) {
  for (const std::string& uri : UrisOf(certificate)) {
    const std::optional<RoleUri> read = ParseRoleUri(uri);
    if (!read.has_value()) continue;
    if (!material.roles.empty() && material.trust_domain != read->trust_domain) {
      return Bad(file, absl::StrCat("the certificate has roles of two trust domains, ", material.trust_domain, " and ",
                                    ToAbsl(read->trust_domain), "; give it those of one"));
    }
    material.trust_domain = std::string(read->trust_domain);
    material.roles.Add(read->role);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsMaterial> LoadTlsFiles(const TlsFileNames& names) {
  const SecretFile ca_file = {.flag = "--tls-ca", .path = names.ca};
  const SecretFile cert_file = {.flag = "--tls-cert", .path = names.cert};
  const SecretFile key_file = {.flag = "--tls-key", .path = names.key, .is_private = true};
  TlsMaterial material;
  BATON_ASSIGN_OR_RETURN(material.ca_pem, ReadSecretFile(ca_file));
  BATON_ASSIGN_OR_RETURN(const std::vector<X509Ptr> authorities, ReadChain(ca_file, material.ca_pem));
  if (names.cert.empty()) return material;
  BATON_ASSIGN_OR_RETURN(material.cert_pem, ReadSecretFile(cert_file));
  BATON_ASSIGN_OR_RETURN(const std::vector<X509Ptr> chain, ReadChain(cert_file, material.cert_pem));
  BATON_ASSIGN_OR_RETURN(material.key_pem, ReadSecretFile(key_file));
  BATON_ASSIGN_OR_RETURN(const KeyPtr key, ReadKey(key_file, material.key_pem));
  X509& certificate = *chain.front();
  if (X509_check_private_key(&certificate, key.get()) != 1) {
    ERR_clear_error();
    return Bad(key_file, absl::StrCat("this is not the key of the certificate in ", cert_file.flag, " ", names.cert));
  }
  BATON_RETURN_IF_ERROR(CheckTime(cert_file, certificate));
  BATON_RETURN_IF_ERROR(CheckIssuer(cert_file, chain, ca_file, authorities));
  BATON_RETURN_IF_ERROR(ReadRoles(cert_file, certificate, material));
  material.valid_until = TimeText(X509_get0_notAfter(&certificate));
  return material;
}

}  // namespace baton::rpc
