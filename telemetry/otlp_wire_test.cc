#include "telemetry/otlp_wire.h"

#include <string>
#include <vector>

#include "common/version.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"

namespace baton::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace pb = opentelemetry::proto;

constexpr size_t kWireTestMaxBytes = 100;

Span SampleSpan() {
  return {.trace_id = {.high = 0x0102030405060708, .low = 0x090a0b0c0d0e0f10},
          .span_id = 0x1112131415161718,
          .parent_span_id = 0x2122232425262728,
          .parent_is_remote = true,
          .trace_flags = 0x03,
          .tracestate = "foo=1",
          .name = "baton.request",
          .kind = SpanKind::kServer,
          .start_unix_ns = 1'700'000'000'000'000'001,
          .end_unix_ns = 1'700'000'000'000'000'900,
          .attributes = {{"text", "a \xE2\x82\xAC"},
                         {"number", int64_t{-7}},
                         {"part", 0.25},
                         {"flag", true},
                         {"list", std::vector<std::string>{"stop", "length"}}},
          .events = {{.name = "chunk", .time_unix_ns = 5, .attributes = {{"tokens", int64_t{512}}}}},
          .status = SpanStatus::kError,
          .status_message = "no worker"};
}

pb::trace::v1::ResourceSpans Decode(const std::string& message) {
  pb::collector::trace::v1::ExportTraceServiceRequest request;
  EXPECT_TRUE(request.ParseFromString(message));
  EXPECT_EQ(request.resource_spans_size(), 1);
  EXPECT_EQ(request.resource_spans(0).scope_spans_size(), 1);
  return request.resource_spans(0);
}

pb::trace::v1::Span DecodeOne(const Span& span) {
  return Decode(EncodeSpans({span}, {}, kWireTestMaxBytes)).scope_spans(0).spans(0);
}

