#include "gateway/anthropic_response.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gateway/api_error.h"
#include "gateway/field_reader.h"
#include "gateway/json_writing.h"

namespace baton::gateway {
namespace {

// Anthropic's own number for a service that cannot take more now.
constexpr int kOverloadedStatus = 529;

const char* AnthropicTypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return http_status < 499 ? "invalid_request_error" : "api_error";
  }
}

std::string AnthropicErrorBody(const std::string& message, int http_status) {
  return absl::StrCat(R"({"type":"error","error":{"type":")", AnthropicTypeOf(http_status), R"(","message":)",
                      JsonString(message), "}}");
}

std::string AnthropicErrorBody(const ApiError& error) {
  // The router's word for stop sequences is "stop". A client's own field of that name is one that is not known.
  const bool is_of_stops = error.param == "stop" && !absl::EndsWith(error.message, kUnknownField);
  std::string message = is_of_stops ? "stop_sequences" + error.message.substr(sizeof("stop") - 1) : error.message;
  // By this beginning clients know a chat that they have to shorten.
  if (error.is_too_long) message.insert(0, "prompt is too long: ");
  return AnthropicErrorBody(message, error.http_status);
}

// A token that comes from the cache is not among the input tokens, as Anthropic counts.
std::string AnthropicUsageOf(const router::GenerationUsage& usage) {
  return absl::StrCat(R"({"input_tokens":)", usage.prompt_tokens - usage.cached_prompt_tokens,
                      R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":)", usage.cached_prompt_tokens,
                      R"(,"output_tokens":)", usage.output_tokens, "}");
}

}  // namespace

std::string AnthropicWriter::Members() const {
  return absl::StrCat(R"({"id":)", JsonString(answer_.id), R"(,"type":"message","role":"assistant","model":)",
                      JsonString(answer_.model));
}

std::string AnthropicWriter::StopMembers(const router::GenerationFinished& finished) const {
  if (finished.reason != FinishReason::kStop) {
    const bool has_all = finished.usage.output_tokens >= answer_.max_tokens;
    return absl::StrCat(R"("stop_reason":")", has_all ? "max_tokens" : "model_context_window_exceeded",
                        R"(","stop_sequence":null)");
  }
  if (!finished.stop_index.has_value()) {
    return content_.has_calls() ? R"("stop_reason":"tool_use","stop_sequence":null)"
                                : R"("stop_reason":"end_turn","stop_sequence":null)";
  }
  return absl::StrCat(R"("stop_reason":"stop_sequence","stop_sequence":)",
                      JsonString(answer_.stop_sequences.at(*finished.stop_index)));
}

std::string AnthropicWriter::Begin() {
  if (std::exchange(has_begun_, true)) return {};
  // How many tokens the cache has is not known yet; message_delta says it.
  const router::GenerationUsage usage = {.prompt_tokens = prompt_tokens_};
  return AnthropicEvent("message_start",
                        absl::StrCat(R"({"type":"message_start","message":)", Members(),
                                     R"(,"content":[],"stop_reason":null,"stop_sequence":null,"usage":)",
                                     AnthropicUsageOf(usage), "}}")) +
         content_.Begin();
}

std::string AnthropicWriter::Chunk(const router::GenerationDelta& delta) {
  std::string events = Begin();
  // Tokens without a text, which half a character is, change nothing that a client sees.
  return events + content_.Delta(delta.text);
}

std::string AnthropicWriter::End(const router::GenerationFinished& finished) {
  std::string events = Begin() + content_.End();
  events += AnthropicEvent("message_delta", absl::StrCat(R"({"type":"message_delta","delta":{)", StopMembers(finished),
                                                         R"(},"usage":)", AnthropicUsageOf(finished.usage), "}"));
  return events + AnthropicEvent("message_stop", R"({"type":"message_stop"})");
}

std::string AnthropicWriter::End(const absl::Status& status) {
  return AnthropicEvent("error", AnthropicErrorBody(DescribeError(status)));
}

std::string AnthropicWriter::Whole(absl::Span<const router::GenerationDelta> outputs,
                                   const router::GenerationFinished& finished) {
  const std::string blocks = content_.Blocks(outputs.front().text);
  return absl::StrCat(Members(), R"(,"content":[)", blocks, "],", StopMembers(finished), R"(,"usage":)",
                      AnthropicUsageOf(finished.usage), "}");
}

HttpResponse AnthropicError(const absl::Status& status) {
  const ApiError error = DescribeError(status);
  return {.status = error.http_status == 503 ? kOverloadedStatus : error.http_status,
          .body = AnthropicErrorBody(error),
          .headers = ErrorHeaders(status)};
}

HttpResponse AnthropicRefusal(int http_status, const std::string& message) {
  return {.status = http_status, .body = AnthropicErrorBody(message, http_status)};
}

}  // namespace baton::gateway
