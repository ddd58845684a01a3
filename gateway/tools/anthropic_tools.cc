#include "gateway/tools/anthropic_tools.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/json_text.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldViolation;

// A constraint obeys the schema whether it is called strict or not, and without one nothing does. When arguments are
// sent depends on the choice alone.
constexpr FieldRule kAnthropicToolFields[] = {{"name"},
                                              {"description"},
                                              {"input_schema"},
                                              {"type"},
                                              {"cache_control", FieldUse::kIgnored},
                                              {"strict", FieldUse::kIgnored},
                                              {"eager_input_streaming", FieldUse::kIgnored},
                                              {"allowed_callers", FieldUse::kUnbuilt, R"(["direct"])"},
                                              {"defer_loading", FieldUse::kUnbuilt, "false"},
                                              {"input_examples", FieldUse::kUnbuilt, "[]"}};

// `text`: of the tool.
absl::Status ReadAnthropicTool(const json& tool, std::string_view text, const std::string& field,
                               ToolRequest& request) {
  if (!tool.is_object()) return FieldViolation(field, "must be an object");
  const json type = tool.value("type", json("custom"));
  if (type != "custom" && !type.is_null()) {
    return router::FieldStatus(absl::StatusCode::kUnimplemented,
                               {.field = field + ".type", .description = "only a client's own tools are supported"});
  }
  BATON_RETURN_IF_ERROR(CheckFields(tool, kAnthropicToolFields, {}, field + "."));
  FieldReader fields(tool, field + ".");
  Tool read = {.name = fields.String("name"), .description = fields.String("description"), .parameters = {}};
  BATON_RETURN_IF_ERROR(fields.status());
  const json* const schema = fields.Find("input_schema");
  if (schema == nullptr || !schema->is_object())
    return FieldViolation(field + ".input_schema", "must be a JSON Schema");
  BATON_ASSIGN_OR_RETURN(read.parameters, ParseOrdered(JsonMember(text, "input_schema"), field + ".input_schema"));
  return AddTool(std::move(read), field, request);
}

absl::Status ReadAnthropicChoice(const json& choice, ToolRequest& request) {
  constexpr char kPrefix[] = "tool_choice.";
  if (!choice.is_object()) return FieldViolation("tool_choice", "must be an object");
  static constexpr FieldRule kFields[] = {{"type"}, {"name"}, {"disable_parallel_tool_use"}};
  BATON_RETURN_IF_ERROR(CheckFields(choice, kFields, {}, kPrefix));
  FieldReader fields(choice, kPrefix);
  const std::string type = fields.String("type");
  request.named = fields.String("name");
  request.takes_several = !fields.Bool("disable_parallel_tool_use").value_or(false);
  BATON_RETURN_IF_ERROR(fields.status());
  if (type != "auto" && type != "any" && type != "tool" && type != "none") {
    return FieldViolation("tool_choice.type", R"(must be "auto", "any", "tool" or "none")");
  }
  if ((type == "tool") == request.named.empty()) {
    return FieldViolation("tool_choice.name", R"(the type "tool", and no other, has a name)");
  }
  request.choice = type == "auto"   ? ToolChoice::kAuto
                   : type == "any"  ? ToolChoice::kRequired
                   : type == "tool" ? ToolChoice::kNamed
                                    : ToolChoice::kNone;
  return absl::OkStatus();
}

// `text`: of the block.
absl::StatusOr<tokenizer::ChatToolCall> ReadToolUse(const json& block, std::string_view text,
                                                    const std::string& field) {
  static constexpr FieldRule kFields[] = {{"type"},
                                          {"id"},
                                          {"name"},
                                          {"input"},
                                          {"cache_control", FieldUse::kIgnored},
                                          {"caller", FieldUse::kUnbuilt, R"({"type":"direct"})"},
                                          {"toolset_name", FieldUse::kUnbuilt}};
  BATON_RETURN_IF_ERROR(CheckFields(block, kFields, {}, field + "."));
  FieldReader fields(block, field + ".");
  tokenizer::ChatToolCall call = {.id = fields.String("id"), .name = fields.String("name"), .arguments = {}};
  BATON_RETURN_IF_ERROR(fields.status());
  if (call.id.empty()) return FieldViolation(field + ".id", "must be given");
  if (call.name.empty()) return FieldViolation(field + ".name", "must be given");
  const json* const input = fields.Find("input");
  if (input == nullptr || !input->is_object()) return FieldViolation(field + ".input", "must be an object");
  BATON_ASSIGN_OR_RETURN(call.arguments, ReadArguments(JsonMember(text, "input"), field + ".input"));
  return call;
}

