// A span as plain data. Whoever measures a request fills spans in; telemetry/span_exporter.h takes them away.
#ifndef BATON_TELEMETRY_SPAN_H_
#define BATON_TELEMETRY_SPAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/ids.h"

namespace baton::telemetry {

// A string literal of the program. Names of spans and keys of attributes are literals, so they cost nothing to copy and
// no client chooses them.
class Literal {
 public:
  // Runs in the compiler alone, which therefore refuses any text that does not live as long as the program.
  consteval Literal(const char* text) : text_(text) {}  // NOLINT(google-explicit-constructor)
  constexpr std::string_view view() const { return text_; }

  friend constexpr bool operator==(const Literal&, const Literal&) = default;

 private:
  std::string_view text_;
};

// Strings need not be valid UTF-8: bytes that are not become U+FFFD when a span is exported.
using AttributeValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

struct Attribute {
  // The value is made in its place.
  template <typename Value>
  Attribute(Literal name, Value of) : key(name), value(std::move(of)) {}

  Literal key;
  AttributeValue value;
};

struct SpanEvent {
  Literal name;
  int64_t time_unix_ns = 0;
  std::vector<Attribute> attributes = {};
};

// The values are those of OTLP.
enum class SpanKind : uint8_t { kInternal = 1, kServer = 2, kClient = 3 };
enum class SpanStatus : uint8_t { kUnset = 0, kOk = 1, kError = 2 };

struct Span {
  Id128 trace_id;
  uint64_t span_id = 0;
  // 0: a root.
  uint64_t parent_span_id = 0;
  // The parent is a span of another process, as that of a client.
  bool parent_is_remote = false;
  // The trace flags of W3C, as in TraceParent.
  uint8_t trace_flags = 1;
  // The client's header `tracestate`, normalized.
  std::string tracestate = {};
  Literal name = "";
  SpanKind kind = SpanKind::kInternal;
  // Wall clock, nanoseconds since 1970. Spans of one trace are laid out from durations of one process's monotonic
  // clock.
  int64_t start_unix_ns = 0;
  int64_t end_unix_ns = 0;
  std::vector<Attribute> attributes = {};
  std::vector<SpanEvent> events = {};
  SpanStatus status = SpanStatus::kUnset;
  // Only with kError.
  std::string status_message = {};
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_SPAN_H_
