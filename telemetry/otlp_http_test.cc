// OTLP over HTTP to collectors that accept, refuse, hang, break and lie.
#include "telemetry/otlp_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "telemetry/gzip.h"
#include "telemetry/testing/http_receiver.h"
#include "telemetry/testing/raw_client.h"

namespace baton::telemetry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace pb = opentelemetry::proto;

constexpr char kProtobufLine[] = "Content-Type: application/x-protobuf\r\n";
constexpr int64_t kLongMs = 20'000;

OtlpSettings SettingsFor(int port) {
  OtlpSettings settings;
  settings.protocol = OtlpProtocol::kHttpProtobuf;
  settings.endpoint = {.host = "127.0.0.1", .port = port, .path = "/v1/traces"};
  return settings;
}

SendResult SendTo(const OtlpSettings& settings, const std::string& message = "spans", int64_t timeout_ms = kLongMs) {
  const auto sender = MakeOtlpHttpSender(settings);
  EXPECT_TRUE(sender.ok()) << sender.status();
  return (*sender)->Send(message, timeout_ms);
}

// The result of a collector that answers so.
SendResult ResultOf(const std::string& answer) {
  HttpReceiver receiver([&](const std::string&) { return answer; });
  return SendTo(SettingsFor(receiver.port()));
}

std::string Inflate(const std::string& compressed) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string bytes(size_t{1} << 22, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream.avail_in = static_cast<uInt>(compressed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  inflateEnd(&stream);
  return bytes;
}

TEST(OtlpHttp, PostsTheMessageWithItsHeaders) {
  HttpReceiver receiver([](const std::string&) { return HttpAnswer("200 OK", "", kProtobufLine); });
  OtlpSettings settings = SettingsFor(receiver.port());
  settings.headers = {{"api-key", "a secret"}, {"x-tenant", "t"}};
  const std::string message("\0\1spans\xFF", 8);
  const SendResult result = SendTo(settings, message);
  EXPECT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(receiver.requests().size(), 1u);
  const std::string request = receiver.requests()[0];
  EXPECT_THAT(request, StartsWith("POST /v1/traces HTTP/1.1\r\n"));
  EXPECT_EQ(HeaderOf(request, "Host"), absl::StrCat("127.0.0.1:", receiver.port()));
  EXPECT_EQ(HeaderOf(request, "Content-Type"), "application/x-protobuf");
  EXPECT_EQ(HeaderOf(request, "api-key"), "a secret");
  EXPECT_EQ(HeaderOf(request, "x-tenant"), "t");
  EXPECT_THAT(HeaderOf(request, "User-Agent"), StartsWith("baton/"));
  EXPECT_EQ(HeaderOf(request, "Content-Encoding"), "");
  EXPECT_EQ(BodyOf(request), message);
}

TEST(OtlpHttp, CompressesWhereItIsToldTo) {
  HttpReceiver receiver([](const std::string&) { return HttpAnswer("200 OK", ""); });
  OtlpSettings settings = SettingsFor(receiver.port());
  settings.gzip = true;
  const std::string message = std::string(1 << 20, 'x') + "end";
  EXPECT_TRUE(SendTo(settings, message).status.ok());
  const std::string request = receiver.requests().at(0);
  EXPECT_EQ(HeaderOf(request, "Content-Encoding"), "gzip");
  EXPECT_LT(BodyOf(request).size(), message.size() / 50);
  EXPECT_EQ(Inflate(BodyOf(request)), message);
}

TEST(OtlpHttp, GzipKeepsEveryText) {
  for (const std::string& text : {std::string(), std::string("a"), std::string(3 << 20, '\0')}) {
    EXPECT_EQ(Inflate(Gzip(text)), text);
  }
}

TEST(OtlpHttp, ANameIsLookedUp) {
  HttpReceiver receiver([](const std::string&) { return HttpAnswer("200 OK", ""); });
  OtlpSettings settings = SettingsFor(receiver.port());
  settings.endpoint.host = "localhost";
  EXPECT_TRUE(SendTo(settings).status.ok()) << "also where ::1, on which nobody listens, comes first";
  settings.endpoint.host = "no.such.host.invalid";
  const SendResult result = SendTo(settings);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("no.such.host.invalid"));
  EXPECT_TRUE(result.retryable);
}

