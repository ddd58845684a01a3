// What the HTTP server does with TLS alone. http_server_test.cc runs everything else over TLS, too.
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gateway/http_server.h"
#include "gateway/testing/test_tls.h"
#include "gateway/testing/tls_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "telemetry/testing/raw_client.h"

namespace baton::gateway {
namespace {

using rpc::TestAuthority;
using rpc::TestCertificate;
using telemetry::BodyOf;
using telemetry::GetRequest;
using telemetry::RawClient;
using telemetry::StatusOf;
using ::testing::HasSubstr;

constexpr int kPatienceOfTlsMs = 20'000;
constexpr absl::Duration kTlsPatience = absl::Milliseconds(kPatienceOfTlsMs);
// Types of records.
constexpr char kAlert = 21;
constexpr char kHandshake = 22;

// Gives what a test has put in as one piece that is not the last one.
class OnePiece final : public BodySource {
 public:
  explicit OnePiece(std::string text) : text_(std::move(text)) {}
  Piece Next() override {
    // The session asks again once the piece is written.
    if (text_.empty() && !is_written_.HasBeenNotified()) is_written_.Notify();
    return {.text = std::exchange(text_, {})};
  }
  void AwaitWritten() const { EXPECT_TRUE(is_written_.WaitForNotificationWithTimeout(kTlsPatience)); }

 private:
  std::string text_;
  absl::Notification is_written_;
};

class HttpServerTlsTest : public ::testing::Test {
 protected:
  void Start(HttpServerOptions options = {}, bool requires_certificate = false) {
    tls_ = std::make_unique<TestTls>(requires_certificate);
    options.tls_context = [this] { return tls_->Current(); };
    server_ = std::make_unique<HttpServer>(std::move(options));
    // Says who asks.
    server_->AddRoute("GET", "/who", [](const std::shared_ptr<HttpExchange>& exchange) {
      const auto& peer = exchange->request().peer;
      std::string names = peer == nullptr ? "nobody" : "";
      if (peer != nullptr) {
        for (const std::string& uri : peer->uris) names += uri;
      }
      exchange->Respond({.body = names});
    });
    server_->AddRoute("GET", "/held", [this](std::shared_ptr<HttpExchange> exchange) {
      const absl::MutexLock lock(&mutex_);
      held_ = std::move(exchange);
    });
    ASSERT_TRUE(server_->Start().ok());
  }

  TlsClientOptions Trusting() const { return {.ca_pem = tls_->ca_pem()}; }
  TlsClientOptions Showing(const TestCertificate& certificate) const {
    return {.ca_pem = tls_->ca_pem(), .cert_pem = certificate.cert_pem, .key_pem = certificate.key_pem};
  }
  TlsClient Connect(const TlsClientOptions& options) const { return {server_->port(), options}; }
  // The body of the answer, empty without one.
  static std::string Who(TlsClient& client) {
    client.Send(GetRequest("/who"));
    return BodyOf(client.ReadResponse());
  }
  std::shared_ptr<HttpExchange> Held() {
    const absl::MutexLock lock(&mutex_);
    const auto is_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return held_ != nullptr; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&is_there), kTlsPatience));
    return held_;
  }
  void AwaitConnections(size_t count) const {
    const absl::Time end = absl::Now() + kTlsPatience;
    while (server_->stats().connections != count && absl::Now() < end) std::this_thread::yield();
    EXPECT_EQ(server_->stats().connections, count);
  }

  std::unique_ptr<TestTls> tls_;
  absl::Mutex mutex_;
  std::shared_ptr<HttpExchange> held_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTlsTest, TheServerSpeaksHttp11OverTls12And13) {
  Start();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClientOptions options = Trusting();
    options.version = version;
    TlsClient client = Connect(options);
    ASSERT_TRUE(client.is_connected());
    EXPECT_EQ(client.version(), version);
    EXPECT_EQ(client.protocol(), "http/1.1");
    EXPECT_EQ(Who(client), "nobody");
  }
  TlsClientOptions old = Trusting();
  old.version = TLS1_1_VERSION;
  EXPECT_FALSE(Connect(old).is_connected());
}

TEST_F(HttpServerTlsTest, AClientThatNamesNoProtocolIsServedAndOneThatNamesOthersIsNot) {
  Start();
  TlsClientOptions options = Trusting();
  options.protocol = "";
  TlsClient silent = Connect(options);
  EXPECT_EQ(silent.protocol(), "");
  EXPECT_EQ(Who(silent), "nobody");
  options.protocol = "h2";
  EXPECT_FALSE(Connect(options).is_connected());
}

TEST_F(HttpServerTlsTest, WhatIsNoHandshakeEndsTheConnection) {
  Start();
  for (const std::string& garbage : {std::string("\x16\x03\x01\x00\x05hello", 10), std::string(100, '\0'),
                                     std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string(100'000, 'x')}) {
    SCOPED_TRACE(garbage.substr(0, 20));
    RawClient client(server_->port());
    client.Send(garbage);
    // What does not even look like TLS gets no alert.
    const std::string answer = client.ReadToEnd();
    EXPECT_EQ(answer.empty() ? 0 : answer[0], garbage[0] == kHandshake ? kAlert : 0);
  }
  AwaitConnections(0);
}

TEST_F(HttpServerTlsTest, AClientOfPlainTextIsToldSo) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(GetRequest("/who")));
  const std::string answer = client.ReadToEnd();
  EXPECT_EQ(StatusOf(answer), 400);
  EXPECT_THAT(BodyOf(answer), HasSubstr("https"));
  AwaitConnections(0);
}

