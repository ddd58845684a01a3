#include "router/request_tracer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

using telemetry::Span;
using testing::ElementsAre;

constexpr int64_t kArrivedUnixNs = 1'700'000'000'000'000'000;

RequestRecord ServedRecord() {
  RequestRecord record;
  record.id = {.high = 1, .low = 2};
  record.trace = {.trace_id = {.high = 3, .low = 4},
                  .root_span_id = 5,
                  .parent_span_id = 6,
                  .flags = telemetry::kSampledFlag,
                  .tracestate = "a=b",
                  .baggage = ""};
  record.arrived_unix_ns = kArrivedUnixNs;
  record.finish = FinishReason::kStop;
  record.prompt_tokens = 12;
  record.output_tokens = 3;
  record.ttft_ns = 600;
  record.phases = {.queue_ns = 100, .admission_ns = 200, .prefill_ns = 300, .transfer_ns = 50, .decode_ns = 400};
  record.network_ns = 10;
  record.total_ns = 1060;
  JobResult job;
  job.phases = record.phases;
  job.attempts = 2;
  job.given_up = {{.began_ns = 20, .ended_ns = 70, .prefill_worker = "p0", .decode_worker = "d0", .why = "no room"}};
  job.prefill_worker = "p1";
  job.decode_worker = "d1";
  job.prefill = {.queue_ns = 5, .compute_ns = 250, .steps = 2, .batch_sequences = 3, .max_batch_sequences = 2};
  job.decode.transfer_bytes = 1000;
  job.decode.read_ns = 120;
  job.decode.digest_ns = 30;
  job.decode.transport = "shm";
  record.job = std::make_shared<const JobResult>(job);
  return record;
}

// The spans of the trace by name; each name occurs once.
std::map<std::string, Span> ByName(const std::vector<Span>& spans) {
  std::map<std::string, Span> named;
  for (const Span& span : spans) EXPECT_TRUE(named.emplace(span.name.view(), span).second) << span.name.view();
  return named;
}

template <typename Value>
Value AttributeOf(const Span& span, std::string_view key) {
  for (const telemetry::Attribute& attribute : span.attributes) {
    if (attribute.key.view() == key) return std::get<Value>(attribute.value);
  }
  ADD_FAILURE() << span.name.view() << " has no " << key;
  return {};
}

bool Has(const Span& span, std::string_view key) {
  return std::any_of(span.attributes.begin(), span.attributes.end(),
                     [key](const telemetry::Attribute& attribute) { return attribute.key.view() == key; });
}

TEST(RequestTracerTest, ThePhasesLieEndToEndAndFillTheRoot) {
  const auto spans = ByName(MakeSpans(ServedRecord(), "m"));
  const Span& root = spans.at("baton.request");
  EXPECT_EQ(root.start_unix_ns, kArrivedUnixNs);
  EXPECT_EQ(root.end_unix_ns, kArrivedUnixNs + 1060);
  EXPECT_EQ(root.kind, telemetry::SpanKind::kServer);
  int64_t at = root.start_unix_ns;
  for (const char* name :
       {"baton.queue", "baton.admission", "baton.prefill", "baton.transfer", "baton.decode", "baton.network"}) {
    const Span& phase = spans.at(name);
    EXPECT_EQ(phase.parent_span_id, root.span_id) << name;
    EXPECT_EQ(phase.start_unix_ns, at) << name;
    at = phase.end_unix_ns;
  }
  EXPECT_EQ(at, root.end_unix_ns);
}

TEST(RequestTracerTest, TheRootIsTheChildOfTheClientsSpanAndAllSpansAreOfItsTrace) {
  const std::vector<Span> spans = MakeSpans(ServedRecord(), "m");
  std::set<uint64_t> ids;
  for (const Span& span : spans) {
    EXPECT_EQ(span.trace_id, (Id128{.high = 3, .low = 4}));
    EXPECT_EQ(span.tracestate, "a=b");
    EXPECT_NE(span.span_id, 0u);
    EXPECT_TRUE(ids.insert(span.span_id).second) << "two spans have one id";
  }
  EXPECT_EQ(spans[0].span_id, 5u);
  EXPECT_EQ(spans[0].parent_span_id, 6u);
  EXPECT_TRUE(spans[0].parent_is_remote);
}

