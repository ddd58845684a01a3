// OTLP over gRPC.
#ifndef BATON_TELEMETRY_OTLP_GRPC_H_
#define BATON_TELEMETRY_OTLP_GRPC_H_

#include <memory>

#include "absl/status/statusor.h"
#include "telemetry/otel_settings.h"
#include "telemetry/otlp_sender.h"

namespace baton::telemetry {

// Connects at the first Send. INVALID_ARGUMENT when the certificate file cannot be read.
absl::StatusOr<std::unique_ptr<OtlpSender>> MakeOtlpGrpcSender(const OtlpSettings& settings);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_OTLP_GRPC_H_
