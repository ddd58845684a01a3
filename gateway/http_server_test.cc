// The gateway's HTTP server over real sockets, with clients that behave and clients that do not.
#include "gateway/http_server.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/status.h"
#include "gateway/testing/test_tls.h"
#include "gateway/testing/tls_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "telemetry/testing/raw_client.h"

namespace baton::gateway {
namespace {

using telemetry::BodyOf;
using telemetry::GetRequest;
using telemetry::HeaderOf;
using telemetry::RawClient;
using telemetry::StatusOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kPatienceMs = 20'000;
constexpr absl::Duration kPatience = absl::Milliseconds(kPatienceMs);

// Gives the pieces that a test has put in.
class TestSource final : public BodySource {
 public:
  Piece Next() override {
    const absl::MutexLock lock(&mutex_);
    if (pieces_.empty()) return {};
    Piece piece = std::move(pieces_.front());
    pieces_.erase(pieces_.begin());
    return piece;
  }
  void Put(Piece piece) {
    const absl::MutexLock lock(&mutex_);
    pieces_.push_back(std::move(piece));
  }
  size_t waiting() const {
    const absl::MutexLock lock(&mutex_);
    return pieces_.size();
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<Piece> pieces_ ABSL_GUARDED_BY(mutex_);
};

std::string PostRequest(std::string_view path, std::string_view body, std::string_view more_lines = "") {
  return absl::StrCat("POST ", ToAbsl(path), " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ", body.size(), "\r\n",
                      ToAbsl(more_lines), "\r\n", ToAbsl(body));
}

enum class Transport { kPlain, kTls };

// A server with an echo, and a route whose exchanges the test answers by itself. In plain text and over TLS alike.
class HttpServerTest : public ::testing::TestWithParam<Transport> {
 protected:
  void Start(HttpServerOptions options = {}) {
    if (GetParam() == Transport::kTls) options.tls_context = [this] { return tls_->Current(); };
    server_ = std::make_unique<HttpServer>(std::move(options));
    server_->AddRoute("POST", "/echo", [](const std::shared_ptr<HttpExchange>& exchange) {
      const HttpRequest& request = exchange->request();
      exchange->Respond({.body = absl::StrCat(request.query, "|", request.body)});
    });
    server_->AddRoute("GET", "/lost", [](const std::shared_ptr<HttpExchange>&) {});
    for (const char* method : {"GET", "POST"}) {
      server_->AddRoute(method, "/held", [this](std::shared_ptr<HttpExchange> exchange) {
        exchange->SetOnDone([this](const absl::Status& status) {
          const absl::MutexLock lock(&mutex_);
          ends_.push_back(status.code());
        });
        const absl::MutexLock lock(&mutex_);
        held_.push_back(std::move(exchange));
      });
    }
    ASSERT_TRUE(server_->Start().ok());
  }

  // The system takes at most `receive_bytes` for the client where that is not 0.
  std::unique_ptr<RawClient> Connect(int receive_bytes = 0) {
    if (GetParam() == Transport::kPlain) return std::make_unique<RawClient>(server_->port(), receive_bytes);
    auto client = std::make_unique<TlsClient>(
        server_->port(), TlsClientOptions{.ca_pem = tls_->ca_pem(), .receive_bytes = receive_bytes});
    EXPECT_TRUE(client->is_connected());
    return client;
  }
  std::string Ask(const std::string& request, bool has_body = true) {
    const auto client = Connect();
    EXPECT_TRUE(client->Send(request));
    return client->ReadResponse(has_body);
  }
  std::shared_ptr<HttpExchange> Held(size_t index) {
    const absl::MutexLock lock(&mutex_);
    const auto is_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return held_.size() > index; };
    mutex_.AwaitWithTimeout(absl::Condition(&is_there), kPatience);
    return held_.at(index);
  }
  // How the exchanges of /held have ended, once there are so many.
  std::vector<absl::StatusCode> Ends(size_t count) {
    const absl::MutexLock lock(&mutex_);
    const auto are_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_.size() >= count; };
    mutex_.AwaitWithTimeout(absl::Condition(&are_there), kPatience);
    return ends_;
  }
  void AwaitStats(const std::function<bool(const HttpServerStats&)>& done) {
    const absl::Time end = absl::Now() + kPatience;
    while (!done(server_->stats()) && absl::Now() < end) std::this_thread::yield();
    EXPECT_TRUE(done(server_->stats()));
  }

