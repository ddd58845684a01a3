// Spans as the message that a collector takes.
#ifndef BATON_TELEMETRY_OTLP_WIRE_H_
#define BATON_TELEMETRY_OTLP_WIRE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "telemetry/otlp_sender.h"
#include "telemetry/span.h"

namespace baton::telemetry {

// The resource's attributes, as in OtelSettings.
using ResourceAttributes = std::vector<std::pair<std::string, std::string>>;

// An encoded ExportTraceServiceRequest. Texts of attributes are cut after `max_attribute_bytes`, between characters.
std::string EncodeSpans(absl::Span<const Span> spans, const ResourceAttributes& resource, size_t max_attribute_bytes);

// What an encoded ExportTraceServiceResponse says of partial success. False when the bytes are none.
bool ReadExportResponse(const std::string& bytes, SendResult& result);
// What an encoded google.rpc.Status says: its message, and the delay of its RetryInfo. Nothing of bytes that are none.
struct RpcStatus {
  std::string message;
  std::optional<int64_t> retry_after_ms = std::nullopt;
};
RpcStatus ReadRpcStatus(const std::string& bytes);

// What a collector says, for a line of the log: bounded, without control characters.
std::string QuoteForLog(std::string_view text);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_OTLP_WIRE_H_
