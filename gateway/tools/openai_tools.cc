#include "gateway/tools/openai_tools.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/json_text.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldViolation;

constexpr FieldRule kTypeField[] = {{"type"}};
constexpr FieldRule kFunctionField[] = {{"function"}};
// A constraint obeys the schema whether it is called strict or not, and without one nothing does.
constexpr FieldRule kFunctionFields[] = {{"name"}, {"description"}, {"parameters"}, {"strict", FieldUse::kIgnored}};
constexpr FieldRule kItemToolFields[] = {{"type"},
                                         {"name"},
                                         {"description"},
                                         {"parameters"},
                                         {"strict", FieldUse::kIgnored},
                                         {"allowed_callers", FieldUse::kUnbuilt, R"(["direct"])"},
                                         {"async", FieldUse::kUnbuilt, "false"},
                                         {"defer_loading", FieldUse::kUnbuilt, "false"},
                                         {"output_schema", FieldUse::kUnbuilt}};

absl::Status OnlyFunctions(const std::string& field) {
  return router::FieldStatus(absl::StatusCode::kUnimplemented,
                             {.field = field, .description = "only functions are supported yet"});
}

// The object that has the name: the tool itself, or its member.
absl::StatusOr<const json*> HolderOf(OpenAiToolForm form, const json& tool, const std::string& field) {
  if (!tool.is_object()) return FieldViolation(field, "must be an object");
  const json type = tool.value("type", json());
  if (!type.is_string()) return FieldViolation(field + ".type", "must be a string");
  if (type != "function") return OnlyFunctions(field + ".type");
  if (form == OpenAiToolForm::kResponses) return &tool;
  const auto function = tool.find("function");
  if (function == tool.end() || !function->is_object()) {
    return FieldViolation(field + ".function", "must be an object");
  }
  return &*function;
}

// `text`: of the tool.
absl::Status ReadOpenAiTool(OpenAiToolForm form, const json& tool, std::string_view text, const std::string& field,
                            ToolRequest& request) {
  BATON_ASSIGN_OR_RETURN(const json* const holder, HolderOf(form, tool, field));
  const bool is_chat = form == OpenAiToolForm::kChat;
  const std::string inner = is_chat ? field + ".function" : field;
  if (is_chat) BATON_RETURN_IF_ERROR(CheckFields(tool, kTypeField, kFunctionField, field + "."));
  BATON_RETURN_IF_ERROR(
      CheckFields(*holder, is_chat ? absl::MakeConstSpan(kFunctionFields) : kItemToolFields, {}, inner + "."));
  FieldReader fields(*holder, inner + ".");
  Tool read = {.name = fields.String("name"), .description = fields.String("description"), .parameters = {}};
  BATON_RETURN_IF_ERROR(fields.status());
  if (fields.Find("parameters") != nullptr) {
    const std::string_view parameters = JsonMember(is_chat ? JsonMember(text, "function") : text, "parameters");
    BATON_ASSIGN_OR_RETURN(read.parameters, ParseOrdered(parameters, inner + ".parameters"));
  }
  return AddTool(std::move(read), inner, request);
}

absl::Status ReadOpenAiChoice(OpenAiToolForm form, const json& choice, ToolRequest& request) {
  constexpr char kField[] = "tool_choice";
  if (choice == "none") request.choice = ToolChoice::kNone;
  if (choice == "required") request.choice = ToolChoice::kRequired;
  if (choice == "none" || choice == "auto" || choice == "required") return absl::OkStatus();
  if (!choice.is_object()) {
    return FieldViolation(kField, R"(must be "none", "auto", "required" or an object that names a function)");
  }
  BATON_ASSIGN_OR_RETURN(const json* const holder, HolderOf(form, choice, kField));
  static constexpr FieldRule kNames[] = {{"name"}};
  if (form == OpenAiToolForm::kChat) {
    BATON_RETURN_IF_ERROR(CheckFields(choice, kTypeField, kFunctionField, absl::StrCat(kField, ".")));
    BATON_RETURN_IF_ERROR(CheckFields(*holder, kNames, {}, absl::StrCat(kField, ".function.")));
  } else {
    BATON_RETURN_IF_ERROR(CheckFields(choice, kTypeField, kNames, absl::StrCat(kField, ".")));
  }
  FieldReader fields(*holder, absl::StrCat(kField, "."));
  request.choice = ToolChoice::kNamed;
  request.named = fields.String("name");
  return fields.status();
}