absl::StatusOr<tokenizer::ChatMessage> ReadToolResult(const json& block, const std::string& field,
                                                      const CallNames& names) {
  static constexpr FieldRule kFields[] = {{"type"},
                                          {"tool_use_id"},
                                          {"content"},
                                          {"is_error"},
                                          {"cache_control", FieldUse::kIgnored},
                                          {"toolset_name", FieldUse::kUnbuilt}};
  BATON_RETURN_IF_ERROR(CheckFields(block, kFields, {}, field + "."));
  FieldReader fields(block, field + ".");
  const std::string id = fields.String("tool_use_id");
  const bool is_error = fields.Bool("is_error").value_or(false);
  BATON_RETURN_IF_ERROR(fields.status());
  const json* const content = fields.Find("content");
  auto text = content == nullptr ? std::string() : ReadTextContent(*content, AnthropicText());
  if (!text.has_value()) return FieldViolation(field + ".content", "must be a string or a list of blocks of text");
  // No template has a word for it.
  return names.Result(id, is_error ? absl::StrCat("Error: ", *text) : *std::move(text), field + ".tool_use_id");
}

}  // namespace

const TextParts& AnthropicText() {
  static const TextParts* const kParts = new TextParts{.ignored = {"cache_control"}};
  return *kParts;
}

absl::StatusOr<ToolRequest> ReadAnthropicTools(const json& object, std::string_view body) {
  ToolRequest request = {.choice = ToolChoice::kAuto};
  const FieldReader fields(object);
  if (const json* const tools = fields.Find("tools")) {
    if (!tools->is_array()) return FieldViolation("tools", "must be a list of tools");
    const std::vector<std::string_view> texts = JsonItems(JsonMember(body, "tools"));
    for (size_t i = 0; i < tools->size(); ++i) {
      BATON_RETURN_IF_ERROR(ReadAnthropicTool((*tools)[i], texts.at(i), absl::StrCat("tools[", i, "]"), request));
    }
  }
  if (const json* const choice = fields.Find("tool_choice")) {
    BATON_RETURN_IF_ERROR(ReadAnthropicChoice(*choice, request));
  }
  BATON_RETURN_IF_ERROR(CheckToolChoice("tool_choice", request));
  return request;
}

absl::Status AppendAnthropicBlocks(const AnthropicBlocks& content, CallNames& names,
                                   std::vector<tokenizer::ChatMessage>& chat) {
  // What the next block of text goes to; a result ends it.
  bool is_open = false;
  const auto open = [&]() -> tokenizer::ChatMessage& {
    if (!std::exchange(is_open, true)) chat.push_back({.role = content.role, .content = ""});
    return chat.back();
  };
  const bool is_user = content.role == "user";
  const std::vector<std::string_view> texts = JsonItems(content.text);
  for (size_t i = 0; i < content.blocks.size(); ++i) {
    const json& block = content.blocks[i];
    const std::string place = absl::StrCat(content.field, "[", i, "]");
    const json type = block.is_object() ? block.value("type", json()) : json();
    if (type == "tool_use" && !is_user) {
      BATON_ASSIGN_OR_RETURN(tokenizer::ChatToolCall call, ReadToolUse(block, texts.at(i), place));
      names.Add(call);
      open().tool_calls.push_back(std::move(call));
    } else if (type == "tool_result" && is_user) {
      BATON_ASSIGN_OR_RETURN(tokenizer::ChatMessage result, ReadToolResult(block, place, names));
      chat.push_back(std::move(result));
      is_open = false;
    } else {
      auto text = ReadTextContent(json::array({block}), AnthropicText());
      if (!text.has_value()) return FieldViolation(content.field, "must be a string or a list of blocks of text");
      open().content += *text;
    }
  }
  // Without a block it is an empty text.
  if (content.blocks.empty()) open();
  return absl::OkStatus();
}

}  // namespace baton::gateway
