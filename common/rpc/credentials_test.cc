#include "common/rpc/credentials.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "baton/v1/admin.grpc.pb.h"
#include "common/clock.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/grpc_server.h"
#include "common/testing/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kWatchMs = 20;
constexpr int64_t kPatienceMs = 20'000;

class AnsweringRouter final : public v1::AdminService::Service {
 public:
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*, v1::GetStatusResponse*) override {
    return grpc::Status::OK;
  }
};

TestCertificateOptions Router() { return {.names = {RoleName("router"), RoleName("client"), "IP:127.0.0.1"}}; }

// A server whose certificate is in files, and clients with files of their own.
class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    files_.Write(authority_.Issue(Router()), authority_);
    credentials_ = *Credentials::Create(files_.names(), {Role::kRouter}, kWatchMs);
  }

  void Serve(CallRules rules = {}, std::function<bool(std::string_view)> knows_key = nullptr) {
    auto server = StartGrpcServer({.bind = "127.0.0.1",
                                   .services = {&router_},
                                   .clients = ClientCaps(),
                                   .credentials = credentials_.get(),
                                   .guard = {.rules = rules, .knows_key = std::move(knows_key)}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void TearDown() override {
    server_.gate.reset();
    if (server_.server != nullptr) StopGrpcServer(*server_.server, 0);
  }

  grpc::Status Call(const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    const auto stub =
        v1::AdminService::NewStub(grpc::CreateCustomChannel(server_.address, credentials, ClientChannelArguments()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::GetStatusResponse response;
    return stub->GetStatus(&context, {}, &response);
  }

  // As a client that has this certificate and trusts this authority.
  grpc::StatusCode CallWith(const TestCertificate& certificate, const TestAuthority& trusted) const {
    const TestTlsFiles files;
    files.Write(certificate, trusted);
    grpc::SslCredentialsOptions options = {.pem_root_certs = trusted.cert_pem(),
                                           .pem_private_key = certificate.key_pem,
                                           .pem_cert_chain = certificate.cert_pem};
    return Call(grpc::SslCredentials(options)).error_code();
  }

  // As one that shows no certificate.
  grpc::StatusCode CallTrusting(const TestAuthority& trusted, const std::string& key = "") const {
    std::shared_ptr<grpc::ChannelCredentials> credentials =
        grpc::SslCredentials({.pem_root_certs = trusted.cert_pem(), .pem_private_key = "", .pem_cert_chain = ""});
    if (!key.empty()) {
      credentials = grpc::CompositeChannelCredentials(credentials, grpc::AccessTokenCredentials(key));
    }
    return Call(credentials).error_code();
  }

  void AwaitGeneration(int64_t generation) const {
    const TimeNs deadline = After(MonotonicClock().Now(), kPatienceMs);
    while (credentials_->generation() < generation) {
      ASSERT_LT(MonotonicClock().Now(), deadline) << "the new files are not read";
      absl::SleepFor(absl::Milliseconds(kWatchMs));
    }
  }

  const TestAuthority authority_;
  const TestTlsFiles files_;
  std::unique_ptr<Credentials> credentials_;
  AnsweringRouter router_;
  GrpcServer server_;
};

TEST_F(CredentialsTest, PlainTextIsRefused) {
  Serve();
  EXPECT_EQ(Call(grpc::InsecureChannelCredentials()).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CallTrusting(authority_), grpc::StatusCode::OK);
}

TEST_F(CredentialsTest, NewFilesServeNewConnectionsAndOldOnesGoOn) {
  Serve();
  const auto stub = v1::AdminService::NewStub(grpc::CreateCustomChannel(
      server_.address,
      grpc::SslCredentials({.pem_root_certs = authority_.cert_pem(), .pem_private_key = "", .pem_cert_chain = ""}),
      ClientChannelArguments()));
  const auto ask = [&stub] {
    grpc::ClientContext context;
    v1::GetStatusResponse response;
    return stub->GetStatus(&context, {}, &response).ok();
  };
  ASSERT_TRUE(ask());
  const TestAuthority other;
  EXPECT_EQ(CallTrusting(other), grpc::StatusCode::UNAVAILABLE);
  files_.Write(other.Issue(Router()), other);
  AwaitGeneration(2);
  EXPECT_EQ(CallTrusting(other), grpc::StatusCode::OK);
  EXPECT_EQ(CallTrusting(authority_), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CallWith(other.Issue(Router()), other), grpc::StatusCode::OK);
  EXPECT_TRUE(ask());
}

TEST_F(CredentialsTest, FilesThatAreWrongChangeNothing) {
  Serve({.port = Port::kClients, .requires_certificate = true});
  const TestCertificate client = authority_.Issue({.names = {RoleName("client")}});
  const TestCertificate before = authority_.Issue(Router());
  files_.Write(before, authority_);
  credentials_->Reload();
  const int64_t generation = credentials_->generation();
  const auto expect_no_change = [&](const std::string& why) {
    credentials_->Reload();
    EXPECT_EQ(credentials_->generation(), generation) << why;
    EXPECT_EQ(CallWith(client, authority_), grpc::StatusCode::OK) << why;
  };
  for (const std::string& path : {files_.names().cert, files_.names().key, files_.names().ca}) {
    WriteFile(path, "garbage");
    expect_no_change(path);
    files_.Write(before, authority_);
  }
  files_.Write(authority_.Issue({.names = {RoleName("client"), "IP:127.0.0.1"}}), authority_);
  expect_no_change("a certificate that lacks the role of the process");
  files_.Write(authority_.Issue({.names = Router().names, .begin_s = -100, .end_s = -10}), authority_);
  expect_no_change("a certificate whose time is over");
  files_.Write(before, authority_);
  expect_no_change("the same files");
  // And then whole ones count again.
  files_.Write(authority_.Issue(Router()), authority_);
  credentials_->Reload();
  EXPECT_GT(credentials_->generation(), generation);
  EXPECT_EQ(CallWith(client, authority_), grpc::StatusCode::OK);
}

TEST_F(CredentialsTest, CertificatesOfOthersAndOldOnesDoNotConnect) {
  Serve({.port = Port::kWorker});
  const TestAuthority other;
  EXPECT_EQ(CallWith(authority_.Issue({.names = {RoleName("decode-worker")}}), authority_), grpc::StatusCode::OK);
  EXPECT_EQ(CallWith(authority_.Issue({.names = {RoleName("client")}}), authority_),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(CallWith(authority_.Issue({.names = {"URI:spiffe://else.where/baton/decode-worker"}}), authority_),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(
      CallWith(authority_.Issue({.names = {RoleName("decode-worker")}, .begin_s = -100, .end_s = -10}), authority_),
      grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CallWith(other.Issue({.names = {RoleName("decode-worker")}}), authority_), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CallTrusting(authority_), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(CredentialsTest, AKeyIsAskedForWithEachCall) {
  Serve({.port = Port::kClients, .requires_key = true}, [](std::string_view key) { return key == "right"; });
  EXPECT_EQ(CallTrusting(authority_, "right"), grpc::StatusCode::OK);
  EXPECT_EQ(CallTrusting(authority_, "wrong"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CallTrusting(authority_), grpc::StatusCode::UNAUTHENTICATED);
  // The router's own certificate opens the status without one.
  EXPECT_EQ(CallWith(authority_.Issue(Router()), authority_), grpc::StatusCode::OK);
}

TEST_F(CredentialsTest, AChannelLeadsToItsRoleAlone) {
  Serve();
  EXPECT_TRUE(Call(credentials_->ForChannel(Peer::kRouter)).ok());
  const grpc::Status no_worker = Call(credentials_->ForChannel(Peer::kKvOwner));
  EXPECT_EQ(no_worker.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(no_worker.error_message(), HasSubstr("does not carry the role prefill-worker or mixed-worker"));
  const auto client = MakeClientCredentials({.files = {.cert = "", .key = "", .ca = files_.names().ca}, .api_key = ""});
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE(Call(*client).ok());
}

TEST_F(CredentialsTest, AClientLooksAtTheNameOfTheRouter) {
  files_.Write(authority_.Issue({.names = {RoleName("router"), "DNS:router.example"}}), authority_);
  credentials_ = *Credentials::Create(files_.names(), {Role::kRouter}, kWatchMs);
  Serve();
  const auto client = MakeClientCredentials({.files = {.cert = "", .key = "", .ca = files_.names().ca}, .api_key = ""});
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(Call(*client).error_code(), grpc::StatusCode::UNAVAILABLE);
  // Our own processes reach each other by addresses, which no certificate names.
  EXPECT_TRUE(Call(credentials_->ForChannel(Peer::kRouter)).ok());
}

TEST_F(CredentialsTest, ANewGenerationGetsANewChannel) {
  ChannelCache cache(credentials_.get());
  const Incarnation process{1, 2};
  const auto channel = cache.Get("127.0.0.1:1", process);
  EXPECT_EQ(cache.Get("127.0.0.1:1", process), channel);
  files_.Write(authority_.Issue(Router()), authority_);
  AwaitGeneration(2);
  EXPECT_NE(cache.Get("127.0.0.1:1", process), channel);
}

TEST(CredentialsCreateTest, TheRoleOfTheProcessIsNeeded) {
  const TestAuthority authority;
  const TestTlsFiles files;
  files.Write(authority.Issue({.names = {RoleName("router")}}), authority);
  const auto made = Credentials::Create(files.names(), {Role::kDecodeWorker});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("for decode-worker among its alternative names"));
}

TEST(CredentialsCreateTest, AKeyDoesNotTravelInPlainText) {
  const auto client = MakeClientCredentials({.files = {}, .api_key = "secret-key"});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(client.status().message()), ::testing::Not(HasSubstr("secret-key")));
}

}  // namespace
}  // namespace baton::rpc
