#include "gateway/anthropic_request.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/json_reading.h"
#include "gateway/json_text.h"
#include "gateway/output_format.h"
#include "gateway/tools/anthropic_tools.h"
#include "gateway/tools/tool_prompt.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldStatus;
using router::FieldViolation;

// What the prompt is made of.
constexpr FieldRule kPromptFields[] = {
    {"model"},
    {"messages"},
    {"system"},
    {"cache_control", FieldUse::kIgnored},
    {"user_profile_id", FieldUse::kIgnored},
    {"speed", FieldUse::kUnbuilt, R"("standard")"},
    {"thinking", FieldUse::kUnbuilt, R"({"type":"disabled"})"},
    {"tools"},
    {"tool_choice"},
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

// What the messages are read with, in their order.
struct AnthropicConversation {
  // One for each message.
  std::vector<std::string_view> texts;
  size_t next = 0;
  CallNames names = {};
};

absl::Status ReadAnthropicMessage(const json& message, const std::string& field, AnthropicConversation& conversation,
                                  std::vector<tokenizer::ChatMessage>& chat) {
  const std::string_view text = conversation.texts.at(conversation.next++);
  if (!message.is_object()) return FieldViolation(field, "must be an object");
  static constexpr FieldRule kFields[] = {{"role"}, {"content"}};
  BATON_RETURN_IF_ERROR(CheckFields(message, kFields, {}, field + "."));
  const json given = message.value("role", json());
  if (given != "user" && given != "assistant") {
    return FieldViolation(field + ".role", R"(must be "user" or "assistant")");
  }
  const auto role = given.get<std::string>();
  const json content = message.value("content", json());
  if (content.is_array()) {
    const std::string place = field + ".content";
    return AppendAnthropicBlocks({.role = role, .blocks = content, .text = JsonMember(text, "content"), .field = place},
                                 conversation.names, chat);
  }
  if (!content.is_string()) return FieldViolation(field + ".content", "must be a string or a list of blocks");
  chat.push_back({.role = role, .content = content.get<std::string>()});
  return absl::OkStatus();
}

absl::StatusOr<router::ChatPrompt> ReadAnthropicPrompt(const FieldReader& fields, std::string_view body) {
  router::ChatPrompt chat;
  if (const json* const system = fields.Find("system")) {
    auto text = ReadTextContent(*system, AnthropicText());
    if (!text.has_value()) return FieldViolation("system", "must be a string or a list of blocks of text");
    if (!text->empty()) chat.messages.push_back({.role = "system", .content = *std::move(text)});
  }
  AnthropicConversation conversation = {.texts = JsonItems(JsonMember(body, "messages"))};
  const auto read = [&conversation](const json& message, const std::string& field,
                                    std::vector<tokenizer::ChatMessage>& messages) {
    return ReadAnthropicMessage(message, field, conversation, messages);
  };
  const json* const given = fields.Find("messages");
  BATON_ASSIGN_OR_RETURN(std::vector<tokenizer::ChatMessage> messages, ReadMessageList(given, read));
  if (messages.empty()) return FieldViolation("messages", "must be a list of messages");
  if (messages.back().role == "assistant") {
    return FieldStatus(absl::StatusCode::kUnimplemented,
                       {.field = absl::StrCat("messages[", given->size() - 1, "].role"),
                        .description = "an answer that the client begins is not supported yet"});
  }
  std::move(messages.begin(), messages.end(), std::back_inserter(chat.messages));
  return chat;
}

}  // namespace

absl::StatusOr<AnthropicRequest> ReadAnthropicRequest(std::string_view body, const ToolStyle& style) {
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
  request.generation.prompt_field = "messages";
  BATON_ASSIGN_OR_RETURN(request.generation.prompt, ReadAnthropicPrompt(fields, body));
  BATON_ASSIGN_OR_RETURN(const ToolRequest tools, ReadAnthropicTools(object, body));
  BATON_ASSIGN_OR_RETURN(request.tools, ApplyTools(tools, style, request.generation));
  return request;
}

absl::StatusOr<AnthropicCount> ReadAnthropicCount(std::string_view body, const ToolStyle& style) {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  BATON_RETURN_IF_ERROR(CheckFields(object, kPromptFields));
  FieldReader fields(object);
  AnthropicCount count;
  count.model = fields.String("model");
  BATON_RETURN_IF_ERROR(fields.status());
  BATON_ASSIGN_OR_RETURN(count.prompt, ReadAnthropicPrompt(fields, body));
  BATON_ASSIGN_OR_RETURN(const ToolRequest tools, ReadAnthropicTools(object, body));
  router::SamplingRequest sampling;
  BATON_RETURN_IF_ERROR(ReadAnthropicFormat(object, body, sampling));
  WriteTools(tools, style, count.prompt);
  BATON_RETURN_IF_ERROR(ConstrainCalls(tools, style, count.prompt, sampling).status());
  return count;
}

}  // namespace baton::gateway
