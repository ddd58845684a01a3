#include "router/request_tracer.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

namespace baton::router {
namespace {

using telemetry::Attribute;
using telemetry::Span;
using telemetry::SpanKind;
using telemetry::SpanStatus;

// Root, six phases and four details; attempts besides.
constexpr size_t kUsualSpans = 11;

uint64_t DrawSpanId(RandomSource& random) {
  uint64_t id = 0;
  while (id == 0) id = random.Next64();
  return id;
}

// Lays the spans of one request out.
class TraceBuilder {
 public:
  explicit TraceBuilder(const RequestRecord& record)
      : record_(record), random_(record.trace.trace_id.low ^ record.trace.root_span_id) {
    spans_.reserve(kUsualSpans);
  }

  // Valid until the next Add, as of AddDetail.
  Span& AddRoot() {
    Span& root = Emplace("baton.request", record_.trace.parent_span_id, 0, record_.total_ns);
    root.span_id = record_.trace.root_span_id;
    root.parent_is_remote = record_.trace.parent_span_id != 0;
    root.kind = SpanKind::kServer;
    return root;
  }
  // The next phase. Valid until the next Add.
  Span& AddPhase(telemetry::Literal name, int64_t duration_ns) {
    Span& span = Emplace(name, record_.trace.root_span_id, at_ns_, duration_ns);
    at_ns_ += duration_ns;
    return span;
  }
  // Something beneath a span, at a time since the request's arrival.
  Span& AddDetail(telemetry::Literal name, uint64_t parent, int64_t begin_ns, int64_t duration_ns) {
    return Emplace(name, parent, begin_ns, duration_ns);
  }
  // Where the next phase begins, since the request's arrival.
  int64_t at_ns() const { return at_ns_; }
  std::vector<Span> Take() { return std::move(spans_); }

 private:
  Span& Emplace(telemetry::Literal name, uint64_t parent, int64_t begin_ns, int64_t duration_ns) {
    Span& span = spans_.emplace_back();
    span.trace_id = record_.trace.trace_id;
    span.span_id = DrawSpanId(random_);
    span.parent_span_id = parent;
    span.trace_flags = record_.trace.flags;
    span.tracestate = record_.trace.tracestate;
    span.name = name;
    span.start_unix_ns = record_.arrived_unix_ns + begin_ns;
    span.end_unix_ns = span.start_unix_ns + std::max<int64_t>(duration_ns, 0);
    return span;
  }