// The connection was allowed to be idle for far longer.
TEST_F(HttpServerTlsTest, AHandshakeThatIsNotGoneOnWithEnds) {
  Start({.handshake_timeout_ms = 100});
  for (const std::string& begin : {std::string(), std::string("\x16\x03\x01\x02\x00\x01\x00", 7)}) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.Send(begin));
    EXPECT_TRUE(client.HearsWithin(kPatienceOfTlsMs));
    EXPECT_EQ(client.ReadToEnd(), "");
  }
  AwaitConnections(0);
}

TEST_F(HttpServerTlsTest, AHandshakeThatIsNotGoneOnWithMakesRoom) {
  Start({.max_connections = 1});
  RawClient waiting(server_->port());
  ASSERT_TRUE(waiting.Send("\x16"));
  AwaitConnections(1);
  TlsClient next = Connect(Trusting());
  EXPECT_EQ(Who(next), "nobody");
  EXPECT_EQ(waiting.ReadToEnd(), "");
}

TEST_F(HttpServerTlsTest, ANewCertificateIsForNewConnections) {
  Start();
  TlsClient old = Connect(Trusting());
  const std::string before = old.ServerCertificate();
  const TestCertificate renewed = tls_->authority().Issue(TestTls::Router());
  tls_->Replace(renewed, tls_->authority());
  EXPECT_EQ(Connect(Trusting()).ServerCertificate(), renewed.cert_pem);
  EXPECT_NE(renewed.cert_pem, before);
  EXPECT_EQ(Who(old), "nobody");
  const TestAuthority other;
  tls_->Replace(other.Issue(TestTls::Router()), other);
  EXPECT_FALSE(Connect(Trusting()).is_connected());
  EXPECT_TRUE(Connect({.ca_pem = other.cert_pem()}).is_connected());
}

TEST_F(HttpServerTlsTest, FilesThatAreWrongChangeNothing) {
  Start();
  const std::string before = Connect(Trusting()).ServerCertificate();
  TestCertificate half = tls_->authority().Issue(TestTls::Router());
  half.cert_pem.resize(half.cert_pem.size() / 2);
  tls_->Replace(half, tls_->authority());
  EXPECT_EQ(Connect(Trusting()).ServerCertificate(), before);
}

TEST_F(HttpServerTlsTest, WhoShowsACertificateOfTheAuthorityIsKnownByIt) {
  Start({}, /*requires_certificate=*/true);
  TlsClient client = Connect(Showing(tls_->authority().Issue({.names = {rpc::RoleName("client")}})));
  EXPECT_EQ(Who(client), "spiffe://test.baton/baton/client");
  // Every request of the connection is that client's.
  EXPECT_EQ(Who(client), "spiffe://test.baton/baton/client");
}

TEST_F(HttpServerTlsTest, WhoShowsNoCertificateThatCountsGetsNoAnswer) {
  Start({}, /*requires_certificate=*/true);
  const TestAuthority other;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClientOptions none = Trusting();
    TlsClientOptions foreign = Showing(other.Issue({.names = {rpc::RoleName("client")}}));
    TlsClientOptions expired =
        Showing(tls_->authority().Issue({.names = {rpc::RoleName("client")}, .begin_s = -100, .end_s = -10}));
    for (TlsClientOptions options : {none, foreign, expired}) {
      options.version = version;
      TlsClient client = Connect(options);
      EXPECT_EQ(Who(client), "");
    }
  }
  AwaitConnections(0);
}

TEST_F(HttpServerTlsTest, AnAnswerThatEndsTheConnectionTellsTheEnd) {
  Start();
  TlsClient client = Connect(Trusting());
  ASSERT_TRUE(client.Send(GetRequest("/who", "Connection: close\r\n")));
  EXPECT_EQ(BodyOf(client.ReadToEnd()), "nobody");
  EXPECT_TRUE(client.was_told_the_end());
}

TEST_F(HttpServerTlsTest, AnIdleConnectionIsToldTheEnd) {
  Start({.idle_timeout_ms = 100});
  TlsClient client = Connect(Trusting());
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_TRUE(client.was_told_the_end());
}

// Otherwise a client of HTTP/1.0 would take the part for the whole.
TEST_F(HttpServerTlsTest, AnAnswerThatIsCutDoesNotEndInOrder) {
  Start();
  TlsClient client = Connect(Trusting());
  ASSERT_TRUE(client.Send("GET /held HTTP/1.0\r\n\r\n"));
  const auto piece = std::make_shared<OnePiece>("a part");
  Held()->Stream({}, piece);
  client.ReadUntil("a part");
  // A connection that is still sending never ends in order.
  piece->AwaitWritten();
  Held()->Abort();
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_FALSE(client.was_told_the_end());
}

// Each update is answered by TLS itself, which this client does not read.
TEST_F(HttpServerTlsTest, AClientThatAsksForKeysWithoutEndIsClosed) {
  Start();
  TlsClientOptions options = Trusting();
  options.receive_bytes = 4096;
  TlsClient client = Connect(options);
  constexpr int kMost = 1'000'000;
  int asked = 0;
  while (asked < kMost && client.AskForKeyUpdate()) ++asked;
  EXPECT_LT(asked, kMost);
  AwaitConnections(0);
}

TEST_F(HttpServerTlsTest, ClientsThatLeaveInTheirHandshakeLeaveNothingBehind) {
  Start();
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  for (size_t bytes = 0; bytes <= hello.size(); ++bytes) {
    RawClient client(server_->port());
    client.Send(hello.substr(0, bytes));
    if (bytes % 2 == 0) client.Finish();
  }
  AwaitConnections(0);
  TlsClient client = Connect(Trusting());
  EXPECT_EQ(Who(client), "nobody");
}

}  // namespace
}  // namespace baton::gateway
