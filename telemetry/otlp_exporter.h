// The exporter that the settings ask for.
#ifndef BATON_TELEMETRY_OTLP_EXPORTER_H_
#define BATON_TELEMETRY_OTLP_EXPORTER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "telemetry/otel_settings.h"
#include "telemetry/span_exporter.h"

namespace baton::telemetry {

// nullptr, and no thread, when tracing is off. INVALID_ARGUMENT when the certificate file cannot be read.
absl::StatusOr<std::unique_ptr<SpanExporter>> StartOtlpExporter(const OtelSettings& settings);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_OTLP_EXPORTER_H_