  const RequestRecord& record_;
  SeededRandom random_;
  std::vector<Span> spans_;
  int64_t at_ns_ = 0;
};

using Attributes = std::vector<Attribute>;

constexpr size_t kUsualAttributes = 24;

// The value is made in its place.
template <typename Value>
void Add(telemetry::Literal key, Value value, Attributes& attributes) {
  attributes.emplace_back(key, std::move(value));
}

// Numbers that the client has stated.
template <typename Value>
void AddStated(telemetry::Literal key, const std::optional<Value>& value, Attributes& attributes) {
  if (!value.has_value()) return;
  if constexpr (std::is_floating_point_v<Value>) {
    Add(key, static_cast<double>(*value), attributes);
  } else {
    Add(key, static_cast<int64_t>(*value), attributes);
  }
}

void AddText(telemetry::Literal key, const std::string& value, Attributes& attributes) {
  if (!value.empty()) Add(key, value, attributes);
}

void AddSampling(const SamplingRequest& sampling, Attributes& attributes) {
  AddStated("gen_ai.request.max_tokens", sampling.max_tokens, attributes);
  AddStated("gen_ai.request.temperature", sampling.temperature, attributes);
  AddStated("gen_ai.request.top_p", sampling.top_p, attributes);
  AddStated("gen_ai.request.top_k", sampling.top_k, attributes);
  AddStated("gen_ai.request.frequency_penalty", sampling.frequency_penalty, attributes);
  AddStated("gen_ai.request.presence_penalty", sampling.presence_penalty, attributes);
  AddStated("gen_ai.request.seed", sampling.seed, attributes);
}

void AddEnd(const RequestRecord& record, Attributes& attributes) {
  Add("baton.outcome", std::string(RequestOutcomeName(record.outcome)), attributes);
  if (record.outcome == RequestOutcome::kOk) {
    const char* const reason = record.finish == FinishReason::kStop ? "stop" : "length";
    Add("gen_ai.response.finish_reasons", std::vector<std::string>{reason}, attributes);
  } else {
    Add("error.type", std::string(absl::StatusCodeToString(record.status.code())), attributes);
  }
}

// Names of OpenTelemetry's conventions for generative AI, and of our own.
Attributes RootAttributes(const RequestRecord& record, const std::string& model) {
  Attributes attributes;
  attributes.reserve(kUsualAttributes);
  Add("gen_ai.operation.name", std::string("text_completion"), attributes);
  Add("gen_ai.provider.name", std::string("baton"), attributes);
  Add("gen_ai.request.model", model, attributes);
  Add("gen_ai.response.model", model, attributes);
  Add("gen_ai.usage.input_tokens", int64_t{record.prompt_tokens}, attributes);
  Add("gen_ai.usage.output_tokens", int64_t{record.output_tokens}, attributes);
  Add("baton.job.id", record.id.ToHex(), attributes);
  AddSampling(record.sampling, attributes);
  AddEnd(record, attributes);
  if (record.ttft_ns > 0) Add("baton.ttft_ms", NsToMs(record.ttft_ns), attributes);
  if (record.mean_itl_ns > 0) Add("baton.mean_itl_ms", NsToMs(record.mean_itl_ns), attributes);
  AddText("gen_ai.input.messages", record.prompt_text, attributes);
  AddText("gen_ai.output.messages", record.output_text, attributes);
  if (record.job == nullptr) return attributes;
  Add("gen_ai.usage.cache_read.input_tokens", int64_t{record.job->cached_tokens}, attributes);
  Add("baton.attempts", int64_t{record.job->attempts}, attributes);
  AddText("baton.prefill.worker", record.job->prefill_worker, attributes);
  AddText("baton.decode.worker", record.job->decode_worker, attributes);
  return attributes;
}

void AddSteps(const WorkerReport& report, Attributes& attributes) {
  if (report.steps == 0) return;
  Add("baton.steps", report.steps, attributes);
  Add("baton.batch.mean_sequences", static_cast<double>(report.batch_sequences) / static_cast<double>(report.steps),
      attributes);
  Add("baton.batch.max_sequences", report.max_batch_sequences, attributes);
  Add("baton.preemptions", report.preemptions, attributes);
}

void AddTransfer(const WorkerReport& report, Attributes& attributes) {
  Add("baton.transfer.bytes", report.transfer_bytes, attributes);
  AddText("baton.transfer.transport", report.transport, attributes);
}

void AddAttempt(const GivenUpAttempt& attempt, uint64_t phase, TraceBuilder& trace) {
  Span& span = trace.AddDetail("baton.attempt", phase, attempt.began_ns, attempt.ended_ns - attempt.began_ns);
  AddText("baton.prefill.worker", attempt.prefill_worker, span.attributes);
  AddText("baton.decode.worker", attempt.decode_worker, span.attributes);
  span.status = SpanStatus::kError;
  span.status_message = attempt.why;
}

// What was measured ends with the phase, and is cut where the phase began: a clock that ran elsewhere proves no more.
void AddPrefillDetails(const JobResult& job, uint64_t prefill, TraceBuilder& trace) {
  const int64_t compute_ns = std::min(job.prefill.compute_ns, job.phases.prefill_ns);
  if (job.prefill_worker.empty() || compute_ns <= 0) return;
  Span& span = trace.AddDetail("baton.prefill.compute", prefill, trace.at_ns() - compute_ns, compute_ns);
  AddSteps(job.prefill, span.attributes);
  Add("baton.worker.queue_ms", NsToMs(job.prefill.queue_ns), span.attributes);
}

void AddTransferDetails(const WorkerReport& report, uint64_t transfer, TraceBuilder& trace) {
  if (report.transfer_bytes == 0) return;
  const auto add = [&](telemetry::Literal name, int64_t measured_ns) {
    const int64_t duration_ns = std::min(measured_ns, trace.at_ns());
    AddTransfer(report, trace.AddDetail(name, transfer, trace.at_ns() - duration_ns, duration_ns).attributes);
  };
  add("baton.transfer.read", report.read_ns);
  add("baton.transfer.verify", report.digest_ns);
}

}  // namespace

std::vector<Span> MakeSpans(const RequestRecord& record, const std::string& model) {
  static const JobResult kNoJob;
  const JobResult& job = record.job == nullptr ? kNoJob : *record.job;
  TraceBuilder trace(record);
  Span& root = trace.AddRoot();
  root.attributes = RootAttributes(record, model);
  if (record.outcome != RequestOutcome::kOk) {
    root.status = SpanStatus::kError;
    root.status_message = std::string(record.status.message());
  }
  const uint64_t queue = trace.AddPhase("baton.queue", record.phases.queue_ns).span_id;
  trace.AddPhase("baton.admission", record.phases.admission_ns);
  const uint64_t prefill = trace.AddPhase("baton.prefill", record.phases.prefill_ns).span_id;
  AddPrefillDetails(job, prefill, trace);
  Span& transfer = trace.AddPhase("baton.transfer", record.phases.transfer_ns);
  AddTransfer(job.decode, transfer.attributes);
  Add("baton.transfer.tail_ms", NsToMs(job.decode.transfer_tail_ns), transfer.attributes);
  AddTransferDetails(job.decode, transfer.span_id, trace);
  Span& decode_phase = trace.AddPhase("baton.decode", record.phases.decode_ns);
  AddSteps(job.decode, decode_phase.attributes);
  const uint64_t decode = decode_phase.span_id;
  trace.AddPhase("baton.network", record.network_ns);
  for (const GivenUpAttempt& attempt : job.given_up) {
    // One that gave outputs before it failed: the pause until the next one's is decode.
    AddAttempt(attempt, attempt.ended_ns <= record.phases.queue_ns ? queue : decode, trace);
  }
  return trace.Take();
}

RequestTrace RequestTracer::Begin(telemetry::TraceContext context) {
  RequestTrace trace;
  trace.trace_id = context.parent.has_value() ? context.parent->trace_id : random_.NextId();
  trace.parent_span_id = context.parent.has_value() ? context.parent->span_id : 0;
  const bool sampled = options_.sampler.ShouldSample(context.parent, trace.trace_id);
  if (sampled) trace.root_span_id = DrawSpanId(random_);
  const uint8_t kept_flags = context.parent.has_value() ? context.parent->flags : telemetry::kRandomFlag;
  trace.flags = static_cast<uint8_t>((kept_flags & ~telemetry::kSampledFlag) | (sampled ? telemetry::kSampledFlag : 0));
  trace.tracestate = std::move(context.tracestate);
  trace.baggage = std::move(context.baggage);
  return trace;
}

void RequestTracer::OnRequestEnded(const RequestRecord& record) {
  if (!record.trace.sampled()) return;
  if (exporter_.full()) return exporter_.CountDropped(kUsualSpans);
  exporter_.Export(MakeSpans(record, options_.model));
}

RequestTrace BeginTrace(RequestTracer* tracer, telemetry::TraceContext context) {
  if (tracer != nullptr) return tracer->Begin(std::move(context));
  RequestTrace trace;
  if (context.parent.has_value()) {
    trace.trace_id = context.parent->trace_id;
    trace.parent_span_id = context.parent->span_id;
    trace.flags = context.parent->flags;
  }
  trace.tracestate = std::move(context.tracestate);
  trace.baggage = std::move(context.baggage);
  return trace;
}

TraceHeaders HeadersOf(const RequestTrace& trace) {
  TraceHeaders headers = {.baggage = trace.baggage};
  const uint64_t span_id = trace.sampled() ? trace.root_span_id : trace.parent_span_id;
  // A request of nobody's trace that is not sampled has no span that others could hang theirs beneath.
  if (trace.trace_id.is_zero() || span_id == 0) return headers;
  headers.traceparent =
      telemetry::FormatTraceparent({.trace_id = trace.trace_id, .span_id = span_id, .flags = trace.flags});
  headers.tracestate = trace.tracestate;
  return headers;
}

}  // namespace baton::router