TEST(OtlpWire, ASpanKeepsAllItHas) {
  const pb::trace::v1::Span span = DecodeOne(SampleSpan());
  EXPECT_EQ(span.trace_id(), "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10");
  EXPECT_EQ(span.span_id(), "\x11\x12\x13\x14\x15\x16\x17\x18");
  EXPECT_EQ(span.parent_span_id(), "\x21\x22\x23\x24\x25\x26\x27\x28");
  EXPECT_EQ(span.flags(), 0x303u) << "the parent is known to be remote";
  EXPECT_EQ(span.trace_state(), "foo=1");
  EXPECT_EQ(span.name(), "baton.request");
  EXPECT_EQ(span.kind(), pb::trace::v1::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(span.start_time_unix_nano(), 1'700'000'000'000'000'001u);
  EXPECT_EQ(span.end_time_unix_nano(), 1'700'000'000'000'000'900u);
  ASSERT_EQ(span.attributes_size(), 5);
  EXPECT_EQ(span.attributes(0).key(), "text");
  EXPECT_EQ(span.attributes(0).value().string_value(), "a \xE2\x82\xAC");
  EXPECT_EQ(span.attributes(1).value().int_value(), -7);
  EXPECT_EQ(span.attributes(2).value().double_value(), 0.25);
  EXPECT_TRUE(span.attributes(3).value().bool_value());
  ASSERT_EQ(span.attributes(4).value().array_value().values_size(), 2);
  EXPECT_EQ(span.attributes(4).value().array_value().values(1).string_value(), "length");
  ASSERT_EQ(span.events_size(), 1);
  EXPECT_EQ(span.events(0).name(), "chunk");
  EXPECT_EQ(span.events(0).time_unix_nano(), 5u);
  EXPECT_EQ(span.events(0).attributes(0).value().int_value(), 512);
  EXPECT_EQ(span.status().code(), pb::trace::v1::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(span.status().message(), "no worker");
}

TEST(OtlpWire, ARootHasNoParentAndAnUnsetStatusIsNotSent) {
  Span root = SampleSpan();
  root.parent_span_id = 0;
  root.parent_is_remote = false;
  root.status = SpanStatus::kUnset;
  const pb::trace::v1::Span span = DecodeOne(root);
  EXPECT_EQ(span.parent_span_id(), "");
  EXPECT_EQ(span.flags(), 0x103u) << "the parent is known not to be remote";
  EXPECT_FALSE(span.has_status());
}

TEST(OtlpWire, NoTextBreaksTheMessage) {
  Span span = SampleSpan();
  span.tracestate = "a=\xFF";
  span.status_message = "\xC3(";
  span.attributes = {{"text", "x\xE2\x82"}, {"list", std::vector<std::string>{"\xFF"}}};
  span.events[0].attributes = {{"text", "\xED\xA0\x80"}};
  const pb::trace::v1::Span decoded = DecodeOne(span);
  EXPECT_EQ(decoded.trace_state(), "a=\xEF\xBF\xBD");
  EXPECT_EQ(decoded.status().message(), "\xEF\xBF\xBD(");
  EXPECT_EQ(decoded.attributes(0).value().string_value(), "x\xEF\xBF\xBD");
  EXPECT_EQ(decoded.attributes(1).value().array_value().values(0).string_value(), "\xEF\xBF\xBD");
  EXPECT_THAT(decoded.events(0).attributes(0).value().string_value(), HasSubstr("\xEF\xBF\xBD"));
}

TEST(OtlpWire, LongTextsAreCutBetweenCharacters) {
  Span span = SampleSpan();
  const std::string almost(kWireTestMaxBytes - 1, 'x');
  span.attributes = {{"text", almost + "\xE2\x82\xAC"}, {"list", std::vector<std::string>{almost + "yz"}}};
  span.status_message = std::string(1000, 'm');
  const pb::trace::v1::Span decoded = DecodeOne(span);
  EXPECT_EQ(decoded.attributes(0).value().string_value(), almost);
  EXPECT_EQ(decoded.attributes(1).value().array_value().values(0).string_value(), almost + "y");
  EXPECT_EQ(decoded.status().message().size(), kWireTestMaxBytes);
}

TEST(OtlpWire, ASpanNeverEndsBeforeItBegins) {
  Span span = SampleSpan();
  span.end_unix_ns = span.start_unix_ns - 1;
  EXPECT_EQ(DecodeOne(span).end_time_unix_nano(), DecodeOne(span).start_time_unix_nano());
}

TEST(OtlpWire, TheResourceAndTheScopeSayWhoMadeTheSpans) {
  const pb::trace::v1::ResourceSpans spans =
      Decode(EncodeSpans({SampleSpan(), SampleSpan()}, {{"service.name", "baton-router"}, {"k", "\xFF"}}, 100));
  ASSERT_EQ(spans.resource().attributes_size(), 2);
  EXPECT_EQ(spans.resource().attributes(0).key(), "service.name");
  EXPECT_EQ(spans.resource().attributes(0).value().string_value(), "baton-router");
  EXPECT_EQ(spans.resource().attributes(1).value().string_value(), "\xEF\xBF\xBD");
  EXPECT_EQ(spans.scope_spans(0).scope().name(), "baton");
  EXPECT_EQ(spans.scope_spans(0).scope().version(), kVersion);
  EXPECT_EQ(spans.scope_spans(0).spans_size(), 2);
}

TEST(OtlpWire, ReadsWhatACollectorLeftOut) {
  pb::collector::trace::v1::ExportTraceServiceResponse response;
  SendResult result;
  EXPECT_TRUE(ReadExportResponse(response.SerializeAsString(), result));
  EXPECT_EQ(result.rejected_spans, 0);
  EXPECT_EQ(result.message, "");
  response.mutable_partial_success()->set_rejected_spans(3);
  EXPECT_TRUE(ReadExportResponse(response.SerializeAsString(), result));
  EXPECT_EQ(result.rejected_spans, 3);
  EXPECT_NE(result.message, "") << "there is something to warn of";
  response.mutable_partial_success()->set_rejected_spans(-5);
  response.mutable_partial_success()->set_error_message("too old\nreally");
  EXPECT_TRUE(ReadExportResponse(response.SerializeAsString(), result));
  EXPECT_EQ(result.rejected_spans, 0);
  EXPECT_EQ(result.message, "too old really");
  EXPECT_FALSE(ReadExportResponse("\xFF\xFF", result));
}

TEST(OtlpWire, ReadsWhenACollectorWantsToBeAskedAgain) {
  google::rpc::Status status;
  status.set_message("busy");
  EXPECT_EQ(ReadRpcStatus(status.SerializeAsString()).message, "busy");
  EXPECT_EQ(ReadRpcStatus(status.SerializeAsString()).retry_after_ms, std::nullopt);
  google::rpc::RetryInfo retry;
  const auto delay = [&](int64_t seconds, int32_t nanos) {
    retry.mutable_retry_delay()->set_seconds(seconds);
    retry.mutable_retry_delay()->set_nanos(nanos);
    status.clear_details();
    status.add_details()->PackFrom(google::rpc::ErrorInfo());
    status.add_details()->PackFrom(retry);
    return ReadRpcStatus(status.SerializeAsString()).retry_after_ms;
  };
  EXPECT_EQ(delay(2, 500'000'000), 2500);
  EXPECT_EQ(delay(0, 0), 0);
  EXPECT_EQ(delay(-1, -1), 0);
  EXPECT_EQ(delay(int64_t{1} << 60, 0), 3'600'000);
  EXPECT_EQ(ReadRpcStatus("\xFF").message, "");
}

TEST(OtlpWire, WhatIsLoggedOfACollectorIsBoundedAndOneLine) {
  EXPECT_EQ(QuoteForLog("a\r\nb\x1b[31m\x7f"), "a  b [31m ");
  EXPECT_EQ(QuoteForLog(std::string(5000, 'x')).size(), 200u);
}

}  // namespace
}  // namespace baton::telemetry
