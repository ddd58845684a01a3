#include "common/rpc/capability.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/rpc/wire.h"
#include "common/status.h"

namespace baton::rpc {
namespace pb = internal::v1;
namespace {

using ContextPtr = std::unique_ptr<EVP_MD_CTX, Freer<EVP_MD_CTX_free>>;

// Longer than the random bytes that a client of TLS 1.2 chooses for the server to sign.
constexpr size_t kPaddingBytes = 64;
constexpr std::string_view kCertifiedText = "baton capability key, version 1";

std::string CertifiedText(std::string_view public_key) {
  return absl::StrCat(std::string(kPaddingBytes, ' '), ToAbsl(kCertifiedText), std::string(1, '\0'),
                      ToAbsl(public_key));
}

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// Keys of Ed25519 and Ed448 digest by themselves.
const EVP_MD* DigestOf(const EVP_PKEY* key) {
  const int id = EVP_PKEY_get_base_id(key);
  return id == EVP_PKEY_ED25519 || id == EVP_PKEY_ED448 ? nullptr : EVP_sha256();
}

// nullopt for a key that signs nothing.
std::optional<std::string> SignText(EVP_PKEY* key, std::string_view text) {
  const ContextPtr context(EVP_MD_CTX_new());
  size_t size = 0;
  std::string signature;
  bool is_signed = EVP_DigestSignInit(context.get(), nullptr, DigestOf(key), nullptr, key) == 1 &&
                   EVP_DigestSign(context.get(), nullptr, &size, Bytes(text), text.size()) == 1;
  if (is_signed) {
    signature.resize(size);
    is_signed = EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, Bytes(text),
                               text.size()) == 1;
  }
  ERR_clear_error();
  if (!is_signed) return std::nullopt;
  signature.resize(size);
  return signature;
}

bool IsSignedBy(EVP_PKEY* key, std::string_view text, std::string_view signature) {
  const ContextPtr context(EVP_MD_CTX_new());
  const bool is_signed =
      EVP_DigestVerifyInit(context.get(), nullptr, DigestOf(key), nullptr, key) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(text), text.size()) == 1;
  ERR_clear_error();
  return is_signed;
}

std::string PublicKeyOf(const EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  BATON_CHECK(size > 0);
  std::string text(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return text;
}

// Null for anything but exactly one key of P-256.
KeyPtr ReadPublicKey(const std::string& der) {
  const unsigned char* at = Bytes(der);
  KeyPtr key(d2i_PUBKEY(nullptr, &at, static_cast<int64_t>(der.size())));
  ERR_clear_error();
  const bool is_whole = key != nullptr && at == Bytes(der) + der.size();
  char group[32] = {};
  size_t size = 0;
  const bool is_p256 = is_whole && EVP_PKEY_get_base_id(key.get()) == EVP_PKEY_EC &&
                       EVP_PKEY_get_group_name(key.get(), group, sizeof(group), &size) == 1 &&
                       std::string_view(group, size) == "prime256v1";
  return is_p256 ? std::move(key) : nullptr;
}

absl::Status Denied(std::string_view what) {
  return absl::PermissionDeniedError(absl::StrCat("its capability ", ToAbsl(what)));
}

// The key of a certificate that an authority of ours has issued for a router of our trust domain.
absl::StatusOr<KeyPtr> RouterKeyOf(const std::string& chain_pem, const TlsMaterial& own) {
  const std::vector<X509Ptr> chain = ReadCertificates(chain_pem);
  if (chain.empty()) return Denied("has no certificate");
  if (const std::string why = WhyNotIssued(chain, ReadCertificates(own.ca_pem)); !why.empty()) {
    return Denied(absl::StrCat("has a certificate that no authority in --tls-ca has issued (", why, ")"));
  }
  RoleSet roles;
  for (const std::string& uri : UrisOf(*chain.front())) {
    const std::optional<RoleUri> read = ParseRoleUri(uri);
    if (read.has_value() && read->trust_domain == own.trust_domain) roles.Add(read->role);
  }
  if (!roles.Has(Role::kRouter)) return Denied("is of a certificate without the role router");
  KeyPtr key(X509_get_pubkey(chain.front().get()));
  ERR_clear_error();
  if (key == nullptr) return Denied("has a certificate without a key");
  return key;
}

pb::CapabilityTerms TermsToProto(const CapabilityTerms& terms) {
  pb::CapabilityTerms proto;
  ToProto(terms.key, proto.mutable_key());
  proto.set_source(ToBytes(terms.source));
  proto.set_reader(ToBytes(terms.reader));
  proto.set_membership(ToBytes(terms.membership));
  proto.set_tenant(terms.tenant);
  proto.set_first_block(terms.first_block);
  return proto;
}

absl::StatusOr<CapabilityTerms> ReadTerms(const std::string& text) {
  pb::CapabilityTerms proto;
  if (!proto.ParseFromString(text)) return Denied("has no terms");
  CapabilityTerms terms = {.tenant = proto.tenant(), .first_block = proto.first_block()};
  BATON_ASSIGN_OR_RETURN(terms.key, FromProto(proto.key()));
  BATON_ASSIGN_OR_RETURN(terms.source, FromBytes(proto.source()));
  BATON_ASSIGN_OR_RETURN(terms.reader, FromBytes(proto.reader()));
  BATON_ASSIGN_OR_RETURN(terms.membership, FromBytes(proto.membership()));
  return terms;
}

}  // namespace

