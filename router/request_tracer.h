// Makes one trace of each request: a root span, whose children are the phases, one after the other, and beneath these
// what the workers measured. All of it is laid out when the request is over, from durations: each was measured inside
// one process, and clocks of two processes are never compared. docs/observability.md has the attributes.
//
//   baton.request
//   |- baton.queue             from the request's arrival until it is placed on workers
//   |  '- baton.attempt        for each placement that found no room
//   |- baton.admission         until the prompt's worker has reserved what it needs and computes
//   |- baton.prefill           until the first token
//   |  '- baton.prefill.compute    as the prompt's worker measured it; ends with the phase
//   |- baton.transfer          what the hand-off adds after the first token
//   |  |- baton.transfer.read      the time in which blocks were read, which began during prefill
//   |  '- baton.transfer.verify    the time spent on their digests
//   |- baton.decode            until the last token
//   '- baton.network           until the last message is handed to the network
#ifndef BATON_ROUTER_REQUEST_TRACER_H_
#define BATON_ROUTER_REQUEST_TRACER_H_

#include <string>
#include <vector>

#include "common/random.h"
#include "common/trace_headers.h"
#include "router/request_record.h"
#include "telemetry/sampler.h"
#include "telemetry/span.h"
#include "telemetry/span_exporter.h"
#include "telemetry/trace_context.h"

namespace baton::router {

struct RequestTracerOptions {
  telemetry::Sampler sampler;
  // The name by which clients ask for the model.
  std::string model;
};

// The spans of a request that is over. The ids of its trace decide those of the spans.
std::vector<telemetry::Span> MakeSpans(const RequestRecord& record, const std::string& model);

// Thread-safe.
class RequestTracer final : public RequestObserver {
 public:
  // `exporter` and `random`, which is thread-safe, outlive the tracer.
  RequestTracer(RequestTracerOptions options, telemetry::SpanExporter& exporter, RandomSource& random)
      : options_(std::move(options)), exporter_(exporter), random_(random) {}

  // What a client says of its trace decides whether spans are made, as the sampler says.
  RequestTrace Begin(telemetry::TraceContext context);
  void OnRequestEnded(const RequestRecord& record) override;

 private:
  const RequestTracerOptions options_;
  telemetry::SpanExporter& exporter_;
  RandomSource& random_;
};

// Without a tracer, a request keeps the trace of its client, of which no spans are made.
RequestTrace BeginTrace(RequestTracer* tracer, telemetry::TraceContext context);
// What the workers are told. No traceparent: the request belongs to no trace.
TraceHeaders HeadersOf(const RequestTrace& trace);

}  // namespace baton::router

#endif  // BATON_ROUTER_REQUEST_TRACER_H_
