// The admin server over real sockets, with clients that behave and clients that do not.
#include "telemetry/admin_server.h"

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "telemetry/testing/raw_client.h"

namespace baton::telemetry {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr absl::Duration kServerPatience = absl::Seconds(20);

// A server with a page, a page that says what it was asked for, and a stream of events.
class AdminServerTest : public ::testing::Test {
 protected:
  void Start(AdminServerOptions options = {}) {
    server_ = std::make_unique<AdminServer>(std::move(options));
    server_->AddRoute("/ok", [](const AdminRequest&) { return AdminResponse{.body = "ok\n"}; });
    server_->AddRoute(
        "/echo",
        [](const AdminRequest& request) {
          return AdminResponse{.status = 503,
                               .content_type = "text/html",
                               .body = absl::StrCat(std::string(request.path), "|", std::string(request.query)),
                               .headers = {{"X-Reason", "test"}}};
        },
        "default-src 'self'");
    server_->AddRoute("/large",
                      [](const AdminRequest&) { return AdminResponse{.body = std::string(kLargeBytes, 'x')}; });
    server_->AddEventStream("/events", [this](std::shared_ptr<EventStream> stream) {
      stream->Write(FormatEvent("hello", "1"));
      const absl::MutexLock lock(&mutex_);
      streams_.push_back(std::move(stream));
    });
    ASSERT_TRUE(server_->Start().ok());
  }

  // The response to one request on a connection of its own.
  std::string Ask(const std::string& request, bool has_body = true) {
    RawClient client(server_->port());
    EXPECT_TRUE(client.Send(request));
    return client.ReadResponse(has_body);
  }
  void AwaitStats(const std::function<bool(const AdminServerStats&)>& done) {
    const absl::Time end = absl::Now() + kServerPatience;
    while (!done(server_->stats()) && absl::Now() < end) std::this_thread::yield();
    EXPECT_TRUE(done(server_->stats()));
  }
  std::shared_ptr<EventStream> Stream(size_t index) {
    const absl::MutexLock lock(&mutex_);
    const auto is_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return streams_.size() > index; };
    mutex_.AwaitWithTimeout(absl::Condition(&is_there), kServerPatience);
    return streams_.at(index);
  }

  static constexpr size_t kLargeBytes = size_t{32} << 20;
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<EventStream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<AdminServer> server_;
};

