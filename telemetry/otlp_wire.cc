#include "telemetry/otlp_wire.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <variant>

#include "common/check.h"
#include "common/rpc/retry_delay.h"
#include "common/utf8.h"
#include "common/version.h"
#include "google/rpc/status.pb.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"

namespace baton::telemetry {
namespace {

namespace pb = opentelemetry::proto;

constexpr size_t kMaxLoggedBytes = 200;

// A text of a message must be UTF-8, or no receiver parses the whole message.
std::string WireText(std::string_view text, size_t max_bytes) { return DecodeUtf8LossyPrefix(text, max_bytes); }

std::string BigEndian(uint64_t value) {
  std::string bytes(sizeof(value), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(value >> (56 - 8 * i));
  return bytes;
}

class Encoder {
 public:
  explicit Encoder(size_t max_attribute_bytes) : max_attribute_bytes_(max_attribute_bytes) {}

  void AddSpan(const Span& span, pb::trace::v1::Span& out) const;

 private:
  void SetValue(const AttributeValue& value, pb::common::v1::AnyValue& out) const;
  template <typename Message>
  void AddAttributes(const std::vector<Attribute>& attributes, Message& out) const {
    out.mutable_attributes()->Reserve(static_cast<int>(attributes.size()));
    for (const Attribute& attribute : attributes) {
      pb::common::v1::KeyValue& pair = *out.add_attributes();
      pair.set_key(std::string(attribute.key.view()));
      SetValue(attribute.value, *pair.mutable_value());
    }
  }

  const size_t max_attribute_bytes_;
};

void Encoder::SetValue(const AttributeValue& value, pb::common::v1::AnyValue& out) const {
  if (const auto* text = std::get_if<std::string>(&value)) out.set_string_value(WireText(*text, max_attribute_bytes_));
  if (const auto* number = std::get_if<int64_t>(&value)) out.set_int_value(*number);
  if (const auto* number = std::get_if<double>(&value)) out.set_double_value(*number);
  if (const auto* flag = std::get_if<bool>(&value)) out.set_bool_value(*flag);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    // Set also when the list is empty.
    pb::common::v1::ArrayValue& array = *out.mutable_array_value();
    for (const std::string& text : *texts) array.add_values()->set_string_value(WireText(text, max_attribute_bytes_));
  }
}

void Encoder::AddSpan(const Span& span, pb::trace::v1::Span& out) const {
  BATON_CHECK(!span.trace_id.is_zero() && span.span_id != 0) << span.name.view();
  out.set_trace_id(BigEndian(span.trace_id.high) + BigEndian(span.trace_id.low));
  out.set_span_id(BigEndian(span.span_id));
  if (span.parent_span_id != 0) out.set_parent_span_id(BigEndian(span.parent_span_id));
  uint32_t flags = span.trace_flags | pb::trace::v1::SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK;
  if (span.parent_is_remote) flags |= pb::trace::v1::SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK;
  out.set_flags(flags);
  out.set_trace_state(WireText(span.tracestate, max_attribute_bytes_));
  out.set_name(std::string(span.name.view()));
  out.set_kind(static_cast<pb::trace::v1::Span::SpanKind>(span.kind));
  out.set_start_time_unix_nano(static_cast<uint64_t>(span.start_unix_ns));
  // A receiver takes a span that ends before it begins for broken.
  out.set_end_time_unix_nano(static_cast<uint64_t>(std::max(span.start_unix_ns, span.end_unix_ns)));
  AddAttributes(span.attributes, out);
  for (const SpanEvent& event : span.events) {
    pb::trace::v1::Span::Event& wire_event = *out.add_events();
    wire_event.set_name(std::string(event.name.view()));
    wire_event.set_time_unix_nano(static_cast<uint64_t>(event.time_unix_ns));
    AddAttributes(event.attributes, wire_event);
  }
  if (span.status == SpanStatus::kUnset) return;
  out.mutable_status()->set_code(static_cast<pb::trace::v1::Status::StatusCode>(span.status));
  if (span.status == SpanStatus::kError) {
    out.mutable_status()->set_message(WireText(span.status_message, max_attribute_bytes_));
  }
}

}  // namespace

std::string EncodeSpans(absl::Span<const Span> spans, const ResourceAttributes& resource, size_t max_attribute_bytes) {
  google::protobuf::Arena arena;
  auto& request = *google::protobuf::Arena::CreateMessage<pb::collector::trace::v1::ExportTraceServiceRequest>(&arena);
  pb::trace::v1::ResourceSpans& resource_spans = *request.add_resource_spans();
  for (const auto& [key, value] : resource) {
    pb::common::v1::KeyValue& pair = *resource_spans.mutable_resource()->add_attributes();
    pair.set_key(WireText(key, max_attribute_bytes));
    pair.mutable_value()->set_string_value(WireText(value, max_attribute_bytes));
  }
  pb::trace::v1::ScopeSpans& scope_spans = *resource_spans.add_scope_spans();
  scope_spans.mutable_scope()->set_name("baton");
  scope_spans.mutable_scope()->set_version(kVersion);
  scope_spans.mutable_spans()->Reserve(static_cast<int>(spans.size()));
  const Encoder encoder(max_attribute_bytes);
  for (const Span& span : spans) encoder.AddSpan(span, *scope_spans.add_spans());
  return request.SerializeAsString();
}

bool ReadExportResponse(const std::string& bytes, SendResult& result) {
  pb::collector::trace::v1::ExportTraceServiceResponse response;
  if (!response.ParseFromString(bytes)) return false;
  result.rejected_spans = std::max<int64_t>(response.partial_success().rejected_spans(), 0);
  result.message = QuoteForLog(response.partial_success().error_message());
  if (result.message.empty() && result.rejected_spans > 0) result.message = "nothing of why";
  return true;
}

RpcStatus ReadRpcStatus(const std::string& bytes) {
  google::rpc::Status status;
  if (!status.ParseFromString(bytes)) return {};
  RpcStatus read = {.message = QuoteForLog(status.message())};
  if (const auto delay_ms = rpc::RetryDelayMs(status)) read.retry_after_ms = std::min(*delay_ms, kMaxRetryAfterMs);
  return read;
}

std::string QuoteForLog(std::string_view text) {
  std::string quoted = WireText(text, kMaxLoggedBytes);
  std::replace_if(
      quoted.begin(), quoted.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, ' ');
  return quoted;
}

}  // namespace baton::telemetry
