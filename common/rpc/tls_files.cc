#include "common/rpc/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/secret_file.h"
#include "common/status.h"

namespace baton::rpc {
namespace {

template <auto free_function>
struct Freer {
  template <typename T>
  void operator()(T* value) const {
    free_function(value);
  }
};
using BioPtr = std::unique_ptr<BIO, Freer<BIO_free>>;
using X509Ptr = std::unique_ptr<X509, Freer<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using StorePtr = std::unique_ptr<X509_STORE, Freer<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>>;

absl::Status Bad(const SecretFile& file, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(file.Prefix(), what));
}

BioPtr Open(const std::string& pem) { return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

// An encrypted key would otherwise be asked for at the terminal.
int RefusePassword(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<std::vector<X509Ptr>> ReadCertificates(const SecretFile& file, const std::string& pem) {
  const BioPtr bio = Open(pem);
  std::vector<X509Ptr> certificates;
  while (X509* const certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty() || !at_end) return Bad(file, "expected certificates in PEM");
  return certificates;
}

absl::StatusOr<KeyPtr> ReadKey(const SecretFile& file, const std::string& pem) {
  bool is_encrypted = false;
  KeyPtr key(PEM_read_bio_PrivateKey(Open(pem).get(), nullptr, &RefusePassword, &is_encrypted));
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
  const StorePtr store(X509_STORE_new());
  for (const X509Ptr& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  STACK_OF(X509)* const between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between, chain[i].get());
  const StoreContextPtr context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), between);
  const bool is_issued = X509_verify_cert(context.get()) == 1;
  const std::string why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  sk_X509_free(between);
  ERR_clear_error();
  if (is_issued) return absl::OkStatus();
  return Bad(cert_file, absl::StrCat("no authority in ", ca_file.flag, " ", ca_file.path,
                                     " has issued the certificate (", why, ")"));
}

std::vector<std::string> UrisOf(const X509& certificate) {
  const NamesPtr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> uris;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
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
  BATON_ASSIGN_OR_RETURN(const std::vector<X509Ptr> authorities, ReadCertificates(ca_file, material.ca_pem));
  if (names.cert.empty()) return material;
  BATON_ASSIGN_OR_RETURN(material.cert_pem, ReadSecretFile(cert_file));
  BATON_ASSIGN_OR_RETURN(const std::vector<X509Ptr> chain, ReadCertificates(cert_file, material.cert_pem));
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
