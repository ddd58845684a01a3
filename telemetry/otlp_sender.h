// One try to hand a batch of spans to a collector, over gRPC (otlp_grpc.cc) or HTTP (otlp_http.cc).
#ifndef BATON_TELEMETRY_OTLP_SENDER_H_
#define BATON_TELEMETRY_OTLP_SENDER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace baton::telemetry {

// Longer times that a collector asks for mean the same to us.
inline constexpr int64_t kMaxRetryAfterMs = 3'600'000;

struct SendResult {
  // OK: the collector has taken the batch, perhaps without some of its spans.
  absl::Status status;
  // The same batch may be sent again.
  bool retryable = false;
  // What the collector asked for: 0 to kMaxRetryAfterMs.
  std::optional<int64_t> retry_after_ms = std::nullopt;
  // Partial success: how many spans the collector left out, and what it said of it, also where it left out none.
  int64_t rejected_spans = 0;
  std::string message = {};
};

class OtlpSender {
 public:
  virtual ~OtlpSender() = default;
  // `message` is an encoded ExportTraceServiceRequest. Blocks for `timeout_ms` at most. One thread at a time.
  virtual SendResult Send(const std::string& message, int64_t timeout_ms) = 0;
  // Any thread: a Send that runs, and each later one, returns at once with CANCELLED, which is not retryable.
  virtual void Cancel() = 0;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_OTLP_SENDER_H_
