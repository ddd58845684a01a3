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

// A server with an echo, and a route whose exchanges the test answers by itself.
class HttpServerTest : public ::testing::Test {
 protected:
  void Start(HttpServerOptions options = {}) {
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

  std::string Ask(const std::string& request, bool has_body = true) {
    RawClient client(server_->port());
    EXPECT_TRUE(client.Send(request));
    return client.ReadResponse(has_body);
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

  absl::Mutex mutex_;
  std::vector<std::shared_ptr<HttpExchange>> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::StatusCode> ends_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ARequestWithABodyIsAnswered) {
  Start();
  const std::string response = Ask(PostRequest("/echo?a=1", "hello"));
  EXPECT_EQ(StatusOf(response), 200);
  EXPECT_EQ(BodyOf(response), "a=1|hello");
  EXPECT_EQ(HeaderOf(response, "Content-Type"), "application/json");
  EXPECT_EQ(HeaderOf(response, "Connection"), "keep-alive");
}

TEST_F(HttpServerTest, AChunkedBodyIsRead) {
  Start();
  EXPECT_EQ(BodyOf(Ask("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")),
            "|abcde");
}

TEST_F(HttpServerTest, ManyRequestsGoOverOneConnectionAlsoWhenTheyComeAtOnce) {
  Start();
  RawClient client(server_->port());
  for (const char* body : {"1", "2"}) {
    ASSERT_TRUE(client.Send(PostRequest("/echo", body)));
    EXPECT_EQ(BodyOf(client.ReadResponse()), absl::StrCat("|", body));
  }
  ASSERT_TRUE(client.Send(PostRequest("/echo", "3") + PostRequest("/echo", "4") + PostRequest("/echo", "5")));
  for (const char* body : {"3", "4", "5"}) EXPECT_EQ(BodyOf(client.ReadResponse()), absl::StrCat("|", body));
}

// The second request lies with the server while the first one is answered.
TEST_F(HttpServerTest, ARequestThatCameDuringAnExchangeIsServedAfterIt) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(GetRequest("/held")));
  const auto first = Held(0);
  ASSERT_TRUE(client.Send(GetRequest("/held")));
  first->Respond({.body = "one"});
  EXPECT_EQ(BodyOf(client.ReadResponse()), "one");
  Held(1)->Respond({.body = "two"});
  EXPECT_EQ(BodyOf(client.ReadResponse()), "two");
  EXPECT_THAT(Ends(2), ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kOk));
}

TEST_F(HttpServerTest, AStreamGoesOutPieceByPiece) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(GetRequest("/held")));
  const auto exchange = Held(0);
  const auto source = std::make_shared<TestSource>();
  source->Put({.text = "data: 1\n\n"});
  exchange->Stream({.content_type = "text/event-stream"}, source);
  const std::string head = client.ReadUntil("\r\n\r\n");
  EXPECT_EQ(HeaderOf(head, "Content-Type"), "text/event-stream");
  EXPECT_EQ(HeaderOf(head, "Transfer-Encoding"), "chunked");
  EXPECT_EQ(client.ReadUntil("1\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  source->Put({.text = "x"});
  exchange->Wake();
  EXPECT_EQ(client.ReadUntil("x\r\n"), "1\r\nx\r\n");
  source->Put({.text = "end", .is_last = true});
  exchange->Wake();
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "3\r\nend\r\n0\r\n\r\n");
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kOk));
  ASSERT_TRUE(client.Send(PostRequest("/echo", "next")));
  EXPECT_EQ(BodyOf(client.ReadResponse()), "|next");
}

TEST_F(HttpServerTest, AStreamToAClientOfHttp10EndsWithItsConnection) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send("GET /held HTTP/1.0\r\n\r\n"));
  const auto source = std::make_shared<TestSource>();
  source->Put({.text = "one "});
  source->Put({.text = "two", .is_last = true});
  Held(0)->Stream({}, source);
  const std::string response = client.ReadToEnd();
  EXPECT_THAT(response, StartsWith("HTTP/1.0 200 OK\r\n"));
  EXPECT_EQ(BodyOf(response), "one two");
}

