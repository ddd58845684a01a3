#include "common/rpc/certificates.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace baton::rpc {
namespace {

using StorePtr = std::unique_ptr<X509_STORE, Freer<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>>;

}  // namespace

BioPtr OpenPem(const std::string& pem) { return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

std::vector<X509Ptr> ReadCertificates(const std::string& pem) {
  const BioPtr bio = OpenPem(pem);
  std::vector<X509Ptr> certificates;
  while (X509* const certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) certificates.clear();
  return certificates;
}

std::string WhyNotIssued(const std::vector<X509Ptr>& chain, const std::vector<X509Ptr>& authorities) {
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
  return is_issued ? "" : why;
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

}  // namespace baton::rpc