absl::StatusOr<tokenizer::ChatToolCall> ReadNamedCall(const json& holder, const std::string& id,
                                                      const std::string& field) {
  FieldReader fields(holder, field + ".");
  tokenizer::ChatToolCall call = {.id = id, .name = fields.String("name"), .arguments = fields.String("arguments")};
  BATON_RETURN_IF_ERROR(fields.status());
  if (call.name.empty()) return FieldViolation(field + ".name", "must be given");
  BATON_ASSIGN_OR_RETURN(call.arguments, ReadArguments(call.arguments, field + ".arguments"));
  return call;
}

absl::StatusOr<std::string> ReadId(const json& holder, const char* name, const std::string& field) {
  const json id = holder.value(name, json());
  const bool is_id = id.is_string() && !id.get_ref<const std::string&>().empty();
  if (!is_id) return FieldViolation(absl::StrCat(field, ".", name), "must be a string");
  return id.get<std::string>();
}

}  // namespace

absl::StatusOr<ToolRequest> ReadOpenAiTools(OpenAiToolForm form, const json& object, std::string_view body) {
  ToolRequest request = {.choice = ToolChoice::kAuto};
  FieldReader fields(object);
  request.takes_several = fields.Bool("parallel_tool_calls").value_or(true);
  BATON_RETURN_IF_ERROR(fields.status());
  if (const json* const tools = fields.Find("tools")) {
    if (!tools->is_array()) return FieldViolation("tools", "must be a list of tools");
    const std::vector<std::string_view> texts = JsonItems(JsonMember(body, "tools"));
    for (size_t i = 0; i < tools->size(); ++i) {
      BATON_RETURN_IF_ERROR(ReadOpenAiTool(form, (*tools)[i], texts.at(i), absl::StrCat("tools[", i, "]"), request));
    }
  }
  if (const json* const choice = fields.Find("tool_choice")) {
    BATON_RETURN_IF_ERROR(ReadOpenAiChoice(form, *choice, request));
  }
  BATON_RETURN_IF_ERROR(CheckToolChoice("tool_choice", request));
  return request;
}

absl::StatusOr<std::vector<tokenizer::ChatToolCall>> ReadOpenAiCalls(const json& calls, const std::string& field) {
  if (!calls.is_array() || calls.size() > static_cast<size_t>(kMaxToolCalls)) {
    return FieldViolation(field, absl::StrCat("must be a list of at most ", kMaxToolCalls, " calls"));
  }
  std::vector<tokenizer::ChatToolCall> read;
  for (const json& call : calls) {
    const std::string place = absl::StrCat(field, "[", read.size(), "]");
    BATON_ASSIGN_OR_RETURN(const json* const function, HolderOf(OpenAiToolForm::kChat, call, place));
    // A call that was put together from a stream has its index.
    static constexpr FieldRule kFields[] = {{"id"}, {"type"}, {"function"}, {"index", FieldUse::kIgnored}};
    static constexpr FieldRule kInner[] = {{"name"}, {"arguments"}};
    BATON_RETURN_IF_ERROR(CheckFields(call, kFields, {}, place + "."));
    BATON_RETURN_IF_ERROR(CheckFields(*function, kInner, {}, place + ".function."));
    BATON_ASSIGN_OR_RETURN(const std::string id, ReadId(call, "id", place));
    BATON_ASSIGN_OR_RETURN(tokenizer::ChatToolCall one, ReadNamedCall(*function, id, place + ".function"));
    read.push_back(std::move(one));
  }
  return read;
}

absl::StatusOr<tokenizer::ChatToolCall> ReadFunctionCallItem(const json& item, const std::string& field) {
  static constexpr FieldRule kFields[] = {{"type"},
                                          {"call_id"},
                                          {"name"},
                                          {"arguments"},
                                          {"id", FieldUse::kIgnored},
                                          {"status", FieldUse::kIgnored},
                                          {"async", FieldUse::kUnbuilt, "false"},
                                          {"caller", FieldUse::kUnbuilt, R"({"type":"direct"})"},
                                          {"namespace", FieldUse::kUnbuilt}};
  BATON_RETURN_IF_ERROR(CheckFields(item, kFields, {}, field + "."));
  BATON_ASSIGN_OR_RETURN(const std::string id, ReadId(item, "call_id", field));
  return ReadNamedCall(item, id, field);
}

}  // namespace baton::gateway