  const std::unique_ptr<TestTls> tls_ = GetParam() == Transport::kTls ? std::make_unique<TestTls>() : nullptr;
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<HttpExchange>> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::StatusCode> ends_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<HttpServer> server_;
};

TEST_P(HttpServerTest, ARequestWithABodyIsAnswered) {
  Start();
  const std::string response = Ask(PostRequest("/echo?a=1", "hello"));
  EXPECT_EQ(StatusOf(response), 200);
  EXPECT_EQ(BodyOf(response), "a=1|hello");
  EXPECT_EQ(HeaderOf(response, "Content-Type"), "application/json");
  EXPECT_EQ(HeaderOf(response, "Connection"), "keep-alive");
}

TEST_P(HttpServerTest, AChunkedBodyIsRead) {
  Start();
  EXPECT_EQ(BodyOf(Ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")),
            "|abcde");
}

TEST_P(HttpServerTest, ManyRequestsGoOverOneConnectionAlsoWhenTheyComeAtOnce) {
  Start();
  const auto client = Connect();
  for (const char* body : {"1", "2"}) {
    ASSERT_TRUE(client->Send(PostRequest("/echo", body)));
    EXPECT_EQ(BodyOf(client->ReadResponse()), absl::StrCat("|", body));
  }
  ASSERT_TRUE(client->Send(PostRequest("/echo", "3") + PostRequest("/echo", "4") + PostRequest("/echo", "5")));
  for (const char* body : {"3", "4", "5"}) EXPECT_EQ(BodyOf(client->ReadResponse()), absl::StrCat("|", body));
}

// The second request lies with the server while the first one is answered.
TEST_P(HttpServerTest, ARequestThatCameDuringAnExchangeIsServedAfterIt) {
  Start();
  const auto client = Connect();
  ASSERT_TRUE(client->Send(GetRequest("/held")));
  const auto first = Held(0);
  ASSERT_TRUE(client->Send(GetRequest("/held")));
  first->Respond({.body = "one"});
  EXPECT_EQ(BodyOf(client->ReadResponse()), "one");
  Held(1)->Respond({.body = "two"});
  EXPECT_EQ(BodyOf(client->ReadResponse()), "two");
  EXPECT_THAT(Ends(2), ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kOk));
}

TEST_P(HttpServerTest, AStreamGoesOutPieceByPiece) {
  Start();
  const auto client = Connect();
  ASSERT_TRUE(client->Send(GetRequest("/held")));
  const auto exchange = Held(0);
  const auto source = std::make_shared<TestSource>();
  source->Put({.text = "data: 1\n\n"});
  exchange->Stream({.content_type = "text/event-stream"}, source);
  const std::string head = client->ReadUntil("\r\n\r\n");
  EXPECT_EQ(HeaderOf(head, "Content-Type"), "text/event-stream");
  EXPECT_EQ(HeaderOf(head, "Transfer-Encoding"), "chunked");
  EXPECT_EQ(client->ReadUntil("1\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  source->Put({.text = "x"});
  exchange->Wake();
  EXPECT_EQ(client->ReadUntil("x\r\n"), "1\r\nx\r\n");
  source->Put({.text = "end", .is_last = true});
  exchange->Wake();
  EXPECT_EQ(client->ReadUntil("0\r\n\r\n"), "3\r\nend\r\n0\r\n\r\n");
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kOk));
  ASSERT_TRUE(client->Send(PostRequest("/echo", "next")));
  EXPECT_EQ(BodyOf(client->ReadResponse()), "|next");
}

TEST_P(HttpServerTest, AStreamToAClientOfHttp10EndsWithItsConnection) {
  Start();
  const auto client = Connect();
  ASSERT_TRUE(client->Send("GET /held HTTP/1.0\r\n\r\n"));
  const auto source = std::make_shared<TestSource>();
  source->Put({.text = "one "});
  source->Put({.text = "two", .is_last = true});
  Held(0)->Stream({}, source);
  const std::string response = client->ReadToEnd();
  EXPECT_THAT(response, StartsWith("HTTP/1.0 200 OK\r\n"));
  EXPECT_EQ(BodyOf(response), "one two");
}

TEST_P(HttpServerTest, AClientThatLeavesEndsItsExchange) {
  Start();
  {
    const auto client = Connect();
    ASSERT_TRUE(client->Send(GetRequest("/held")));
    Held(0);
  }
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kCancelled));
  // Words to a client that is gone are no error.
  Held(0)->Respond({.body = "late"});
  AwaitStats([](const HttpServerStats& stats) { return stats.connections == 0 && stats.exchanges == 0; });
}

