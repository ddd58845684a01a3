#include "gateway/tools/tool_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"
#include "gateway/json_reading.h"
#include "gateway/json_text.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using router::FieldViolation;

bool IsToolName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxToolNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-'; });
}

bool HasTool(const ToolRequest& request, const std::string& name) {
  return std::any_of(request.tools.begin(), request.tools.end(), [&](const Tool& tool) { return tool.name == name; });
}

}  // namespace

absl::Status AddTool(Tool tool, const std::string& field, ToolRequest& request) {
  if (!IsToolName(tool.name)) {
    return FieldViolation(field + ".name",
                          absl::StrCat("must be 1 to ", kMaxToolNameBytes, " letters, digits, underscores and dashes"));
  }
  if (HasTool(request, tool.name)) return FieldViolation(field + ".name", "is the name of an earlier tool");
  if (request.tools.size() == kMaxTools) {
    return FieldViolation("tools", absl::StrCat("at most ", kMaxTools, " tools"));
  }
  if (tool.parameters.is_null()) {
    tool.parameters = {{"type", "object"}, {"properties", nlohmann::ordered_json::object()}};
  }
  if (!tool.parameters.is_object()) return FieldViolation(field, "its parameters must be a JSON Schema");
  request.tools.push_back(std::move(tool));
  return absl::OkStatus();
}

absl::Status CheckToolChoice(const std::string& field, ToolRequest& request) {
  const bool must_call = request.choice == ToolChoice::kRequired || request.choice == ToolChoice::kNamed;
  if (request.tools.empty()) {
    if (must_call) return FieldViolation(field, "needs tools");
    request.choice = ToolChoice::kNone;
  }
  if (request.choice == ToolChoice::kNamed && !HasTool(request, request.named)) {
    return FieldViolation(field, "names none of the tools");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadArguments(std::string_view text, const std::string& field) {
  if (text.empty()) return "{}";
  if (!ParseJsonObject(text).ok()) return FieldViolation(field, "must be the text of a JSON object");
  // The chat template is given it in the client's order.
  BATON_RETURN_IF_ERROR(ParseOrdered(text, field).status());
  return std::string(text);
}

absl::StatusOr<tokenizer::ChatMessage> CallNames::Result(const std::string& id, std::string content,
                                                         const std::string& field) const {
  const auto found = names_.find(id);
  if (found == names_.end()) return FieldViolation(field, "must be the id of a call before it");
  return tokenizer::ChatMessage{
      .role = "tool", .content = std::move(content), .tool_call_id = id, .name = found->second};
}

}  // namespace baton::gateway