// Listens on the port of another loopback address, and never accepts.
class SilentListener {
 public:
  SilentListener(const char* address, int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(inet_pton(AF_INET, address, &to.sin_addr), 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
  }
  ~SilentListener() { close(fd_); }

 private:
  const int fd_;
};

TEST(OtlpHttp, ATryThatFailsAtOneAddressOfSeveralIsFollowedByOneAtTheNext) {
  HttpReceiver receiver([](const std::string&) { return HttpAnswer("503 Busy", ""); });
  const SilentListener silent("127.0.0.2", receiver.port());
  OtlpSettings settings = SettingsFor(receiver.port());
  settings.endpoint.host = "collector.test";
  const auto sender = *MakeOtlpHttpSender(settings, [](const std::string&) {
    return std::vector<std::string>{"127.0.0.2", "127.0.0.1"};
  });
  SendResult first;
  do {
    first = sender->Send("spans", 100);
    // On a busy machine the thread of the lookup may take all of the time.
  } while (absl::StrContains(first.status.message(), "not resolved"));
  EXPECT_EQ(first.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(sender->Send("spans", kLongMs).status.message()), HasSubstr("503"));
  EXPECT_THAT(std::string(sender->Send("spans", kLongMs).status.message()), HasSubstr("503"))
      << "an address that answers, whatever it says, stays the first";
}

TEST(OtlpHttp, PartialSuccessIsSuccess) {
  pb::collector::trace::v1::ExportTraceServiceResponse response;
  response.mutable_partial_success()->set_rejected_spans(7);
  response.mutable_partial_success()->set_error_message("too old");
  const SendResult result = ResultOf(HttpAnswer("200 OK", response.SerializeAsString(), kProtobufLine));
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.rejected_spans, 7);
  EXPECT_EQ(result.message, "too old");
  EXPECT_EQ(ResultOf(HttpAnswer("200 OK", response.SerializeAsString(), "Content-Type: text/html\r\n")).rejected_spans,
            0);
  EXPECT_TRUE(ResultOf(HttpAnswer("202 Accepted", "\xFF\xFF", kProtobufLine)).status.ok()) << "taken is taken";
}

TEST(OtlpHttp, OnlyTheStatusesOfTheSpecificationMayBeTriedAgain) {
  for (const auto& [status, retryable] : std::vector<std::pair<std::string, bool>>{{"429 Too Many Requests", true},
                                                                                   {"502 Bad Gateway", true},
                                                                                   {"503 Service Unavailable", true},
                                                                                   {"504 Gateway Timeout", true},
                                                                                   {"400 Bad Request", false},
                                                                                   {"401 Unauthorized", false},
                                                                                   {"404 Not Found", false},
                                                                                   {"413 Payload Too Large", false},
                                                                                   {"500 Internal Server Error", false},
                                                                                   {"301 Moved Permanently", false}}) {
    const SendResult result = ResultOf(HttpAnswer(status, "the reason\r\n", "Location: http://127.0.0.1:1/\r\n"));
    EXPECT_FALSE(result.status.ok()) << status;
    EXPECT_EQ(result.retryable, retryable) << status;
    EXPECT_THAT(std::string(result.status.message()), AllOf(HasSubstr(status.substr(0, 3)), HasSubstr("the reason")));
  }
}

TEST(OtlpHttp, TheErrorOfACollectorIsRead) {
  google::rpc::Status status;
  status.set_message("unknown tenant");
  const SendResult result = ResultOf(HttpAnswer("400 Bad Request", status.SerializeAsString(), kProtobufLine));
  EXPECT_EQ(result.status.message(), "HTTP status 400: unknown tenant");
}