TEST_P(HttpServerTest, AClientThatLeavesItsStreamEndsTheExchange) {
  Start();
  const auto source = std::make_shared<TestSource>();
  {
    const auto client = Connect();
    ASSERT_TRUE(client->Send(GetRequest("/held")));
    Held(0)->Stream({}, source);
    client->ReadUntil("\r\n\r\n");
  }
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kCancelled));
}

// The server takes a piece from the source only when the client has taken the former one.
TEST_P(HttpServerTest, WhatASlowReaderDoesNotTakeWaitsWithTheSourceAndIsCutInTheEnd) {
  Start({.write_timeout_ms = 200});
  constexpr size_t kPieces = 64;
  const auto client = Connect(4096);
  ASSERT_TRUE(client->Send(GetRequest("/held")));
  const auto source = std::make_shared<TestSource>();
  for (size_t i = 0; i < kPieces; ++i) source->Put({.text = std::string(1 << 20, 'x')});
  Held(0)->Stream({}, source);
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kDeadlineExceeded));
  EXPECT_GT(source->waiting(), kPieces / 2);
}

TEST_P(HttpServerTest, AnExchangeThatIsAbortedClosesTheConnection) {
  Start();
  const auto client = Connect();
  ASSERT_TRUE(client->Send(GetRequest("/held")));
  Held(0)->Abort();
  EXPECT_EQ(client->ReadToEnd(), "");
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kAborted));
}

TEST_P(HttpServerTest, ARequestThatNobodyHoldsAnyMoreGets500) {
  Start();
  EXPECT_EQ(StatusOf(Ask(GetRequest("/lost"))), 500);
}

