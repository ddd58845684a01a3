// Certificates in memory: owners of OpenSSL's objects, and what is asked of a chain.
#ifndef BATON_COMMON_RPC_CERTIFICATES_H_
#define BATON_COMMON_RPC_CERTIFICATES_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

namespace baton::rpc {

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

// Reads from `pem`, which outlives it.
BioPtr OpenPem(const std::string& pem);

// Empty when `pem` is not one certificate or several.
std::vector<X509Ptr> ReadCertificates(const std::string& pem);

// Empty when one of the authorities has issued the first certificate of the chain, by those that follow it, and all of
// them are valid now; else why not, in OpenSSL's words.
std::string WhyNotIssued(const std::vector<X509Ptr>& chain, const std::vector<X509Ptr>& authorities);

// The URIs among the alternative names.
std::vector<std::string> UrisOf(const X509& certificate);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_CERTIFICATES_H_
