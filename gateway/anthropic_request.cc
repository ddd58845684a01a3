#include "gateway/anthropic_request.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/json_reading.h"
#include "gateway/output_format.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldStatus;
using router::FieldViolation;

// Where a client marks the end of a prefix that it wants cached. Baton's prefix cache needs no marks.
const TextParts& MarkedText() {
  static const TextParts* const kParts = new TextParts{.ignored = {"cache_control"}};
  return *kParts;
}

// What the prompt is made of.
constexpr FieldRule kPromptFields[] = {
    {"model"},
    {"messages"},
    {"system"},
    {"cache_control", FieldUse::kIgnored},
    {"user_profile_id", FieldUse::kIgnored},
    {"speed", FieldUse::kUnbuilt, R"("standard")"},
    {"thinking", FieldUse::kUnbuilt, R"({"type":"disabled"})"},
    {"tools", FieldUse::kUnbuilt, "[]"},
    {"tool_choice", FieldUse::kUnbuilt, R"({"type":"none"})"},
    {"mcp_servers", FieldUse::kUnbuilt, "[]"},
    {"context_management", FieldUse::kUnbuilt},
    {"output_config"},
    {"output_format"},
};

constexpr FieldRule kAnswerFields[] = {
    {"max_tokens"},
    {"stop_sequences"},
    {"stream"},
    {"temperature"},
    {"top_k"},
    {"top_p"},
    // Baton's own.
    {"seed"},
    {"metadata", FieldUse::kIgnored},
    {"service_tier", FieldUse::kIgnored},
    {"inference_geo", FieldUse::kUnbuilt},
    {"container", FieldUse::kUnbuilt},
    {"diagnostics", FieldUse::kUnbuilt},
};

absl::StatusOr<tokenizer::ChatMessage> ReadAnthropicMessage(const json& message, const std::string& field) {
  if (!message.is_object()) return FieldViolation(field, "must be an object");
  static constexpr FieldRule kFields[] = {{"role"}, {"content"}};
  BATON_RETURN_IF_ERROR(CheckFields(message, kFields, {}, field + "."));
  const json role = message.value("role", json());
  if (role != "user" && role != "assistant") return FieldViolation(field + ".role", R"(must be "user" or "assistant")");
  auto text = ReadTextContent(message.value("content", json()), MarkedText());
  if (!text.has_value()) return FieldViolation(field + ".content", "must be a string or a list of blocks of text");
  return tokenizer::ChatMessage{.role = role.get<std::string>(), .content = *std::move(text)};
}

absl::StatusOr<router::ChatPrompt> ReadAnthropicPrompt(const FieldReader& fields) {
  router::ChatPrompt chat;
  if (const json* const system = fields.Find("system")) {
    auto text = ReadTextContent(*system, MarkedText());
    if (!text.has_value()) return FieldViolation("system", "must be a string or a list of blocks of text");
    if (!text->empty()) chat.messages.push_back({.role = "system", .content = *std::move(text)});
  }
  BATON_ASSIGN_OR_RETURN(std::vector<tokenizer::ChatMessage> messages,
                         ReadMessageList(fields.Find("messages"), ReadAnthropicMessage));
  if (messages.empty()) return FieldViolation("messages", "must be a list of messages");
  if (messages.back().role == "assistant") {
    return FieldStatus(absl::StatusCode::kUnimplemented,
                       {.field = absl::StrCat("messages[", messages.size() - 1, "].role"),
                        .description = "an answer that the client begins is not supported yet"});
  }
  std::move(messages.begin(), messages.end(), std::back_inserter(chat.messages));
  return chat;
}

}  // namespace

absl::StatusOr<AnthropicRequest> ReadAnthropicRequest(std::string_view body) {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  BATON_RETURN_IF_ERROR(CheckFields(object, kPromptFields, kAnswerFields));
  FieldReader fields(object);
  AnthropicRequest request;
  request.generation.model = fields.String("model");
  request.stream = fields.Bool("stream").value_or(false);
  request.generation.stop = fields.Strings("stop_sequences");
  router::SamplingRequest& sampling = request.generation.sampling;
  sampling.temperature = fields.Number("temperature");
  sampling.top_k = fields.Integer("top_k");
  sampling.top_p = fields.Number("top_p");
  sampling.seed = fields.Unsigned("seed");
  BATON_RETURN_IF_ERROR(ReadAnthropicFormat(object, body, sampling));
  const auto max_tokens = fields.Integer("max_tokens");
  BATON_RETURN_IF_ERROR(fields.status());
  if (!max_tokens.has_value()) return FieldViolation("max_tokens", "must be given");
  sampling.max_tokens = std::min(*max_tokens, kMaxOutputTokens);
  BATON_ASSIGN_OR_RETURN(request.generation.prompt, ReadAnthropicPrompt(fields));
  return request;
}

absl::StatusOr<AnthropicCount> ReadAnthropicCount(std::string_view body) {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  BATON_RETURN_IF_ERROR(CheckFields(object, kPromptFields));
  FieldReader fields(object);
  AnthropicCount count;
  count.model = fields.String("model");
  BATON_RETURN_IF_ERROR(fields.status());
  BATON_ASSIGN_OR_RETURN(count.prompt, ReadAnthropicPrompt(fields));
  return count;
}

}  // namespace baton::gateway
