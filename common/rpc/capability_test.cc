#include "common/rpc/capability.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "common/testing/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

namespace pb = internal::v1;
using ::testing::HasSubstr;

CapabilityTerms SomeTerms() {
  return {.key = {.job = {.high = 1, .low = 2}, .attempt = 3, .choice = 4},
          .source = {.high = 5, .low = 6},
          .reader = {.high = 7, .low = 8},
          .membership = MembershipTag({.high = 9, .low = 10}),
          .tenant = "alice",
          .first_block = 11};
}

// One process's certificate. Files are read anew by Replace alone.
class Process {
 public:
  Process(const TestAuthority& authority, const std::string& role, const std::string& domain = "test.baton") {
    const TestCertificate issued = authority.Issue({.names = {"URI:spiffe://" + domain + "/baton/" + role}});
    files_.Write(issued, authority);
    // Long enough that the watch itself never looks.
    credentials_ = *Credentials::Create(files_.names(), {}, 3'600'000);
  }
  void Replace(const TestCertificate& certificate, const TestAuthority& authority) {
    files_.Write(certificate, authority);
    credentials_->Reload();
  }
  void Trust(const std::string& authorities_pem) {
    WriteFile(files_.names().ca, authorities_pem);
    credentials_->Reload();
  }
  const Credentials& credentials() const { return *credentials_; }

 private:
  const TestTlsFiles files_;
  std::unique_ptr<Credentials> credentials_;
};

class CapabilityTest : public ::testing::Test {
 protected:
  // What a reader shows to whom the signer's process gave it.
  static pb::Capability Give(CapabilitySigner& signer, const CapabilityTerms& terms = SomeTerms()) {
    pb::Capability capability;
    *capability.mutable_terms() = signer.Sign(terms);
    *capability.mutable_key() = *signer.key();
    return capability;
  }
  std::string Refusal(const std::string& capability) {
    const auto terms = verifier_.Verify(capability);
    EXPECT_EQ(terms.status().code(), absl::StatusCode::kPermissionDenied) << terms.status();
    return std::string(terms.status().message());
  }

  const TestAuthority authority_;
  Process router_{authority_, "router"};
  Process worker_{authority_, "prefill-worker"};
  std::unique_ptr<CapabilitySigner> signer_ = *CapabilitySigner::Create(router_.credentials());
  CapabilityVerifier verifier_{worker_.credentials()};
};

TEST_F(CapabilityTest, WhatARouterSignedIsReadAsItWasGiven) {
  for (int i = 0; i < 2; ++i) {
    const auto terms = verifier_.Verify(Give(*signer_).SerializeAsString());
    ASSERT_TRUE(terms.ok()) << terms.status();
    EXPECT_EQ(*terms, SomeTerms());
  }
}

TEST_F(CapabilityTest, OnlyAMembersOwnIdGivesItsTag) {
  const MembershipId membership = {.high = 9, .low = 10};
  EXPECT_EQ(MembershipTag(membership), MembershipTag(membership));
  EXPECT_NE(MembershipTag(membership), membership);
  EXPECT_NE(MembershipTag(membership), MembershipTag({.high = 9, .low = 11}));
}

TEST_F(CapabilityTest, AChangedCapabilityIsRefused) {
  using Change = std::pair<const char*, void (*)(pb::Capability&, pb::CapabilityTerms&)>;
  const std::vector<Change> changes = {
      {"job", [](pb::Capability&, pb::CapabilityTerms& terms) { terms.mutable_key()->mutable_job()->back() ^= 1; }},
      {"attempt", [](pb::Capability&, pb::CapabilityTerms& terms) { terms.mutable_key()->set_attempt(4); }},
      {"choice", [](pb::Capability&, pb::CapabilityTerms& terms) { terms.mutable_key()->set_choice(5); }},
      {"source", [](pb::Capability&, pb::CapabilityTerms& terms) { terms.mutable_source()->back() ^= 1; }},
      {"reader", [](pb::Capability&, pb::CapabilityTerms& terms) { terms.mutable_reader()->back() ^= 1; }},
      {"membership", [](pb::Capability&, pb::CapabilityTerms& terms) { terms.mutable_membership()->back() ^= 1; }},
      {"tenant", [](pb::Capability&, pb::CapabilityTerms& terms) { terms.set_tenant("bob"); }},
      {"first block", [](pb::Capability&, pb::CapabilityTerms& terms) { terms.set_first_block(0); }},
      {"no signature", [](pb::Capability& all, pb::CapabilityTerms&) { all.mutable_terms()->clear_signature(); }},
      {"signature",
       [](pb::Capability& all, pb::CapabilityTerms&) { all.mutable_terms()->mutable_signature()->back() ^= 1; }},
      {"no key", [](pb::Capability& all, pb::CapabilityTerms&) { all.clear_key(); }},
      {"no chain", [](pb::Capability& all, pb::CapabilityTerms&) { all.mutable_key()->clear_chain(); }},
      {"key's signature",
       [](pb::Capability& all, pb::CapabilityTerms&) { all.mutable_key()->mutable_signature()->back() ^= 1; }},
      {"public key",
       [](pb::Capability& all, pb::CapabilityTerms&) { all.mutable_key()->mutable_public_key()->back() ^= 1; }},
  };
  // The right one is known, and no other passes for it.
  ASSERT_TRUE(verifier_.Verify(Give(*signer_).SerializeAsString()).ok());
  for (const auto& [what, change] : changes) {
    pb::Capability capability = Give(*signer_);
    pb::CapabilityTerms terms;
    ASSERT_TRUE(terms.ParseFromString(capability.terms().terms()));
    change(capability, terms);
    capability.mutable_terms()->set_terms(terms.SerializeAsString());
    EXPECT_NE(Refusal(capability.SerializeAsString()), "") << what;
  }
}