TEST(OtlpHttp, RetryAfterIsHeard) {
  EXPECT_EQ(ResultOf(HttpAnswer("503 Busy", "", "Retry-After: 7\r\n")).retry_after_ms, 7000);
  EXPECT_EQ(ResultOf(HttpAnswer("503 Busy", "", "Retry-After: soon\r\n")).retry_after_ms, std::nullopt);
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  EXPECT_EQ(ParseRetryAfterMs("0", now), 0);
  EXPECT_EQ(ParseRetryAfterMs("-3", now), 0);
  EXPECT_EQ(ParseRetryAfterMs("99999999", now), 3'600'000);
  EXPECT_EQ(ParseRetryAfterMs("Tue, 14 Nov 2023 22:13:30 GMT", now), 10'000);
  EXPECT_EQ(ParseRetryAfterMs("Tue, 14 Nov 2023 22:13:10 GMT", now), 0) << "the past means now";
  EXPECT_EQ(ParseRetryAfterMs("", now), std::nullopt);
}

TEST(OtlpHttp, ACollectorThatIsGoneBreaksOrTalksNonsenseIsAnErrorThatMayPass) {
  int free_port = 0;
  {
    HttpReceiver receiver([](const std::string&) { return std::string(); });
    free_port = receiver.port();
  }
  const SendResult gone = SendTo(SettingsFor(free_port));
  EXPECT_TRUE(gone.retryable);
  EXPECT_THAT(std::string(gone.status.message()), HasSubstr("refused"));
  for (const std::string& answer : std::vector<std::string>{
           "", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "SSH-2.0-OpenSSH_9.2\r\n",
           "HTTP/1.1 200 OK\r\n" + std::string(1 << 20, 'x'), HttpAnswer("200 OK", std::string(3 << 20, 'x'))}) {
    const SendResult result = ResultOf(answer);
    EXPECT_FALSE(result.status.ok()) << answer.substr(0, 40);
    EXPECT_TRUE(result.retryable);
    EXPECT_FALSE(std::string(result.status.message()).empty());
  }
}

TEST(OtlpHttp, ACollectorThatHangsCostsNoMoreThanTheTimeout) {
  HttpReceiver receiver([](const std::string&) { return HttpAnswer("200 OK", ""); });
  receiver.Hang(true);
  const absl::Time began = absl::Now();
  const SendResult result = SendTo(SettingsFor(receiver.port()), "spans", 100);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(result.retryable);
  EXPECT_LT(absl::Now() - began, absl::Seconds(10));
}

TEST(OtlpHttp, CancelEndsASendThatRunsAndEachLaterOne) {
  HttpReceiver receiver([](const std::string&) { return HttpAnswer("200 OK", ""); });
  receiver.Hang(true);
  auto sender = *MakeOtlpHttpSender(SettingsFor(receiver.port()));
  SendResult result;
  std::thread sending([&] { result = sender->Send("spans", 600'000); });
  while (receiver.requests().empty()) std::this_thread::yield();
  sender->Cancel();
  sending.join();
  EXPECT_TRUE(absl::IsCancelled(result.status));
  EXPECT_FALSE(result.retryable);
  EXPECT_TRUE(absl::IsCancelled(sender->Send("spans", 600'000).status));
  EXPECT_EQ(receiver.connections(), 1u);
}

// A file with the given text, which is removed with this object.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(testing::TempDir() + "/otlp_" + std::to_string(getpid()) + ".pem") {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(OtlpHttp, TlsTrustsTheNamedAuthorityAndItsHostAlone) {
  const SelfSigned certificate = MakeSelfSigned("DNS:localhost");
  const TextFile file(certificate.certificate);
  HttpReceiver receiver([](const std::string&) { return HttpAnswer("200 OK", "", kProtobufLine); }, &certificate);
  OtlpSettings settings = SettingsFor(receiver.port());
  settings.endpoint.tls = true;
  settings.endpoint.host = "localhost";
  EXPECT_FALSE(SendTo(settings).status.ok()) << "the system does not know this authority";
  EXPECT_FALSE(SendTo(settings).retryable);
  settings.certificate_file = file.path();
  const SendResult good = SendTo(settings);
  EXPECT_TRUE(good.status.ok()) << good.status;
  EXPECT_THAT(receiver.requests(), testing::SizeIs(1));
  settings.endpoint.host = "127.0.0.1";
  EXPECT_FALSE(SendTo(settings).status.ok()) << "the certificate is for another host";
}

TEST(OtlpHttp, AConnectionThatBreaksDuringTheTlsHandshakeIsAnErrorThatMayPass) {
  const SelfSigned certificate = MakeSelfSigned("IP:127.0.0.1");
  const TextFile file(certificate.certificate);
  HttpReceiver receiver([](const std::string&) { return HttpAnswer("200 OK", "", kProtobufLine); }, &certificate);
  OtlpSettings settings = SettingsFor(receiver.port());
  settings.endpoint.tls = true;
  settings.certificate_file = file.path();
  for (const size_t bytes : {size_t{1}, size_t{65536}}) {
    receiver.CloseAfter(bytes);
    const SendResult broken = SendTo(settings);
    EXPECT_EQ(broken.status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(broken.retryable) << broken.status << " after " << bytes << " bytes of the client's hello";
  }
  receiver.CloseAfter(0);
  EXPECT_TRUE(SendTo(settings).status.ok());
}

TEST(OtlpHttp, ACertificateFileThatCannotBeReadIsAnErrorAtOnce) {
  OtlpSettings settings = SettingsFor(1);
  settings.endpoint.tls = true;
  settings.certificate_file = "/no/such/file.pem";
  EXPECT_EQ(MakeOtlpHttpSender(settings).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::telemetry
