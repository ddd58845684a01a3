// OTLP over gRPC to collectors that accept, refuse, hang and are gone, and the exporter over both protocols.
#include "telemetry/otlp_grpc.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "telemetry/otlp_exporter.h"
#include "telemetry/otlp_wire.h"
#include "telemetry/testing/http_receiver.h"
#include "telemetry/testing/raw_client.h"
#include "telemetry/testing/self_signed.h"

namespace baton::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::SizeIs;
namespace pb = opentelemetry::proto;

constexpr int64_t kGrpcLongMs = 20'000;
constexpr absl::Duration kGrpcPatience = absl::Seconds(20);

struct GrpcAnswer {
  grpc::Status status = grpc::Status::OK;
  std::string response = {};
  // Until the client gives up.
  bool hangs = false;
};

// Takes every call, as a collector does.
class GrpcReceiver final : public grpc::CallbackGenericService {
 public:
  explicit GrpcReceiver(GrpcAnswer answer, const SelfSigned* certificate = nullptr, bool takes_gzip = true)
      : answer_(std::move(answer)) {
    grpc::ServerBuilder builder;
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (certificate != nullptr) {
      grpc::SslServerCredentialsOptions options;
      options.pem_key_cert_pairs = {{certificate->key, certificate->certificate}};
      credentials = grpc::SslServerCredentials(options);
    }
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, takes_gzip);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~GrpcReceiver() override { server_->Shutdown(absl::ToChronoTime(absl::Now())); }

  int port() const { return port_; }
  struct Call {
    std::string method;
    std::multimap<std::string, std::string> metadata;
    std::string message;
  };
  std::vector<Call> calls() {
    const absl::MutexLock lock(&mutex_);
    return calls_;
  }
  void AwaitCalls(size_t count) {
    const absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), kGrpcPatience));
  }

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new Reactor(*this, *context);
  }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor(GrpcReceiver& receiver, grpc::GenericCallbackServerContext& context)
        : receiver_(receiver), context_(context) {
      StartRead(&request_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::CANCELLED);
      std::vector<grpc::Slice> slices;
      (void)request_.Dump(&slices);
      Call call = {.method = context_.method()};
      for (const auto& [key, value] : context_.client_metadata()) {
        call.metadata.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
      }
      for (const grpc::Slice& slice : slices) {
        call.message.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
      {
        const absl::MutexLock lock(&receiver_.mutex_);
        receiver_.calls_.push_back(std::move(call));
      }
      if (receiver_.answer_.hangs) return;
      if (!receiver_.answer_.status.ok()) return Finish(receiver_.answer_.status);
      const grpc::Slice slice(receiver_.answer_.response);
      response_ = grpc::ByteBuffer(&slice, 1);
      StartWriteAndFinish(&response_, {}, grpc::Status::OK);
    }
    void OnCancel() override {
      if (receiver_.answer_.hangs) Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

   private:
    GrpcReceiver& receiver_;
    grpc::GenericCallbackServerContext& context_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
  };

  const GrpcAnswer answer_;
  int port_ = 0;
  absl::Mutex mutex_;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

OtlpSettings GrpcSettingsFor(int port) {
  OtlpSettings settings;
  settings.endpoint = {.host = "127.0.0.1", .port = port};
  return settings;
}

SendResult SendByGrpc(const OtlpSettings& settings, const std::string& message = "spans",
                      int64_t timeout_ms = kGrpcLongMs) {
  const auto sender = MakeOtlpGrpcSender(settings);
  EXPECT_TRUE(sender.ok()) << sender.status();
  return (*sender)->Send(message, timeout_ms);
}

SendResult GrpcResultOf(GrpcAnswer answer) {
  GrpcReceiver receiver(std::move(answer));
  return SendByGrpc(GrpcSettingsFor(receiver.port()));
}

TEST(OtlpGrpc, CallsTheServiceWithTheMessageAndTheHeaders) {
  GrpcReceiver receiver({});
  OtlpSettings settings = GrpcSettingsFor(receiver.port());
  settings.headers = {{"api-key", "a secret"}};
  const std::string message("\0\1spans\xFF", 8);
  const SendResult result = SendByGrpc(settings, message);
  EXPECT_TRUE(result.status.ok()) << result.status;
  ASSERT_THAT(receiver.calls(), SizeIs(1));
  const GrpcReceiver::Call call = receiver.calls()[0];
  EXPECT_EQ(call.method, "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
  EXPECT_EQ(call.message, message);
  EXPECT_EQ(call.metadata.find("api-key")->second, "a secret");
  EXPECT_THAT(call.metadata.find("user-agent")->second, HasSubstr("baton/"));
}

TEST(OtlpGrpc, CompressesWhereItIsToldTo) {
  GrpcReceiver receiver({});
  // It refuses what is compressed, and says so.
  GrpcReceiver plain_receiver({}, nullptr, /*takes_gzip=*/false);
  const std::string message(size_t{1} << 20, 'x');
  OtlpSettings settings = GrpcSettingsFor(receiver.port());
  settings.gzip = true;
  EXPECT_TRUE(SendByGrpc(settings, message).status.ok());
  EXPECT_EQ(receiver.calls().at(0).message, message);
  settings.endpoint.port = plain_receiver.port();
  EXPECT_THAT(std::string(SendByGrpc(settings, message).status.message()), HasSubstr("gzip"));
  settings.gzip = false;
  EXPECT_TRUE(SendByGrpc(settings, message).status.ok());
}

TEST(OtlpGrpc, PartialSuccessIsSuccess) {
  pb::collector::trace::v1::ExportTraceServiceResponse response;
  response.mutable_partial_success()->set_rejected_spans(7);
  response.mutable_partial_success()->set_error_message("too old");
  const SendResult result = GrpcResultOf({.response = response.SerializeAsString()});
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.rejected_spans, 7);
  EXPECT_EQ(result.message, "too old");
  EXPECT_TRUE(GrpcResultOf({.response = "\xFF\xFF"}).status.ok()) << "taken is taken";
}

TEST(OtlpGrpc, OnlyTheCodesOfTheSpecificationMayBeTriedAgain) {
  using grpc::StatusCode;
  for (const auto& [code, retryable] :
       std::vector<std::pair<StatusCode, bool>>{{StatusCode::CANCELLED, true},
                                                {StatusCode::UNKNOWN, false},
                                                {StatusCode::INVALID_ARGUMENT, false},
                                                {StatusCode::DEADLINE_EXCEEDED, true},
                                                {StatusCode::NOT_FOUND, false},
                                                {StatusCode::ALREADY_EXISTS, false},
                                                {StatusCode::PERMISSION_DENIED, false},
                                                {StatusCode::UNAUTHENTICATED, false},
                                                {StatusCode::RESOURCE_EXHAUSTED, false},
                                                {StatusCode::FAILED_PRECONDITION, false},
                                                {StatusCode::ABORTED, true},
                                                {StatusCode::OUT_OF_RANGE, true},
                                                {StatusCode::UNIMPLEMENTED, false},
                                                {StatusCode::INTERNAL, false},
                                                {StatusCode::UNAVAILABLE, true},
                                                {StatusCode::DATA_LOSS, true}}) {
    const SendResult result = GrpcResultOf({.status = grpc::Status(code, "the reason")});
    EXPECT_FALSE(result.status.ok()) << code;
    EXPECT_EQ(result.retryable, retryable) << code;
    EXPECT_EQ(result.retry_after_ms, std::nullopt);
  }
}

TEST(OtlpGrpc, RetryInfoIsHeardAndMakesABusyCollectorWorthAnotherTry) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(3);
  google::rpc::Status details;
  details.add_details()->PackFrom(retry);
  const grpc::Status busy(grpc::StatusCode::RESOURCE_EXHAUSTED, "busy", details.SerializeAsString());
  const SendResult result = GrpcResultOf({.status = busy});
  EXPECT_TRUE(result.retryable);
  EXPECT_EQ(result.retry_after_ms, 3000);
  EXPECT_EQ(result.status.message(), "busy");
}