TEST_F(HttpServerTest, AClientThatLeavesEndsItsExchange) {
  Start();
  {
    RawClient client(server_->port());
    ASSERT_TRUE(client.Send(GetRequest("/held")));
    Held(0);
  }
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kCancelled));
  // Words to a client that is gone are no error.
  Held(0)->Respond({.body = "late"});
  AwaitStats([](const HttpServerStats& stats) { return stats.connections == 0 && stats.exchanges == 0; });
}

TEST_F(HttpServerTest, AClientThatLeavesItsStreamEndsTheExchange) {
  Start();
  const auto source = std::make_shared<TestSource>();
  {
    RawClient client(server_->port());
    ASSERT_TRUE(client.Send(GetRequest("/held")));
    Held(0)->Stream({}, source);
    client.ReadUntil("\r\n\r\n");
  }
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kCancelled));
}

// The server takes a piece from the source only when the client has taken the former one.
TEST_F(HttpServerTest, WhatASlowReaderDoesNotTakeWaitsWithTheSourceAndIsCutInTheEnd) {
  Start({.write_timeout_ms = 200});
  constexpr size_t kPieces = 64;
  RawClient client(server_->port(), 4096);
  ASSERT_TRUE(client.Send(GetRequest("/held")));
  const auto source = std::make_shared<TestSource>();
  for (size_t i = 0; i < kPieces; ++i) source->Put({.text = std::string(1 << 20, 'x')});
  Held(0)->Stream({}, source);
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kDeadlineExceeded));
  EXPECT_GT(source->waiting(), kPieces / 2);
}

TEST_F(HttpServerTest, AnExchangeThatIsAbortedClosesTheConnection) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(GetRequest("/held")));
  Held(0)->Abort();
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kAborted));
}

TEST_F(HttpServerTest, ARequestThatNobodyHoldsAnyMoreGets500) {
  Start();
  EXPECT_EQ(StatusOf(Ask(GetRequest("/lost"))), 500);
}

TEST_F(HttpServerTest, AHeadRequestGetsTheHeadAlone) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send("HEAD /held HTTP/1.1\r\nHost: x\r\n\r\n"));
  Held(0)->Respond({.body = "body"});
  const std::string head = client.ReadResponse(/*has_body=*/false);
  EXPECT_EQ(HeaderOf(head, "Content-Length"), "4");
  ASSERT_TRUE(client.Send(PostRequest("/echo", "next")));
  EXPECT_EQ(BodyOf(client.ReadResponse()), "|next");
}

TEST_F(HttpServerTest, RefusalsAreMadeInTheFormOfTheApi) {
  Start({.make_refusal = [](std::string_view path, int status, std::string message) {
    return HttpResponse{.status = status, .body = absl::StrCat(ToAbsl(path), "|", message)};
  }});
  const std::string response = Ask(GetRequest("/nothing"));
  EXPECT_EQ(StatusOf(response), 404);
  EXPECT_EQ(BodyOf(response), "/nothing|nothing is served here");
  EXPECT_EQ(HeaderOf(response, "Connection"), "keep-alive");
  const std::string other_method = Ask(GetRequest("/echo"));
  EXPECT_EQ(StatusOf(other_method), 405);
  EXPECT_EQ(HeaderOf(other_method, "Allow"), "POST");
}

TEST_F(HttpServerTest, WhatIsNoRequestIsRefusedAndClosesTheConnection) {
  Start({.max_body_bytes = 1000});
  const std::string long_header = absl::StrCat("X-Long: ", std::string(kMaxHttpHeaderBytes, 'x'), "\r\n");
  const std::vector<std::pair<std::string, int>> cases = {
      {"hello\r\n\r\n", 400},
      {"GET /held HTTP/2.0\r\nHost: x\r\n\r\n", 505},
      {"GET /held HTTP/1.1\r\n\r\n", 400},
      {"GET /held HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
      {"GET held HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {GetRequest("/held", long_header), 431},
      {PostRequest("/echo", std::string(1001, 'x')), 413},
      {PostRequest("/echo", "x", "Expect: a miracle\r\n"), 417},
      // Each of these would let a proxy and this server see different requests.
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\n\r\nabc", 400},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {absl::StrCat("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n",
                    std::string(2000, 'x'), "\r\n0\r\n\r\n"),
       413}};
  for (const auto& [request, status] : cases) {
    SCOPED_TRACE(request.substr(0, 120));
    RawClient client(server_->port());
    client.Send(request);
    const std::string response = client.ReadToEnd();
    EXPECT_EQ(StatusOf(response), status);
    EXPECT_EQ(HeaderOf(response, "Connection"), "close");
  }
}