Id128 MembershipTag(const MembershipId& membership) {
  const std::string text = ToBytes(membership);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(Bytes(text), text.size(), digest);
  return FromBytes(std::string(reinterpret_cast<const char*>(digest), text.size())).value();
}

absl::StatusOr<std::unique_ptr<CapabilitySigner>> CapabilitySigner::Create(const Credentials& credentials) {
  KeyPtr own(EVP_EC_gen("P-256"));
  if (own == nullptr) return absl::InternalError("OpenSSL makes no key of P-256");
  std::unique_ptr<CapabilitySigner> signer(new CapabilitySigner(credentials, std::move(own)));
  BATON_RETURN_IF_ERROR(signer->Certify());
  return signer;
}

absl::Status CapabilitySigner::Certify() {
  generation_ = credentials_.generation();
  const TlsMaterial material = credentials_.material();
  if (material.cert_pem.size() > kMaxCapabilityChainBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--tls-cert: the router's certificate and those between it and the ",
                                                   "authority have ", material.cert_pem.size(), " bytes, and at most ",
                                                   kMaxCapabilityChainBytes,
                                                   " are possible; leave out what is not needed"));
  }
  const KeyPtr tls_key(PEM_read_bio_PrivateKey(OpenPem(material.key_pem).get(), nullptr, nullptr, nullptr));
  auto key = std::make_shared<pb::CapabilityKey>();
  key->set_public_key(PublicKeyOf(own_.get()));
  key->set_chain(material.cert_pem);
  std::optional<std::string> signature;
  if (tls_key != nullptr) signature = SignText(tls_key.get(), CertifiedText(key->public_key()));
  if (!signature.has_value()) {
    return absl::InvalidArgumentError("--tls-key: the router's key signs nothing; give one of ECDSA, RSA or Ed25519");
  }
  key->set_signature(*std::move(signature));
  key_ = std::move(key);
  return absl::OkStatus();
}

std::shared_ptr<const pb::CapabilityKey> CapabilitySigner::key() {
  if (credentials_.generation() == generation_) return key_;
  if (const absl::Status certified = Certify(); !certified.ok()) {
    spdlog::error("{}; capabilities go on under the former certificate", std::string(certified.message()));
  }
  return key_;
}

pb::SignedTerms CapabilitySigner::Sign(const CapabilityTerms& terms) const {
  pb::SignedTerms proto;
  proto.set_terms(TermsToProto(terms).SerializeAsString());
  std::optional<std::string> signature = SignText(own_.get(), proto.terms());
  BATON_CHECK(signature.has_value());
  proto.set_signature(*std::move(signature));
  return proto;
}

absl::StatusOr<CapabilityVerifier::SharedKey> CapabilityVerifier::FindKey(const pb::CapabilityKey& key) {
  const int64_t generation = credentials_.generation();
  const std::string name = key.SerializeAsString();
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(generation_, generation) != generation) known_.clear();
    if (const auto it = known_.find(name); it != known_.end()) return it->second;
  }
  BATON_ASSIGN_OR_RETURN(const KeyPtr router, RouterKeyOf(key.chain(), credentials_.material()));
  if (!IsSignedBy(router.get(), CertifiedText(key.public_key()), key.signature())) {
    return Denied("is of a key that the router's certificate has not signed");
  }
  SharedKey read = ReadPublicKey(key.public_key());
  if (read == nullptr) return Denied("is of a key that is not one of P-256");
  absl::MutexLock lock(&mutex_);
  if (generation_ != generation) return read;
  if (known_.size() >= kMaxCapabilityKeys) known_.clear();
  known_.emplace(name, read);
  return read;
}

absl::StatusOr<CapabilityTerms> CapabilityVerifier::Verify(const std::string& capability) {
  pb::Capability proto;
  if (!proto.ParseFromString(capability)) return Denied("is none");
  BATON_ASSIGN_OR_RETURN(const SharedKey key, FindKey(proto.key()));
  if (!IsSignedBy(key.get(), proto.terms().terms(), proto.terms().signature())) {
    return Denied("was changed, or signed by another key");
  }
  return ReadTerms(proto.terms().terms());
}

}  // namespace baton::rpc