TEST(OtlpGrpc, ACollectorThatIsGoneIsAnErrorThatMayPass) {
  int free_port = 0;
  { free_port = GrpcReceiver({}).port(); }
  const SendResult gone = SendByGrpc(GrpcSettingsFor(free_port));
  EXPECT_EQ(gone.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(gone.retryable);
  HttpReceiver web([](const std::string&) { return HttpAnswer("200 OK", ""); });
  EXPECT_FALSE(SendByGrpc(GrpcSettingsFor(web.port()), "spans", 1000).status.ok()) << "a server of another protocol";
}

TEST(OtlpGrpc, ACollectorThatHangsCostsNoMoreThanTheTimeout) {
  const absl::Time began = absl::Now();
  GrpcReceiver receiver({.hangs = true});
  const SendResult result = SendByGrpc(GrpcSettingsFor(receiver.port()), "spans", 200);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(result.retryable);
  EXPECT_LT(absl::Now() - began, absl::Seconds(10));
}

// TCP_USER_TIMEOUT of each socket of this process that is connected to the port.
std::vector<int> UserTimeoutsMs(int port) {
  constexpr int kHighestDescriptor = 1024;
  std::vector<int> timeouts_ms;
  for (int fd = 0; fd < kHighestDescriptor; ++fd) {
    sockaddr_in6 peer = {};
    socklen_t size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    // The port lies at the same place in both families of addresses.
    if ((peer.sin6_family != AF_INET && peer.sin6_family != AF_INET6) || ntohs(peer.sin6_port) != port) continue;
    int timeout_ms = 0;
    size = sizeof(timeout_ms);
    EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &size), 0);
    timeouts_ms.push_back(timeout_ms);
  }
  return timeouts_ms;
}