TEST_P(HttpServerTest, AHeadRequestGetsTheHeadAlone) {
  Start();
  const auto client = Connect();
  ASSERT_TRUE(client->Send("HEAD /held HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  Held(0)->Respond({.body = "body"});
  const std::string head = client->ReadResponse(/*has_body=*/false);
  EXPECT_EQ(HeaderOf(head, "Content-Length"), "4");
  ASSERT_TRUE(client->Send(PostRequest("/echo", "next")));
  EXPECT_EQ(BodyOf(client->ReadResponse()), "|next");
}

TEST_P(HttpServerTest, RefusalsAreMadeInTheFormOfTheApi) {
  Start({.max_body_bytes = 1000, .make_refusal = [](std::string_view path, int status, std::string message) {
           return HttpResponse{.status = status, .body = absl::StrCat(ToAbsl(path), "|", message)};
         }});
  const std::string response = Ask(GetRequest("/nothing"));
  EXPECT_EQ(StatusOf(response), 404);
  EXPECT_EQ(BodyOf(response), "/nothing|nothing is served here");
  EXPECT_EQ(HeaderOf(response, "Connection"), "keep-alive");
  const std::string other_method = Ask(GetRequest("/echo"));
  EXPECT_EQ(StatusOf(other_method), 405);
  EXPECT_EQ(HeaderOf(other_method, "Allow"), "POST");
  // A body that is too large by its length alone is not read beyond the header.
  const std::string too_large = Ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(StatusOf(too_large), 413);
  EXPECT_EQ(BodyOf(too_large), "/echo|a body has at most 1000 bytes");
}

TEST_P(HttpServerTest, WhatIsNoRequestIsRefusedAndClosesTheConnection) {
  Start({.max_body_bytes = 1000});
  const std::string long_header = absl::StrCat("X-Long: ", std::string(kMaxHttpHeaderBytes, 'x'), "\r\n");
  const std::vector<std::pair<std::string, int>> cases = {
      {"hello\r\n\r\n", 400},
      {"GET /held HTTP/2.0\r\nHost: localhost\r\n\r\n", 505},
      {"GET /held HTTP/1.1\r\n\r\n", 400},
      {"GET /held HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400},
      {"GET held HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {GetRequest("/held", long_header), 431},
      {PostRequest("/echo", std::string(1001, 'x')), 413},
      {PostRequest("/echo", "x", "Expect: a miracle\r\n"), 417},
      // Each of these would let a proxy and this server see different requests.
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length : 3\r\n\r\nabc", 400},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, identity\r\n\r\n", 501},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\na", 501},
      {"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {absl::StrCat("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n",
                    std::string(2000, 'x'), "\r\n0\r\n\r\n"),
       413}};
  for (const auto& [request, status] : cases) {
    SCOPED_TRACE(request.substr(0, 120));
    const auto client = Connect();
    client->Send(request);
    const std::string response = client->ReadToEnd();
    EXPECT_EQ(StatusOf(response), status);
    EXPECT_EQ(HeaderOf(response, "Connection"), "close");
  }
}

TEST_P(HttpServerTest, AClientMayAskWhetherToGoOnBeforeItSendsItsBody) {
  Start();
  const auto client = Connect();
  ASSERT_TRUE(
      client->Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_THAT(client->ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  ASSERT_TRUE(client->Send("ab"));
  EXPECT_EQ(BodyOf(client->ReadResponse()), "|ab");
}

// By DNS rebinding a web page makes a browser ask any address, but under the name of the page's own host.
TEST(HttpServerHostTest, AServerOnLoopbackInPlainTextIsAskedByItsOwnNamesAlone) {
  const auto status_of = [](const HttpServerOptions& options, const std::string& target, const std::string& host) {
    HttpServer server(options);
    server.AddRoute("GET", "/x", [](const std::shared_ptr<HttpExchange>& exchange) { exchange->Respond({}); });
    EXPECT_TRUE(server.Start().ok());
    RawClient client(server.port());
    client.Send(absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
    return StatusOf(client.ReadResponse());
  };
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "192.0.2.1"}) {
    EXPECT_EQ(status_of({}, "/x", host), 200) << host;
  }
  for (const char* host : {"rebound.example", "rebound.example:8000", "localhost.example", "127.0.0.1.example", ""}) {
    EXPECT_EQ(status_of({}, "/x", host), 421) << host;
  }
  EXPECT_EQ(status_of({}, "/x", "local host"), 400);
  // The target counts in place of the header.
  EXPECT_EQ(status_of({}, "http://rebound.example/x", "localhost"), 421);
  EXPECT_EQ(status_of({.hosts = {"proxy.example"}}, "/x", "proxy.example"), 200);
  EXPECT_EQ(status_of({.hosts = {"*"}}, "/x", "rebound.example"), 200);
  // Whoever reaches this one needs no name for it.
  EXPECT_EQ(status_of({.bind = "0.0.0.0"}, "/x", "rebound.example"), 200);
  TestTls tls;
  HttpServerOptions secured = {.tls_context = [&tls] { return tls.Current(); }};
  HttpServer server(secured);
  server.AddRoute("GET", "/x", [](const std::shared_ptr<HttpExchange>& exchange) { exchange->Respond({}); });
  ASSERT_TRUE(server.Start().ok());
  TlsClient client(server.port(), {.ca_pem = tls.ca_pem()});
  client.Send("GET /x HTTP/1.1\r\nHost: router.example\r\n\r\n");
  EXPECT_EQ(StatusOf(client.ReadResponse()), 200);
}

// The connection was allowed to be idle, and before that to shake hands, for far longer.
TEST_P(HttpServerTest, AClientThatSendsTooSlowlyIsClosed) {
  Start({.handshake_timeout_ms = kHttpIdleTimeoutMs, .header_timeout_ms = 100, .body_timeout_ms = 100});
  for (const char* begin : {"POST /echo", "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\na"}) {
    const auto client = Connect();
    ASSERT_TRUE(client->Send(begin));
    EXPECT_TRUE(client->HearsWithin(kPatienceMs));
    EXPECT_EQ(client->ReadToEnd(), "");
  }
}

TEST_P(HttpServerTest, AConnectionThatAsksForNothingIsClosed) {
  Start({.idle_timeout_ms = 100});
  const auto client = Connect();
  ASSERT_TRUE(client->Send(PostRequest("/echo", "x")));
  EXPECT_EQ(BodyOf(client->ReadResponse()), "|x");
  EXPECT_TRUE(client->HearsWithin(kPatienceMs));
}

TEST_P(HttpServerTest, TheConnectionThatHasWaitedLongestMakesRoom) {
  Start({.max_connections = 2});
  const auto busy = Connect();
  ASSERT_TRUE(busy->Send(GetRequest("/held")));
  const auto exchange = Held(0);
  const auto idle = Connect();
  AwaitStats([](const HttpServerStats& stats) { return stats.connections == 2; });
  const auto next = Connect();
  ASSERT_TRUE(next->Send(PostRequest("/echo", "x")));
  EXPECT_EQ(BodyOf(next->ReadResponse()), "|x");
  EXPECT_EQ(idle->ReadToEnd(), "");
  exchange->Respond({.body = "served"});
  EXPECT_EQ(BodyOf(busy->ReadResponse()), "served");
}

TEST_P(HttpServerTest, AServerThatEndsServesWhatRunsAndTakesNothingMore) {
  Start();
  const auto running = Connect();
  ASSERT_TRUE(running->Send(GetRequest("/held")));
  const auto exchange = Held(0);
  const auto idle = Connect();
  AwaitStats([](const HttpServerStats& stats) { return stats.connections == 2; });
  server_->StopAccepting();
  EXPECT_EQ(idle->ReadToEnd(), "");
  exchange->Respond({.body = "the last"});
  const std::string response = running->ReadToEnd();
  EXPECT_EQ(BodyOf(response), "the last");
  EXPECT_EQ(HeaderOf(response, "Connection"), "close");
}

TEST_P(HttpServerTest, AServerThatStopsEndsItsExchanges) {
  Start();
  const auto client = Connect();
  ASSERT_TRUE(client->Send(GetRequest("/held")));
  const auto exchange = Held(0);
  server_->Stop();
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kCancelled));
  server_.reset();
  // The exchange outlives the server.
  exchange->Respond({.body = "too late"});
}

// A reset in the middle of everything, from many clients at once.
TEST_P(HttpServerTest, ClientsThatComeAndGoAtAnyMomentLeaveNothingBehind) {
  Start();
  std::vector<std::thread> clients;
  for (int number = 0; number < 8; ++number) {
    clients.emplace_back([this, number] {
      for (int i = 0; i < 50; ++i) {
        const auto client = Connect();
        const std::string request = PostRequest("/echo", std::string(100 * number, 'x'));
        client->Send(request.substr(0, (i * 37 + number * 11) % (request.size() + 1)));
        if (i % 3 == 0) client->Send(request);
        if (i % 2 == 0) client->Finish();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  AwaitStats([](const HttpServerStats& stats) { return stats.connections == 0 && stats.exchanges == 0; });
  EXPECT_EQ(BodyOf(Ask(PostRequest("/echo", "still here"))), "|still here");
}

INSTANTIATE_TEST_SUITE_P(Transports, HttpServerTest, ::testing::Values(Transport::kPlain, Transport::kTls),
                         [](const auto& info) { return info.param == Transport::kPlain ? "Plain" : "Tls"; });

}  // namespace
}  // namespace baton::gateway