TEST_F(CapabilityTest, NoPartAndNoGarbageIsACapability) {
  const std::string whole = Give(*signer_).SerializeAsString();
  for (size_t size = 0; size < whole.size(); size += 1 + size / 16) Refusal(whole.substr(0, size));
  Refusal(std::string(64, '\xff'));
  Refusal(std::string(kMaxCapabilityBytes, 'x'));
  EXPECT_TRUE(verifier_.Verify(whole).ok());
}

TEST_F(CapabilityTest, TheLongestChainOfCertificatesFitsAndALongerOneIsRefusedWithWhatToDo) {
  TestCertificate issued = authority_.Issue({.names = {RoleName("router")}});
  // Text beside the certificates counts as well.
  issued.cert_pem.insert(0, std::string(kMaxCapabilityChainBytes - issued.cert_pem.size() - 1, '#') + "\n");
  router_.Replace(issued, authority_);
  const auto signer = CapabilitySigner::Create(router_.credentials());
  ASSERT_TRUE(signer.ok()) << signer.status();
  ASSERT_EQ((*signer)->key()->chain().size(), kMaxCapabilityChainBytes);
  const std::string capability = Give(**signer).SerializeAsString();
  EXPECT_LE(capability.size(), kMaxCapabilityBytes);
  EXPECT_TRUE(verifier_.Verify(capability).ok());
  issued.cert_pem.insert(0, "#");
  router_.Replace(issued, authority_);
  const absl::Status refused = CapabilitySigner::Create(router_.credentials()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("leave out what is not needed"));
}

TEST_F(CapabilityTest, NobodyButARouterOfTheAuthorityAndTheDomainSigns) {
  const TestAuthority other;
  const auto refusal_of = [&](const Process& process) {
    return Refusal(Give(**CapabilitySigner::Create(process.credentials())).SerializeAsString());
  };
  EXPECT_THAT(refusal_of(Process(authority_, "decode-worker")), HasSubstr("without the role router"));
  EXPECT_THAT(refusal_of(Process(authority_, "operator")), HasSubstr("without the role router"));
  EXPECT_THAT(refusal_of(Process(authority_, "router", "else.where")), HasSubstr("without the role router"));
  EXPECT_THAT(refusal_of(Process(other, "router")), HasSubstr("no authority in --tls-ca has issued"));
}

// A decode worker sees the router's certificate and its key's signature, and has a key and a certificate of its own.
TEST_F(CapabilityTest, AWorkersKeyDoesNotPassUnderTheRoutersCertificate) {
  const Process decode(authority_, "decode-worker");
  const auto own = *CapabilitySigner::Create(decode.credentials());
  pb::Capability forged = Give(*own);
  forged.mutable_key()->set_chain(signer_->key()->chain());
  EXPECT_THAT(Refusal(forged.SerializeAsString()), HasSubstr("certificate has not signed"));
  forged.mutable_key()->set_signature(signer_->key()->signature());
  EXPECT_THAT(Refusal(forged.SerializeAsString()), HasSubstr("certificate has not signed"));
  forged.mutable_key()->set_public_key(signer_->key()->public_key());
  EXPECT_THAT(Refusal(forged.SerializeAsString()), HasSubstr("signed by another key"));
}

TEST_F(CapabilityTest, CapabilitiesOfBothCertificatesCountWhileBothAuthoritiesDo) {
  const TestAuthority next;
  const std::string before = Give(*signer_).SerializeAsString();
  const auto former_key = signer_->key();
  EXPECT_EQ(signer_->key(), former_key);
  router_.Replace(next.Issue({.names = {RoleName("router")}}), next);
  EXPECT_NE(signer_->key(), former_key);
  const std::string after = Give(*signer_).SerializeAsString();
  EXPECT_TRUE(verifier_.Verify(before).ok());
  Refusal(after);
  worker_.Trust(authority_.cert_pem() + next.cert_pem());
  EXPECT_TRUE(verifier_.Verify(before).ok());
  EXPECT_TRUE(verifier_.Verify(after).ok());
}

TEST_F(CapabilityTest, AnAuthorityThatIsTakenAwayTakesItsRoutersCapabilitiesAlong) {
  const TestAuthority next;
  const std::string before = Give(*signer_).SerializeAsString();
  ASSERT_TRUE(verifier_.Verify(before).ok());
  worker_.Replace(next.Issue({.names = {RoleName("prefill-worker")}}), next);
  EXPECT_THAT(Refusal(before), HasSubstr("no authority in --tls-ca has issued"));
}

TEST_F(CapabilityTest, ARouterMayHaveAKeyOfRsa) {
  router_.Replace(authority_.Issue({.names = {RoleName("router")}, .is_rsa = true}), authority_);
  const auto terms = verifier_.Verify(Give(*signer_).SerializeAsString());
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(*terms, SomeTerms());
}

// Each router that starts has another key. More than kMaxCapabilityKeys of them push no right one out for good.
TEST_F(CapabilityTest, AnyNumberOfRoutersMayCome) {
  for (size_t i = 0; i < kMaxCapabilityKeys + 2; ++i) {
    const auto signer = *CapabilitySigner::Create(router_.credentials());
    EXPECT_TRUE(verifier_.Verify(Give(*signer).SerializeAsString()).ok());
  }
  EXPECT_TRUE(verifier_.Verify(Give(*signer_).SerializeAsString()).ok());
}

}  // namespace
}  // namespace baton::rpc
