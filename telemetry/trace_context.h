// W3C Trace Context (traceparent, tracestate) and W3C Baggage: what a client says of the trace to which its request
// belongs, and what goes on to the workers. All of it comes from clients, so it is read strictly and bounded.
#ifndef BATON_TELEMETRY_TRACE_CONTEXT_H_
#define BATON_TELEMETRY_TRACE_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace baton::telemetry {

// Names of the headers, which are also the keys of gRPC metadata.
inline constexpr char kTraceparentHeader[] = "traceparent";
inline constexpr char kTracestateHeader[] = "tracestate";
inline constexpr char kBaggageHeader[] = "baggage";

inline constexpr size_t kMaxTracestateMembers = 32;
// Members that make a tracestate longer than this are dropped.
inline constexpr size_t kMaxTracestateBytes = 512;
inline constexpr size_t kMaxBaggageMembers = 64;
inline constexpr size_t kMaxBaggageBytes = 8192;

inline constexpr uint8_t kSampledFlag = 0x01;
// The trace id's low 56 bits are random (Trace Context, level 2).
inline constexpr uint8_t kRandomFlag = 0x02;

struct TraceParent {
  // Neither is zero.
  Id128 trace_id;
  uint64_t span_id = 0;
  uint8_t flags = 0;

  bool sampled() const { return (flags & kSampledFlag) != 0; }
  friend bool operator==(const TraceParent&, const TraceParent&) = default;
};

// Returns nullopt for anything that is not a valid traceparent. A version later than 00 may have more than 00 defines,
// which is not read.
std::optional<TraceParent> ParseTraceparent(std::string_view header);
// Writes version 00, without the flags that are not named above.
std::string FormatTraceparent(const TraceParent& parent);
// 16 lower-case hex digits.
std::string SpanIdToHex(uint64_t span_id);

// Returns the list in its normal form: its members are separated by "," alone, empty ones are left out, and only the
// first of several members with one key stays. The result is empty when a member is malformed or there are more than
// kMaxTracestateMembers, because a list that cannot be read must not be passed on. A list longer than
// kMaxTracestateBytes loses members longer than 128 bytes first, and then its last ones.
std::string NormalizeTracestate(std::string_view header);
// Does the same for baggage, but leaves out malformed members and those beyond either bound, and keeps the rest.
std::string NormalizeBaggage(std::string_view header);

// The values of a request's headers, one for each time the header occurs.
struct TraceHeaders {
  std::vector<std::string_view> traceparent = {};
  std::vector<std::string_view> tracestate = {};
  std::vector<std::string_view> baggage = {};
};

// What a request says of its trace.
struct TraceContext {
  // nullopt: the request begins a trace of its own.
  std::optional<TraceParent> parent = std::nullopt;
  // Normalized; empty without a parent.
  std::string tracestate = {};
  // Normalized; does not depend on the parent.
  std::string baggage = {};
};

// Two traceparents are none: it is not known which one is meant.
TraceContext ReadTraceContext(const TraceHeaders& headers);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_TRACE_CONTEXT_H_
