// Capabilities: what the router signs, a decode worker shows in its Fetch, and the worker that holds the KV verifies. A
// decode worker cannot make one, not even for the router's other attempts.
//
//   the router's certificate --signs--> a P-256 key of the router's process --signs--> the terms of one attempt
//
// The key between the two makes a signature cheap and its cost the same for every kind of certificate, RSA too. It is
// drawn when the process starts and never leaves it. The certificate's key signs it once, and once more after each
// change of the certificate. That key also serves TLS, so the text that it signs here begins with 64 spaces, as that of
// TLS 1.3 does, and a name of its own: no handshake has the server sign such a text.
#ifndef BATON_COMMON_RPC_CAPABILITY_H_
#define BATON_COMMON_RPC_CAPABILITY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/capability.h"
#include "common/ids.h"
#include "common/rpc/certificates.h"
#include "common/rpc/credentials.h"

namespace baton::rpc {

// By what terms name a membership: 128 bits of its SHA-256, because nobody but the worker and the router may know it.
Id128 MembershipTag(const MembershipId& membership);

// The router's. Used by one thread.
class CapabilitySigner {
 public:
  // `credentials` outlive the signer. INVALID_ARGUMENT for a certificate whose key signs nothing, or whose chain is
  // longer than kMaxCapabilityChainBytes.
  static absl::StatusOr<std::unique_ptr<CapabilitySigner>> Create(const Credentials& credentials);

  // What verifies signatures from now on: another object after each change of the certificate. Where the new one cannot
  // be used, the log says why and the former stays.
  std::shared_ptr<const internal::v1::CapabilityKey> key();
  // About 20 us.
  internal::v1::SignedTerms Sign(const CapabilityTerms& terms) const;

 private:
  CapabilitySigner(const Credentials& credentials, KeyPtr own) : credentials_(credentials), own_(std::move(own)) {}

  absl::Status Certify();

  const Credentials& credentials_;
  const KeyPtr own_;
  // The generation of the certificate that was tried last.
  int64_t generation_ = 0;
  std::shared_ptr<const internal::v1::CapabilityKey> key_;
};

// A source's. Thread-safe.
class CapabilityVerifier {
 public:
  // `credentials` outlive the verifier.
  explicit CapabilityVerifier(const Credentials& credentials) : credentials_(credentials) {}

  // What a serialized Capability says. PERMISSION_DENIED unless it was signed by a key that a certificate of the role
  // router, of our authority and trust domain, has signed; what it says is the caller's to compare. A certificate must
  // be valid when its key is first seen, and when our own files change: later it may run out, as under a connection.
  // INVALID_ARGUMENT for terms of another form, which only a router can have signed.
  absl::StatusOr<CapabilityTerms> Verify(const std::string& capability) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using SharedKey = std::shared_ptr<EVP_PKEY>;

  absl::StatusOr<SharedKey> FindKey(const internal::v1::CapabilityKey& key) ABSL_LOCKS_EXCLUDED(mutex_);

  const Credentials& credentials_;
  absl::Mutex mutex_;
  // The certified keys of this generation of the credentials, by their serialized CapabilityKey. At most
  // kMaxCapabilityKeys.
  int64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, SharedKey> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_CAPABILITY_H_
