// Any bytes as the three headers of a request's trace, separated by lines. What is read is within its bounds, is what
// would be read again, and cannot break a header.
#include <algorithm>
#include <string>
#include <string_view>

#include "common/check.h"
#include "telemetry/trace_context.h"

namespace {

using namespace baton::telemetry;

std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

void CheckHeader(std::string_view value, size_t max_bytes, size_t max_members) {
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  BATON_CHECK(value.size() <= max_bytes);
  // Properties of baggage may have tabs between their parts.
  BATON_CHECK(std::all_of(value.begin(), value.end(), [&](char c) { return c == '\t' || is_printable(c); }));
  BATON_CHECK(static_cast<size_t>(std::count(value.begin(), value.end(), ',')) < max_members);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view traceparent = TakeLine(text);
  const std::string_view tracestate = TakeLine(text);
  const TraceContext context =
      ReadTraceContext({.traceparent = {traceparent}, .tracestate = {tracestate}, .baggage = {text}});
  CheckHeader(context.tracestate, kMaxTracestateBytes, kMaxTracestateMembers);
  CheckHeader(context.baggage, kMaxBaggageBytes, kMaxBaggageMembers);
  BATON_CHECK(NormalizeTracestate(context.tracestate) == context.tracestate);
  BATON_CHECK(NormalizeBaggage(context.baggage) == context.baggage);
  if (!context.parent.has_value()) {
    BATON_CHECK(context.tracestate.empty());
    return 0;
  }
  BATON_CHECK(!context.parent->trace_id.is_zero() && context.parent->span_id != 0);
  const std::optional<TraceParent> again = ParseTraceparent(FormatTraceparent(*context.parent));
  BATON_CHECK(again.has_value() && again->trace_id == context.parent->trace_id &&
              again->span_id == context.parent->span_id && again->sampled() == context.parent->sampled());
  return 0;
}