TEST(RequestTracerTest, WhatTheWorkersMeasuredEndsWithItsPhase) {
  const auto spans = ByName(MakeSpans(ServedRecord(), "m"));
  const Span& compute = spans.at("baton.prefill.compute");
  EXPECT_EQ(compute.parent_span_id, spans.at("baton.prefill").span_id);
  EXPECT_EQ(compute.end_unix_ns, spans.at("baton.prefill").end_unix_ns);
  EXPECT_EQ(compute.end_unix_ns - compute.start_unix_ns, 250);
  EXPECT_EQ(AttributeOf<int64_t>(compute, "baton.steps"), 2);
  EXPECT_DOUBLE_EQ(AttributeOf<double>(compute, "baton.batch.mean_sequences"), 1.5);
  // The read began before the transfer's own phase, which is only what the hand-off adds.
  const Span& read = spans.at("baton.transfer.read");
  EXPECT_EQ(read.end_unix_ns, spans.at("baton.transfer").end_unix_ns);
  EXPECT_EQ(read.end_unix_ns - read.start_unix_ns, 120);
  EXPECT_EQ(AttributeOf<std::string>(read, "baton.transfer.transport"), "shm");
}

TEST(RequestTracerTest, AnAttemptThatFoundNoRoomIsASpanOfTheQueue) {
  const auto spans = ByName(MakeSpans(ServedRecord(), "m"));
  const Span& attempt = spans.at("baton.attempt");
  EXPECT_EQ(attempt.parent_span_id, spans.at("baton.queue").span_id);
  EXPECT_EQ(attempt.start_unix_ns, kArrivedUnixNs + 20);
  EXPECT_EQ(attempt.end_unix_ns, kArrivedUnixNs + 70);
  EXPECT_EQ(attempt.status_message, "no room");
  EXPECT_EQ(AttributeOf<std::string>(attempt, "baton.decode.worker"), "d0");
}

TEST(RequestTracerTest, AnAttemptThatFailedAfterItsFirstTokenIsASpanOfDecode) {
  RequestRecord record = ServedRecord();
  JobResult job = *record.job;
  job.given_up = {{.began_ns = 20, .ended_ns = record.total_ns, .why = "the worker was lost"}};
  record.job = std::make_shared<const JobResult>(job);
  const auto spans = ByName(MakeSpans(record, "m"));
  EXPECT_EQ(spans.at("baton.attempt").parent_span_id, spans.at("baton.decode").span_id);
}

TEST(RequestTracerTest, TheRootSaysWhatWasAskedAndAnsweredAndNoTextOfIt) {
  RequestRecord record = ServedRecord();
  record.sampling.max_tokens = 7;
  const Span root = MakeSpans(record, "m")[0];
  EXPECT_EQ(AttributeOf<std::string>(root, "gen_ai.request.model"), "m");
  EXPECT_EQ(AttributeOf<int64_t>(root, "gen_ai.request.max_tokens"), 7);
  EXPECT_EQ(AttributeOf<int64_t>(root, "gen_ai.usage.input_tokens"), 12);
  EXPECT_EQ(AttributeOf<int64_t>(root, "gen_ai.usage.output_tokens"), 3);
  EXPECT_THAT(AttributeOf<std::vector<std::string>>(root, "gen_ai.response.finish_reasons"), ElementsAre("stop"));
  EXPECT_FALSE(Has(root, "gen_ai.input.messages"));
  EXPECT_FALSE(Has(root, "gen_ai.request.temperature")) << "the client did not ask for one";
  record.prompt_text = "hello";
  EXPECT_EQ(AttributeOf<std::string>(MakeSpans(record, "m")[0], "gen_ai.input.messages"), "hello");
}

TEST(RequestTracerTest, ARequestThatNeverReachedADispatcherHasAnErrorAndPhasesOfNothing) {
  RequestRecord record;
  record.trace = {.trace_id = {.high = 3, .low = 4}, .root_span_id = 5, .parent_span_id = 0};
  record.status = absl::InvalidArgumentError("prompt: empty");
  record.outcome = RequestOutcome::kRefused;
  record.network_ns = record.total_ns = 40;
  const auto spans = ByName(MakeSpans(record, "m"));
  EXPECT_EQ(spans.size(), 7u);
  EXPECT_EQ(spans.at("baton.request").status, telemetry::SpanStatus::kError);
  EXPECT_EQ(AttributeOf<std::string>(spans.at("baton.request"), "error.type"), "INVALID_ARGUMENT");
  EXPECT_EQ(spans.at("baton.network").end_unix_ns - spans.at("baton.network").start_unix_ns, 40);
}

TEST(RequestTracerTest, WithoutATracerTheClientsTraceGoesOnAndIsNotSampled) {
  const telemetry::TraceParent parent = {.trace_id = {.high = 1, .low = 2}, .span_id = 3, .flags = 1};
  const RequestTrace trace = BeginTrace(nullptr, {.parent = parent, .tracestate = "vendor=1", .baggage = "user=7"});
  EXPECT_FALSE(trace.sampled());
  EXPECT_EQ(HeadersOf(trace),
            (TraceHeaders{
                .traceparent = telemetry::FormatTraceparent(parent), .tracestate = "vendor=1", .baggage = "user=7"}));
  EXPECT_EQ(HeadersOf(BeginTrace(nullptr, {})), TraceHeaders());
}

}  // namespace
}  // namespace baton::router