TEST_F(AdminServerTest, ServesAPageWithTheHeadersOfSecurity) {
  Start();
  const std::string response = Ask(GetRequest("/ok"));
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(BodyOf(response), "ok\n");
  EXPECT_EQ(HeaderOf(response, "Content-Type"), "text/plain; charset=utf-8");
  EXPECT_EQ(HeaderOf(response, "Content-Length"), "3");
  EXPECT_EQ(HeaderOf(response, "X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(HeaderOf(response, "Cache-Control"), "no-store");
  EXPECT_EQ(HeaderOf(response, "Content-Security-Policy"), kStrictContentSecurityPolicy);
  EXPECT_THAT(HeaderOf(response, "Date"), EndsWith(" GMT"));
  EXPECT_EQ(HeaderOf(response, "Connection"), "") << "keep-alive is what 1.1 does anyway";
  EXPECT_THAT(server_->address(), StartsWith("127.0.0.1:"));
  EXPECT_GT(server_->cpu_ns(), 0);
}

TEST_F(AdminServerTest, AHandlerSeesPathAndQueryAndChoosesTheResponse) {
  Start();
  const std::string response = Ask(GetRequest("/echo?a=1&b=%20?"));
  EXPECT_THAT(response, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_EQ(BodyOf(response), "/echo|a=1&b=%20?");
  EXPECT_EQ(HeaderOf(response, "Content-Type"), "text/html");
  EXPECT_EQ(HeaderOf(response, "X-Reason"), "test");
  EXPECT_EQ(HeaderOf(response, "Content-Security-Policy"), "default-src 'self'");
  EXPECT_EQ(BodyOf(Ask(GetRequest("http://127.0.0.1:1/echo?x"))), "/echo|x") << "a target in absolute form";
}

TEST_F(AdminServerTest, HeadIsGetWithoutTheBody) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(
      client.Send("HEAD /large HTTP/1.1\r\nHost: localhost\r\n\r\n" + GetRequest("/ok", "Connection: close\r\n")));
  const std::string head = client.ReadResponse(/*has_body=*/false);
  EXPECT_EQ(StatusOf(head), 200);
  EXPECT_EQ(HeaderOf(head, "Content-Length"), std::to_string(kLargeBytes));
  EXPECT_EQ(BodyOf(client.ReadToEnd()), "ok\n") << "nothing but the next response follows";
  const std::string events = Ask("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n", false);
  EXPECT_EQ(HeaderOf(events, "Content-Type"), "text/event-stream");
  EXPECT_EQ(server_->stats().event_streams, 0u);
}

TEST_F(AdminServerTest, OtherMethodsGet405AndTheConnectionGoesOn) {
  Start();
  RawClient client(server_->port());
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"}) {
    ASSERT_TRUE(client.Send(absl::StrCat(method, " /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")));
    const std::string response = client.ReadResponse();
    EXPECT_EQ(StatusOf(response), 405) << method;
    EXPECT_EQ(HeaderOf(response, "Allow"), "GET, HEAD");
  }
  ASSERT_TRUE(client.Send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_EQ(StatusOf(client.ReadResponse()), 405);
  ASSERT_TRUE(client.Send(GetRequest("/ok")));
  EXPECT_EQ(StatusOf(client.ReadResponse()), 200);
  EXPECT_EQ(StatusOf(Ask("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n")), 405);
}

TEST_F(AdminServerTest, UnknownPathsGet404) {
  Start();
  for (const char* path : {"/", "/ok/", "/OK", "//ok", "/o%6b", "/../ok", "/metrics"}) {
    EXPECT_EQ(StatusOf(Ask(GetRequest(path))), 404) << path;
  }
}

TEST_F(AdminServerTest, OnlyExpectedNamesAreServed) {
  Start({.hosts = {"router.example.com"}});
  const auto status = [&](std::string_view lines, std::string_view target = "/ok", std::string_view version = "1.1") {
    return StatusOf(Ask(
        absl::StrCat("GET ", std::string(target), " HTTP/", std::string(version), "\r\n", std::string(lines), "\r\n")));
  };
  EXPECT_EQ(status("Host: router.example.com:9464\r\n"), 200);
  EXPECT_EQ(status("host: LOCALHOST\r\n"), 200);
  EXPECT_EQ(status("Host: [::1]:1\r\n"), 200);
  EXPECT_EQ(status("Host: evil.example\r\n"), 421);
  EXPECT_EQ(status("Host:\r\n"), 421);
  EXPECT_EQ(status("Host: a b\r\n"), 400);
  EXPECT_EQ(status(""), 400) << "1.1 needs a Host";
  EXPECT_EQ(status("Host: localhost\r\nHost: localhost\r\n"), 400);
  EXPECT_EQ(status("", "/ok", "1.0"), 200);
  EXPECT_EQ(status("Host: evil.example\r\n", "/ok", "1.0"), 421);
  EXPECT_EQ(status("Host: evil.example\r\n", "http://localhost/ok"), 200) << "the target's own host counts";
  EXPECT_EQ(status("Host: localhost\r\n", "http://evil.example/ok"), 421);
  EXPECT_EQ(status("Host: localhost\r\n", "https://localhost/ok"), 400);
  EXPECT_EQ(status("Host: localhost\r\n", "ok"), 400);
}

TEST_F(AdminServerTest, PipelinedRequestsAreAnsweredInOrder) {
  Start();
  RawClient client(server_->port());
  std::string requests;
  for (int i = 0; i < 100; ++i) requests += GetRequest(absl::StrCat("/echo?", i));
  requests +=
      "POST /ok HTTP/1.1\r\nHost: localhost\r\n\r\n" + GetRequest("/ok", "Connection: close\r\n") + GetRequest("/echo");
  ASSERT_TRUE(client.Send(requests));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(BodyOf(client.ReadResponse()), absl::StrCat("/echo|", i));
  EXPECT_EQ(StatusOf(client.ReadResponse()), 405);
  const std::string last = client.ReadToEnd();
  EXPECT_EQ(BodyOf(last), "ok\n") << "nothing follows the last response";
  EXPECT_EQ(HeaderOf(last, "Connection"), "close");
}

TEST_F(AdminServerTest, ARequestMayComeByteByByte) {
  Start();
  RawClient client(server_->port());
  for (int i = 0; i < 2; ++i) {
    for (const char c : GetRequest("/ok")) ASSERT_TRUE(client.Send(std::string_view(&c, 1)));
    EXPECT_EQ(BodyOf(client.ReadResponse()), "ok\n");
  }
}

TEST_F(AdminServerTest, AConnectionOf10EndsUnlessItAsksToStay) {
  Start();
  RawClient once(server_->port());
  ASSERT_TRUE(once.Send("GET /ok HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(BodyOf(once.ReadToEnd()), "ok\n");
  RawClient stays(server_->port());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stays.Send("GET /ok HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    const std::string response = stays.ReadResponse();
    EXPECT_EQ(BodyOf(response), "ok\n");
    EXPECT_EQ(HeaderOf(response, "Connection"), "keep-alive");
  }
}

TEST_F(AdminServerTest, BodiesAreRefusedAndNeverTakenForRequests) {
  Start();
  const std::string hidden = GetRequest("/echo?hidden");
  for (const std::string& lines :
       {absl::StrCat("Content-Length: ", hidden.size(), "\r\n"), std::string("Transfer-Encoding: chunked\r\n")}) {
    for (const char* method : {"GET", "POST"}) {
      RawClient client(server_->port());
      ASSERT_TRUE(client.Send(absl::StrCat(method, " /ok HTTP/1.1\r\nHost: localhost\r\n", lines, "\r\n", hidden)));
      const std::string response = client.ReadToEnd();
      EXPECT_EQ(StatusOf(response), std::string(method) == "GET" ? 413 : 405) << lines;
      EXPECT_THAT(response, Not(HasSubstr("hidden")));
    }
  }
}

TEST_F(AdminServerTest, GarbageGets400AndTheConnectionEnds) {
  Start();
  for (const std::string& garbage : std::vector<std::string>{
           "\x16\x03\x01\x02\x01\x01\xFC\x03\x03 a TLS hello\r\n\r\n", "GET\r\n\r\n", "GET  /ok HTTP/1.1\r\n\r\n",
           "\r\n\r\n\r\n", std::string("\0\0\0\0\r\n\r\n", 8), "GET /ok HTTP/1.1\r\nno colon\r\n\r\n",
           "GET /o\x01k HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET /ok HTTP/1.1\r\nHost: localhost\r\n folded: line\r\n: no name\r\n\r\n",
           "GET /ok HTTP/1.1\nHost: localhost\n\n", "GET /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
           "GET /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
           "GET /ok HTTP/1.1\r\nHost : localhost\r\n\r\n"}) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.Send(garbage));
    client.Finish();
    const std::string response = client.ReadToEnd();
    EXPECT_THAT(StatusOf(response), AnyOf(400, 505)) << garbage << " -> " << response;
    EXPECT_EQ(HeaderOf(response, "Connection"), "close");
  }
  EXPECT_EQ(StatusOf(Ask("GET /ok HTTP/2.0\r\nHost: localhost\r\n\r\n")), 505);
  EXPECT_EQ(StatusOf(Ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")), 505);
  EXPECT_EQ(StatusOf(Ask(GetRequest("/ok"))), 200);
}

TEST_F(AdminServerTest, AHeaderMayHave16KiBAndNoMore) {
  Start();
  const std::string bare = GetRequest("/ok", "X: \r\n");
  const auto of_size = [&](size_t bytes) {
    return GetRequest("/ok", absl::StrCat("X: ", std::string(bytes - bare.size(), 'x'), "\r\n"));
  };
  EXPECT_EQ(StatusOf(Ask(of_size(kMaxAdminHeaderBytes))), 200);
  EXPECT_EQ(StatusOf(Ask(of_size(kMaxAdminHeaderBytes + 1))), 431);
  EXPECT_EQ(StatusOf(Ask(GetRequest("/" + std::string(1 << 16, 'x')))), 431);
  std::string many_lines;
  for (int i = 0; i < 4000; ++i) many_lines += "a: b\r\n";
  EXPECT_EQ(StatusOf(Ask(GetRequest("/ok", many_lines))), 431);
}

TEST_F(AdminServerTest, TheLastResponseArrivesAlsoWhileItsClientStillSends) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(GetRequest("/" + std::string(2 * kMaxAdminHeaderBytes, 'x'))));
  EXPECT_EQ(StatusOf(client.ReadResponse()), 431);
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(client.Send(std::string(4096, 'x')));
  client.Finish();
  EXPECT_TRUE(client.EndsInOrder());
}

TEST_F(AdminServerTest, AClientThatSendsOnAfterItsLastResponseIsCut) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(GetRequest("/ok", "Connection: close\r\n")));
  const absl::Time end = absl::Now() + kServerPatience;
  while (client.Send(std::string(65536, 'x')) && absl::Now() < end) {
  }
  EXPECT_LT(absl::Now(), end);
}

