// What the files of --tls-cert, --tls-key and --tls-ca hold, checked as a whole before anything uses it.
#ifndef BATON_COMMON_RPC_TLS_FILES_H_
#define BATON_COMMON_RPC_TLS_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/call_policy.h"

namespace baton::rpc {

// Names of PEM files. Certificate and key belong together; a client may have neither.
struct TlsFileNames {
  // A certificate, followed by those between it and the authority.
  std::string cert;
  std::string key;
  // The certificates of the authorities whose certificates count.
  std::string ca;
};

struct TlsMaterial {
  std::string cert_pem;
  std::string key_pem;
  std::string ca_pem;
  // What the certificate says; empty without a certificate.
  std::string trust_domain;
  RoleSet roles;
  // The end of the certificate's time, for people.
  std::string valid_until;
};

// INVALID_ARGUMENT says in one line which file, what is wrong with it and what to do: a file that cannot be read or is
// no PEM, a key that is encrypted, open to everybody, or not the certificate's, a certificate whose time is over or has
// not come, that the authority did not issue, or that names two trust domains.
absl::StatusOr<TlsMaterial> LoadTlsFiles(const TlsFileNames& names);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_TLS_FILES_H_
