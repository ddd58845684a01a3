#include "telemetry/otlp_exporter.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "telemetry/otlp_grpc.h"
#include "telemetry/otlp_http.h"
#include "telemetry/otlp_wire.h"

namespace baton::telemetry {

absl::StatusOr<std::unique_ptr<SpanExporter>> StartOtlpExporter(const OtelSettings& settings) {
  if (!settings.enabled) return nullptr;
  const bool is_grpc = settings.otlp.protocol == OtlpProtocol::kGrpc;
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<OtlpSender> sender,
                         is_grpc ? MakeOtlpGrpcSender(settings.otlp) : MakeOtlpHttpSender(settings.otlp));
  SpanExporter::Options options;
  options.batch = settings.batch;
  options.encode = [resource = settings.resource, limit = settings.max_attribute_bytes](absl::Span<const Span> spans) {
    return EncodeSpans(spans, resource, limit);
  };
  options.sender = std::move(sender);
  options.send_timeout_ms = settings.otlp.timeout_ms;
  options.destination = absl::StrCat("the collector at ", settings.otlp.endpoint.Authority());
  return std::make_unique<SpanExporter>(std::move(options));
}

}  // namespace baton::telemetry