TEST_F(AdminServerTest, AHeaderThatTakesTooLongEndsTheConnection) {
  Start({.header_timeout_ms = 100});
  RawClient slow(server_->port());
  ASSERT_TRUE(slow.Send("GET /ok HTTP/1.1\r\nHost: "));
  EXPECT_EQ(slow.ReadToEnd(), "");
  // A byte now and then does not help.
  RawClient loris(server_->port());
  const absl::Time began = absl::Now();
  while (loris.Send("x") && !loris.HearsWithin(5) && absl::Now() - began < kServerPatience) {
  }
  EXPECT_LT(absl::Now() - began, kServerPatience);
  EXPECT_EQ(StatusOf(Ask(GetRequest("/ok"))), 200);
}

TEST_F(AdminServerTest, AnIdleConnectionEndsAfterItsTimeout) {
  Start({.idle_timeout_ms = 100});
  RawClient silent(server_->port());
  RawClient used(server_->port());
  ASSERT_TRUE(used.Send(GetRequest("/ok")));
  EXPECT_EQ(StatusOf(used.ReadResponse()), 200);
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_EQ(used.ReadToEnd(), "");
  AwaitStats([](const AdminServerStats& stats) { return stats.connections == 0; });
}

TEST_F(AdminServerTest, AClientThatDoesNotReadItsResponseIsCut) {
  Start({.write_timeout_ms = 200});
  RawClient client(server_->port(), 4096);
  ASSERT_TRUE(client.Send(GetRequest("/large")));
  AwaitStats([](const AdminServerStats& stats) { return stats.requests == 1; });
  AwaitStats([](const AdminServerStats& stats) { return stats.connections == 0; });
  EXPECT_LT(client.ReadToEnd().size(), kLargeBytes);
}

