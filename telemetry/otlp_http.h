// OTLP over HTTP, as protobuf.
#ifndef BATON_TELEMETRY_OTLP_HTTP_H_
#define BATON_TELEMETRY_OTLP_HTTP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "telemetry/host_lookup.h"
#include "telemetry/otel_settings.h"
#include "telemetry/otlp_sender.h"

namespace baton::telemetry {

// Every Send has a connection of its own. INVALID_ARGUMENT when the certificate file cannot be read. `look_up` finds
// the addresses of the collector; nullptr asks the system.
absl::StatusOr<std::unique_ptr<OtlpSender>> MakeOtlpHttpSender(const OtlpSettings& settings,
                                                               HostLookup::Function look_up = nullptr);

// The value of a Retry-After header in milliseconds from `now` on: a number of seconds, or a date. Bounded to an hour.
std::optional<int64_t> ParseRetryAfterMs(std::string_view value, absl::Time now);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_OTLP_HTTP_H_
