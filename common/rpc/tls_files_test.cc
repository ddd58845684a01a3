#include "common/rpc/tls_files.h"

#include <string>

#include "common/testing/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest() { Write(); }

  void Write(TestCertificateOptions options = {.names = {RoleName("router"), RoleName("mixed-worker")}}) {
    certificate_ = authority_.Issue(options);
    files_.Write(certificate_, authority_);
  }

  // One line that names the file.
  std::string Refusal(const std::string& path) {
    const auto material = LoadTlsFiles(files_.names());
    EXPECT_EQ(material.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(material.status().message());
    EXPECT_THAT(message, AllOf(HasSubstr(path), Not(HasSubstr("\n")), Not(HasSubstr("PRIVATE"))));
    return message;
  }

  const TestAuthority authority_;
  const TestTlsFiles files_;
  TestCertificate certificate_;
};

TEST_F(TlsFilesTest, TheRolesOfACertificateAreRead) {
  const auto material = LoadTlsFiles(files_.names());
  ASSERT_TRUE(material.ok()) << material.status();
  EXPECT_EQ(material->trust_domain, "test.baton");
  EXPECT_EQ(material->roles, RoleSet({Role::kRouter, Role::kMixedWorker}));
  EXPECT_EQ(material->key_pem, certificate_.key_pem);
  EXPECT_FALSE(material->valid_until.empty());
}

TEST_F(TlsFilesTest, AClientMayHaveAnAuthorityAlone) {
  const auto material = LoadTlsFiles({.cert = "", .key = "", .ca = files_.names().ca});
  ASSERT_TRUE(material.ok()) << material.status();
  EXPECT_TRUE(material->roles.empty());
  EXPECT_TRUE(material->key_pem.empty());
}

TEST_F(TlsFilesTest, AMissingFileIsNamed) {
  for (const std::string& path : {files_.names().cert, files_.names().key, files_.names().ca}) {
    Write();
    ASSERT_EQ(remove(path.c_str()), 0);
    EXPECT_THAT(Refusal(path), HasSubstr("No such file"));
  }
}

TEST_F(TlsFilesTest, WhatIsNoPemIsNamed) {
  for (const std::string& path : {files_.names().cert, files_.names().key, files_.names().ca}) {
    for (const std::string& content : {std::string(), std::string("no PEM\n"), std::string(5000, '\0')}) {
      Write();
      WriteFile(path, content);
      EXPECT_THAT(Refusal(path), HasSubstr("in PEM"));
    }
  }
}

TEST_F(TlsFilesTest, AFileThatIsHalfWrittenIsNamed) {
  WriteFile(files_.names().cert, certificate_.cert_pem.substr(0, certificate_.cert_pem.size() / 2));
  Refusal(files_.names().cert);
  Write();
  WriteFile(files_.names().key, certificate_.key_pem.substr(0, certificate_.key_pem.size() / 2));
  Refusal(files_.names().key);
  Write();
  // The second of two certificates.
  WriteFile(files_.names().ca, authority_.cert_pem() + authority_.cert_pem().substr(0, 100));
  Refusal(files_.names().ca);
}

TEST_F(TlsFilesTest, AKeyOfAnotherCertificateIsRefused) {
  WriteFile(files_.names().key, authority_.Issue({}).key_pem);
  EXPECT_THAT(Refusal(files_.names().key), HasSubstr("not the key of the certificate"));
}

TEST_F(TlsFilesTest, AKeyThatEverybodyMayReadIsRefused) {
  WriteFile(files_.names().key, certificate_.key_pem, 0644);
  EXPECT_THAT(Refusal(files_.names().key), HasSubstr("run chmod o-rwx"));
  WriteFile(files_.names().key, certificate_.key_pem, 0640);
  EXPECT_TRUE(LoadTlsFiles(files_.names()).ok());
}

TEST_F(TlsFilesTest, AnEncryptedKeyIsRefusedWithoutAQuestion) {
  WriteFile(files_.names().key, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
  Refusal(files_.names().key);
}

TEST_F(TlsFilesTest, ACertificateCountsFromItsBeginToItsEnd) {
  Write({.names = {RoleName("router")}, .begin_s = -100, .end_s = -10});
  EXPECT_THAT(Refusal(files_.names().cert), HasSubstr("has expired"));
  Write({.names = {RoleName("router")}, .begin_s = 1000, .end_s = 2000});
  EXPECT_THAT(Refusal(files_.names().cert), HasSubstr("not valid before"));
}

TEST_F(TlsFilesTest, ACertificateOfAnotherAuthorityIsRefused) {
  const TestAuthority other;
  WriteFile(files_.names().ca, other.cert_pem());
  EXPECT_THAT(Refusal(files_.names().cert), HasSubstr("no authority in --tls-ca"));
  // Both, while authorities change.
  WriteFile(files_.names().ca, other.cert_pem() + authority_.cert_pem());
  EXPECT_TRUE(LoadTlsFiles(files_.names()).ok());
}

TEST_F(TlsFilesTest, RolesOfTwoTrustDomainsAreRefused) {
  Write({.names = {RoleName("router"), "URI:spiffe://else.where/baton/router"}});
  EXPECT_THAT(Refusal(files_.names().cert), HasSubstr("two trust domains"));
}

TEST_F(TlsFilesTest, APathThatIsNoFileIsRefused) {
  const auto material = LoadTlsFiles({.cert = "", .key = "", .ca = "/"});
  EXPECT_THAT(std::string(material.status().message()), HasSubstr("--tls-ca /: this is no file"));
}

}  // namespace
}  // namespace baton::rpc
