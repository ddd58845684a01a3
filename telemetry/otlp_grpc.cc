#include "telemetry/otlp_grpc.h"

#include <grpc/support/time.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/rpc/client_error.h"
#include "common/version.h"
#include "telemetry/otlp_wire.h"

namespace baton::telemetry {
namespace {

constexpr char kExportMethod[] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
constexpr int kMinReconnectMs = 200;
constexpr int kMaxReconnectMs = 5'000;
constexpr int kMaxResponseBytes = 1 << 20;
// gRPC limits how long sent bytes stay unacknowledged (TCP_USER_TIMEOUT) only where pings are on; so a collector whose
// host has vanished is noticed, and a call whose bytes are stuck in the socket ends. The pings themselves are rare,
// because collectors close connections that ping often.
constexpr int kPingIntervalMs = 600'000;
constexpr int kUnacknowledgedMs = 10'000;

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const OtlpSettings& settings) {
  if (!settings.endpoint.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  if (!settings.certificate_file.empty()) {
    std::ifstream file(settings.certificate_file);
    std::stringstream text;
    if (!(text << file.rdbuf())) {
      return absl::InvalidArgumentError(
          absl::StrCat("OTEL_EXPORTER_OTLP_CERTIFICATE: cannot read ", settings.certificate_file));
    }
    options.pem_root_certs = text.str();
  }
  return grpc::SslCredentials(options);
}

grpc::ChannelArguments CollectorChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetUserAgentPrefix(absl::StrCat("baton/", kVersion));
  arguments.SetMaxReceiveMessageSize(kMaxResponseBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kMinReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A collector would otherwise get a say in how we call it.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingIntervalMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kUnacknowledgedMs);
  return arguments;
}

bool IsRetryable(grpc::StatusCode code, bool has_retry_info) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      return true;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return has_retry_info;
    default:
      return false;
  }
}

std::string Concatenate(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

SendResult Explain(const grpc::Status& status) {
  const RpcStatus details = ReadRpcStatus(status.error_details());
  const std::string text = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED
                               ? "it did not answer in time"
                               : rpc::ConnectionTrouble(status.error_message());
  return {.status = absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                                 text.empty() ? absl::StrCat("status ", status.error_code()) : QuoteForLog(text)),
          .retryable = IsRetryable(status.error_code(), details.retry_after_ms.has_value()),
          .retry_after_ms = details.retry_after_ms};
}

class OtlpGrpcSender final : public OtlpSender {
 public:
  OtlpGrpcSender(const OtlpSettings& settings, std::shared_ptr<grpc::ChannelCredentials> credentials)
      : settings_(settings),
        stub_(grpc::CreateCustomChannel(settings.endpoint.Authority(), credentials, CollectorChannelArguments())) {}

  SendResult Send(const std::string& message, int64_t timeout_ms) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Cancel() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static SendResult Cancelled() { return {.status = absl::CancelledError("the process ends")}; }

  const OtlpSettings settings_;
  grpc::GenericStub stub_;
  absl::Mutex mutex_;
  // Belongs to the call that runs.
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

SendResult OtlpGrpcSender::Send(const std::string& message, int64_t timeout_ms) {
  grpc::ClientContext context;
  context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN)));
  for (const auto& [name, value] : settings_.headers) context.AddMetadata(name, value);
  if (settings_.gzip) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  const grpc::Slice slice(message.data(), message.size(), grpc::Slice::STATIC_SLICE);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  {
    const absl::MutexLock lock(&mutex_);
    if (is_cancelled_) return Cancelled();
    context_ = &context;
  }
  stub_.UnaryCall(&context, kExportMethod, {}, &request, &response, [&](grpc::Status ended) {
    status = std::move(ended);
    done.Notify();
  });
  done.WaitForNotification();
  const absl::MutexLock lock(&mutex_);
  context_ = nullptr;
  if (is_cancelled_) return Cancelled();
  if (!status.ok()) return Explain(status);
  SendResult result;
  // A collector that has taken the spans, and says so in words that we cannot read, has taken them.
  (void)ReadExportResponse(Concatenate(response), result);
  return result;
}

void OtlpGrpcSender::Cancel() {
  const absl::MutexLock lock(&mutex_);
  is_cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

}  // namespace

absl::StatusOr<std::unique_ptr<OtlpSender>> MakeOtlpGrpcSender(const OtlpSettings& settings) {
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials = MakeCredentials(settings);
  if (!credentials.ok()) return credentials.status();
  return std::make_unique<OtlpGrpcSender>(settings, *std::move(credentials));
}

}  // namespace baton::telemetry
