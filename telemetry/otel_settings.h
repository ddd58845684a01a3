// The settings of tracing, from the environment variables that OpenTelemetry specifies.
//
// | variable | default | meaning |
// |---|---|---|
// | OTEL_SDK_DISABLED | false | true: no spans are exported |
// | OTEL_TRACES_EXPORTER | otlp | none: no spans are exported |
// | OTEL_EXPORTER_OTLP_ENDPOINT | - | URL of the collector; OTLP over HTTP adds /v1/traces to its path |
// | OTEL_EXPORTER_OTLP_TRACES_ENDPOINT | - | the same, taken verbatim; it wins |
// | OTEL_EXPORTER_OTLP_PROTOCOL | grpc | grpc or http/protobuf |
// | OTEL_EXPORTER_OTLP_HEADERS | - | name=value,...; percent-encoded |
// | OTEL_EXPORTER_OTLP_TIMEOUT | 10000 | ms for each try to export a batch |
// | OTEL_EXPORTER_OTLP_COMPRESSION | none | none or gzip |
// | OTEL_EXPORTER_OTLP_CERTIFICATE | system's | PEM file of the authorities that may sign the collector's certificate |
// | OTEL_EXPORTER_OTLP_INSECURE | false | true: grpc without TLS, of an endpoint that has no scheme |
// | OTEL_SERVICE_NAME | the process's | service.name |
// | OTEL_RESOURCE_ATTRIBUTES | - | key=value,...; percent-encoded |
// | OTEL_TRACES_SAMPLER, _ARG | parentbased_always_on | telemetry/sampler.h |
// | OTEL_BSP_MAX_QUEUE_SIZE | 2048 | spans that may wait |
// | OTEL_BSP_MAX_EXPORT_BATCH_SIZE | 512 | spans in a message |
// | OTEL_BSP_SCHEDULE_DELAY | 5000 | ms after which spans are exported that do not fill a batch |
// | OTEL_BSP_EXPORT_TIMEOUT | 30000 | ms for a batch with all its tries |
// | OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT | 65536 | bytes of a text; OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT comes second |
//
// Each variable of the exporter also exists as OTEL_EXPORTER_OTLP_TRACES_..., which wins.
#ifndef BATON_TELEMETRY_OTEL_SETTINGS_H_
#define BATON_TELEMETRY_OTEL_SETTINGS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "telemetry/otlp_endpoint.h"
#include "telemetry/sampler.h"

namespace baton::telemetry {

// How a batch gets to the collector.
struct OtlpSettings {
  OtlpProtocol protocol = OtlpProtocol::kGrpc;
  OtlpEndpoint endpoint;
  // Names in lower case.
  std::vector<std::pair<std::string, std::string>> headers = {};
  // Limits each try.
  int64_t timeout_ms = 10'000;
  bool gzip = false;
  // Empty: the system's authorities.
  std::string certificate_file = {};
};

// How spans wait for it.
struct BatchSettings {
  size_t max_queue_spans = 2048;
  size_t max_batch_spans = 512;
  int64_t schedule_delay_ms = 5'000;
  // Limits a batch with all its tries.
  int64_t export_timeout_ms = 30'000;
};

struct OtelSettings {
  // Spans are made and exported: an endpoint is named and nothing switches tracing off.
  bool enabled = false;
  OtlpSettings otlp = {};
  BatchSettings batch = {};
  Sampler sampler = {};
  // The attributes of the resource, service.name among them.
  std::vector<std::pair<std::string, std::string>> resource = {};
  size_t max_attribute_bytes = 65'536;
};

// The value of a variable, nullopt when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
// Reads the environment of this process.
Environment ProcessEnvironment();

struct OtelDefaults {
  std::string service_name = "baton-router";
  // Attributes of the resource that OTEL_RESOURCE_ATTRIBUTES may replace, such as service.version.
  std::vector<std::pair<std::string, std::string>> resource = {};
};

// A wrong value never stops a process: `warnings` gets a sentence that names the variable, and its default applies, as
// the specification wants it. A wrong endpoint leaves tracing off. The caller logs the warnings once.
OtelSettings ReadOtelSettings(const Environment& environment, const OtelDefaults& defaults,
                              std::vector<std::string>& warnings);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_OTEL_SETTINGS_H_