TEST(OtlpGrpc, ACollectorWhoseHostHasVanishedIsNoticedInSeconds) {
  GrpcReceiver receiver({});
  const auto sender = *MakeOtlpGrpcSender(GrpcSettingsFor(receiver.port()));
  EXPECT_TRUE(sender->Send("spans", kGrpcLongMs).status.ok());
  EXPECT_THAT(UserTimeoutsMs(receiver.port()), ElementsAre(10'000)) << "the system gives up what nobody acknowledges";
}

TEST(OtlpGrpc, CancelEndsASendThatRunsAndEachLaterOne) {
  GrpcReceiver receiver({.hangs = true});
  auto sender = *MakeOtlpGrpcSender(GrpcSettingsFor(receiver.port()));
  SendResult result;
  std::thread sending([&] { result = sender->Send("spans", 600'000); });
  receiver.AwaitCalls(1);
  sender->Cancel();
  sending.join();
  EXPECT_TRUE(absl::IsCancelled(result.status));
  EXPECT_FALSE(result.retryable);
  EXPECT_TRUE(absl::IsCancelled(sender->Send("spans", 600'000).status));
}

TEST(OtlpGrpc, TlsTrustsTheNamedAuthorityAlone) {
  const SelfSigned certificate = MakeSelfSigned("IP:127.0.0.1");
  const std::string file = testing::TempDir() + "/otlp_grpc_" + std::to_string(getpid()) + ".pem";
  std::ofstream(file) << certificate.certificate;
  GrpcReceiver receiver({}, &certificate);
  OtlpSettings settings = GrpcSettingsFor(receiver.port());
  settings.endpoint.tls = true;
  EXPECT_FALSE(SendByGrpc(settings, "spans", 3000).status.ok()) << "the system does not know this authority";
  settings.certificate_file = file;
  const SendResult good = SendByGrpc(settings);
  EXPECT_TRUE(good.status.ok()) << good.status;
  settings.certificate_file = "/no/such/file.pem";
  EXPECT_EQ(MakeOtlpGrpcSender(settings).status().code(), absl::StatusCode::kInvalidArgument);
  std::remove(file.c_str());
}

std::vector<Span> TwoSpans() {
  Span span;
  span.trace_id = {1, 2};
  span.span_id = 3;
  span.name = "baton.request";
  return {span, span};
}

OtelSettings ExportSettings(OtlpProtocol protocol, int port) {
  OtelSettings settings;
  settings.enabled = true;
  settings.otlp = GrpcSettingsFor(port);
  settings.otlp.protocol = protocol;
  settings.otlp.endpoint.path = "/v1/traces";
  settings.resource = {{"service.name", "test"}};
  settings.batch.max_batch_spans = 2;
  return settings;
}

int SpansIn(const std::string& message) {
  pb::collector::trace::v1::ExportTraceServiceRequest request;
  return request.ParseFromString(message) ? request.resource_spans(0).scope_spans(0).spans_size() : -1;
}

TEST(OtlpExporter, SpansArriveByGrpcAndByHttp) {
  GrpcReceiver grpc_receiver({});
  HttpReceiver http_receiver([](const std::string&) { return HttpAnswer("200 OK", ""); });
  const auto by_grpc = *StartOtlpExporter(ExportSettings(OtlpProtocol::kGrpc, grpc_receiver.port()));
  const auto by_http = *StartOtlpExporter(ExportSettings(OtlpProtocol::kHttpProtobuf, http_receiver.port()));
  for (const auto& exporter : {by_grpc.get(), by_http.get()}) {
    exporter->Export(TwoSpans());
    exporter->Shutdown(kGrpcLongMs);
    EXPECT_EQ(exporter->counts().exported, 2u);
    EXPECT_EQ(exporter->counts().lost(), 0u);
  }
  EXPECT_EQ(SpansIn(grpc_receiver.calls().at(0).message), 2);
  EXPECT_EQ(SpansIn(BodyOf(http_receiver.requests().at(0))), 2);
}

TEST(OtlpExporter, WhereTracingIsOffThereIsNone) { EXPECT_THAT(*StartOtlpExporter(OtelSettings()), IsNull()); }

TEST(OtlpExporter, EndsInTimeWhileACollectorHangs) {
  GrpcReceiver grpc_receiver({.hangs = true});
  HttpReceiver http_receiver([](const std::string&) { return std::string(); });
  http_receiver.Hang(true);
  for (const auto& settings : {ExportSettings(OtlpProtocol::kGrpc, grpc_receiver.port()),
                               ExportSettings(OtlpProtocol::kHttpProtobuf, http_receiver.port())}) {
    const auto exporter = *StartOtlpExporter(settings);
    exporter->Export(TwoSpans());
    const absl::Time began = absl::Now();
    exporter->Shutdown(100);
    EXPECT_LT(absl::Now() - began, absl::Seconds(5));
    EXPECT_EQ(exporter->counts().dropped_at_end, 2u);
  }
}

}  // namespace
}  // namespace baton::telemetry
