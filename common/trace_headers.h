// What a request carries on of its client's trace.
#ifndef BATON_COMMON_TRACE_HEADERS_H_
#define BATON_COMMON_TRACE_HEADERS_H_

#include <string>

namespace baton {

// Values of the headers of W3C Trace Context and W3C Baggage, by their names; empty: there is none.
struct TraceHeaders {
  std::string traceparent;
  std::string tracestate;
  std::string baggage;

  friend bool operator==(const TraceHeaders&, const TraceHeaders&) = default;
};

}  // namespace baton

#endif  // BATON_COMMON_TRACE_HEADERS_H_