TEST_F(AdminServerTest, BeyondTheBoundANewConnectionTakesThePlaceOfTheOneThatWaitedLongest) {
  Start({.max_connections = 4});
  std::vector<std::unique_ptr<RawClient>> loris;
  for (int i = 0; i < 4; ++i) {
    loris.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_TRUE(loris.back()->Send("GET /ok HTTP/1.1\r\n"));
    AwaitStats([&](const AdminServerStats& stats) { return stats.connections == static_cast<size_t>(i) + 1; });
  }
  RawClient late(server_->port());
  ASSERT_TRUE(late.Send(GetRequest("/ok")));
  EXPECT_EQ(StatusOf(late.ReadResponse()), 200);
  EXPECT_EQ(loris[0]->ReadToEnd(), "") << "the first one was the longest";
  ASSERT_TRUE(loris[1]->Send("Host: localhost\r\n\r\n"));
  EXPECT_EQ(StatusOf(loris[1]->ReadResponse()), 200) << "the others go on";
  EXPECT_EQ(server_->stats().connections, 4u);
}

TEST_F(AdminServerTest, WhereEveryConnectionIsBusyANewOneIsClosed) {
  Start({.max_connections = 2});
  std::vector<std::unique_ptr<RawClient>> viewers;
  for (int i = 0; i < 2; ++i) {
    viewers.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_TRUE(viewers.back()->Send(GetRequest("/events")));
    Stream(static_cast<size_t>(i));
  }
  RawClient third(server_->port());
  third.Send(GetRequest("/ok"));
  EXPECT_EQ(third.ReadToEnd(), "");
  EXPECT_FALSE(Stream(0)->closed());
  EXPECT_FALSE(Stream(1)->closed());
}