TEST_F(HttpServerTest, AClientMayAskWhetherToGoOnBeforeItSendsItsBody) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  ASSERT_TRUE(client.Send("ab"));
  EXPECT_EQ(BodyOf(client.ReadResponse()), "|ab");
}

// The connection was allowed to be idle for far longer.
TEST_F(HttpServerTest, AClientThatSendsTooSlowlyIsClosed) {
  Start({.header_timeout_ms = 100, .body_timeout_ms = 100});
  for (const char* begin : {"POST /echo", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na"}) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.Send(begin));
    EXPECT_TRUE(client.HearsWithin(kPatienceMs));
    EXPECT_EQ(client.ReadToEnd(), "");
  }
}

TEST_F(HttpServerTest, AConnectionThatAsksForNothingIsClosed) {
  Start({.idle_timeout_ms = 100});
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(PostRequest("/echo", "x")));
  EXPECT_EQ(BodyOf(client.ReadResponse()), "|x");
  EXPECT_TRUE(client.HearsWithin(kPatienceMs));
}

TEST_F(HttpServerTest, TheConnectionThatHasWaitedLongestMakesRoom) {
  Start({.max_connections = 2});
  RawClient busy(server_->port());
  ASSERT_TRUE(busy.Send(GetRequest("/held")));
  const auto exchange = Held(0);
  RawClient idle(server_->port());
  AwaitStats([](const HttpServerStats& stats) { return stats.connections == 2; });
  RawClient next(server_->port());
  ASSERT_TRUE(next.Send(PostRequest("/echo", "x")));
  EXPECT_EQ(BodyOf(next.ReadResponse()), "|x");
  EXPECT_EQ(idle.ReadToEnd(), "");
  exchange->Respond({.body = "served"});
  EXPECT_EQ(BodyOf(busy.ReadResponse()), "served");
}

TEST_F(HttpServerTest, AServerThatEndsServesWhatRunsAndTakesNothingMore) {
  Start();
  RawClient running(server_->port());
  ASSERT_TRUE(running.Send(GetRequest("/held")));
  const auto exchange = Held(0);
  RawClient idle(server_->port());
  AwaitStats([](const HttpServerStats& stats) { return stats.connections == 2; });
  server_->StopAccepting();
  EXPECT_EQ(idle.ReadToEnd(), "");
  exchange->Respond({.body = "the last"});
  const std::string response = running.ReadToEnd();
  EXPECT_EQ(BodyOf(response), "the last");
  EXPECT_EQ(HeaderOf(response, "Connection"), "close");
}

TEST_F(HttpServerTest, AServerThatStopsEndsItsExchanges) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(GetRequest("/held")));
  const auto exchange = Held(0);
  server_->Stop();
  EXPECT_THAT(Ends(1), ElementsAre(absl::StatusCode::kCancelled));
  server_.reset();
  // The exchange outlives the server.
  exchange->Respond({.body = "too late"});
}

// A reset in the middle of everything, from many clients at once.
TEST_F(HttpServerTest, ClientsThatComeAndGoAtAnyMomentLeaveNothingBehind) {
  Start();
  std::vector<std::thread> clients;
  for (int number = 0; number < 8; ++number) {
    clients.emplace_back([this, number] {
      for (int i = 0; i < 50; ++i) {
        RawClient client(server_->port());
        const std::string request = PostRequest("/echo", std::string(100 * number, 'x'));
        client.Send(request.substr(0, (i * 37 + number * 11) % (request.size() + 1)));
        if (i % 3 == 0) client.Send(request);
        if (i % 2 == 0) client.Finish();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  AwaitStats([](const HttpServerStats& stats) { return stats.connections == 0 && stats.exchanges == 0; });
  EXPECT_EQ(BodyOf(Ask(PostRequest("/echo", "still here"))), "|still here");
}

}  // namespace
}  // namespace baton::gateway