TEST_F(AdminServerTest, ManyConnectionsAreServedTogether) {
  Start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 100; ++i) clients.push_back(std::make_unique<RawClient>(server_->port()));
  for (int round = 0; round < 3; ++round) {
    for (const auto& client : clients) ASSERT_TRUE(client->Send(GetRequest("/ok")));
    for (const auto& client : clients) EXPECT_EQ(BodyOf(client->ReadResponse()), "ok\n");
  }
  EXPECT_EQ(server_->stats().requests, 300u);
  EXPECT_EQ(server_->stats().connections, 100u);
  clients.clear();
  AwaitStats([](const AdminServerStats& stats) { return stats.connections == 0; });
}

TEST_F(AdminServerTest, EventsReachTheirViewerFromAnyThread) {
  Start();
  RawClient viewer(server_->port());
  ASSERT_TRUE(viewer.Send(GetRequest("/events")));
  const std::string header = viewer.ReadUntil("\r\n\r\n");
  EXPECT_EQ(StatusOf(header), 200);
  EXPECT_EQ(HeaderOf(header, "Content-Type"), "text/event-stream");
  EXPECT_EQ(HeaderOf(header, "X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(viewer.ReadUntil("\n\n"), "event: hello\ndata: 1\n\n");
  EXPECT_TRUE(Stream(0)->Write(FormatEvent("n", "2")));
  EXPECT_EQ(viewer.ReadUntil("\n\n"), "event: n\ndata: 2\n\n");
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(Stream(0)->Write(FormatEvent("n", std::to_string(i))));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(viewer.ReadUntil("\n\n"), absl::StrCat("event: n\ndata: ", i, "\n\n"));
  AwaitStats([](const AdminServerStats& stats) { return stats.event_streams == 1 && stats.event_bytes > 1000; });
  Stream(0)->Write(FormatEvent("n", "last"));
  Stream(0)->Close();
  EXPECT_EQ(viewer.ReadToEnd(), "event: n\ndata: last\n\n");
  AwaitStats([](const AdminServerStats& stats) { return stats.event_streams == 0; });
}

TEST_F(AdminServerTest, AViewerThatLeavesClosesItsStream) {
  Start();
  auto viewer = std::make_unique<RawClient>(server_->port());
  ASSERT_TRUE(viewer->Send(GetRequest("/events")));
  viewer->ReadUntil("\n\n");
  EXPECT_FALSE(Stream(0)->closed());
  viewer.reset();
  const absl::Time end = absl::Now() + kServerPatience;
  while (!Stream(0)->closed() && absl::Now() < end) std::this_thread::yield();
  EXPECT_FALSE(Stream(0)->Write("x"));
  AwaitStats([](const AdminServerStats& stats) { return stats.event_streams == 0; });
}

TEST_F(AdminServerTest, AViewerThatDoesNotReadIsClosedAndTheOthersSeeEverything) {
  constexpr size_t kUnread = size_t{1} << 20;
  Start({.max_unread_event_bytes = kUnread});
  RawClient lazy(server_->port(), 4096);
  RawClient eager(server_->port());
  ASSERT_TRUE(lazy.Send(GetRequest("/events")));
  const std::shared_ptr<EventStream> to_lazy = Stream(0);
  ASSERT_TRUE(eager.Send(GetRequest("/events")));
  const std::shared_ptr<EventStream> to_eager = Stream(1);
  eager.ReadUntil("\n\n");
  const std::string event = FormatEvent("n", std::string(10'000, 'x'));
  size_t written = 0;
  // The bound, and what the system's buffers of both ends hold.
  constexpr size_t kMost = kUnread + (size_t{8} << 20);
  while (to_lazy->Write(event)) {
    ASSERT_LT(written += event.size(), kMost);
    ASSERT_TRUE(to_eager->Write(event));
    ASSERT_EQ(eager.ReadUntil("\n\n"), event);
  }
  EXPECT_GE(written, kUnread - event.size());
  EXPECT_TRUE(to_lazy->closed());
  EXPECT_FALSE(to_eager->closed());
  AwaitStats([](const AdminServerStats& stats) { return stats.event_streams == 1; });
}

TEST_F(AdminServerTest, AViewerThatDoesNotReadIsCutAlsoWhenLittleIsWritten) {
  Start({.write_timeout_ms = 200});
  RawClient lazy(server_->port(), 4096);
  ASSERT_TRUE(lazy.Send(GetRequest("/events")));
  // More than the system takes, and less than the stream may hold.
  EXPECT_TRUE(Stream(0)->Write(std::string(size_t{7} << 20, 'x')));
  AwaitStats([](const AdminServerStats& stats) { return stats.event_streams == 0; });
  EXPECT_TRUE(Stream(0)->closed());
}

TEST_F(AdminServerTest, AViewerHasNothingToSay) {
  Start();
  RawClient viewer(server_->port());
  ASSERT_TRUE(viewer.Send(GetRequest("/events")));
  viewer.ReadUntil("\n\n");
  while (viewer.Send(std::string(4096, 'x')) && !Stream(0)->closed()) {
  }
  EXPECT_TRUE(Stream(0)->closed());
}

TEST_F(AdminServerTest, ViewersBeyondTheBoundGet503) {
  Start({.max_event_streams = 2});
  std::vector<std::unique_ptr<RawClient>> viewers;
  for (size_t i = 0; i < 2; ++i) {
    viewers.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_TRUE(viewers.back()->Send(GetRequest("/events")));
    Stream(i);
  }
  const std::string refusal = Ask(GetRequest("/events"));
  EXPECT_EQ(StatusOf(refusal), 503);
  EXPECT_EQ(HeaderOf(refusal, "Retry-After"), "5");
  viewers.pop_back();
  AwaitStats([](const AdminServerStats& stats) { return stats.event_streams == 1; });
  RawClient third(server_->port());
  ASSERT_TRUE(third.Send(GetRequest("/events")));
  EXPECT_EQ(StatusOf(third.ReadUntil("\n\n")), 200);
}

TEST_F(AdminServerTest, StopEndsAtOnceAndClosesWhatOthersKeep) {
  Start();
  RawClient viewer(server_->port(), 4096);
  ASSERT_TRUE(viewer.Send(GetRequest("/events")));
  const std::shared_ptr<EventStream> stream = Stream(0);
  stream->Write(std::string(size_t{7} << 20, 'x'));
  RawClient idle(server_->port());
  RawClient in_header(server_->port());
  ASSERT_TRUE(in_header.Send("GET "));
  AwaitStats([](const AdminServerStats& stats) { return stats.connections == 3; });
  const absl::Time began = absl::Now();
  server_->Stop();
  EXPECT_LT(absl::Now() - began, absl::Seconds(5));
  EXPECT_TRUE(stream->closed());
  EXPECT_FALSE(stream->Write("x"));
  EXPECT_EQ(idle.ReadToEnd(), "");
  server_.reset();
  EXPECT_FALSE(stream->Write("x")) << "a stream outlives its server";
  stream->Close();
}

TEST_F(AdminServerTest, WritersMayGoOnWhileTheServerStops) {
  Start();
  RawClient viewer(server_->port());
  ASSERT_TRUE(viewer.Send(GetRequest("/events")));
  std::thread writer([stream = Stream(0)] {
    while (stream->Write("data: x\n\n")) {
    }
  });
  for (int i = 0; i < 10; ++i) viewer.ReadUntil("\n\n");
  server_.reset();
  writer.join();
}

TEST_F(AdminServerTest, APortThatIsTakenIsAnErrorThatNamesTheFlag) {
  Start();
  AdminServer second({.port = server_->port()});
  const absl::Status status = second.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("--admin-port"), HasSubstr("in use")));
}

TEST_F(AdminServerTest, AnAddressThatIsNotOursIsAnErrorThatNamesTheFlag) {
  for (const char* bind : {"192.0.2.1", "no.such.host.invalid", "127.0.0.1:80"}) {
    AdminServer server({.bind = bind, .bind_flag = "--admin-bind"});
    const absl::Status status = server.Start();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bind;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("--admin-bind"), HasSubstr(bind)));
  }
}

TEST_F(AdminServerTest, ServesIpv6) {
  AdminServer server({.bind = "[::1]"});
  const absl::Status status = server.Start();
  if (!status.ok()) GTEST_SKIP() << status;
  EXPECT_THAT(server.address(), StartsWith("[::1]:"));
}

}  // namespace
}  // namespace baton::telemetry
