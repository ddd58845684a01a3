#include "gateway/tools/tool_schema.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton::gateway {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kMapsOfSchemas[] = {"properties", "patternProperties", "$defs", "definitions",
                                               "dependentSchemas"};
constexpr std::string_view kValues[] = {"const", "enum", "default", "examples", "example"};

template <size_t n>
bool IsAmong(const std::string_view (&names)[n], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// References within the document begin with "#"; its root moves to `root`. What is no schema is left alone, such as a
// property whose name is $ref.
void MoveReferences(ordered_json& schema, const std::string& root) {
  if (schema.is_array()) {
    for (ordered_json& each : schema) MoveReferences(each, root);
  }
  if (!schema.is_object()) return;
  for (auto& [keyword, value] : schema.items()) {
    if (keyword == "$ref" && value.is_string()) {
      const std::string reference = value.get<std::string>();
      if (reference == "#" || absl::StartsWith(reference, "#/")) value = root + reference.substr(1);
    } else if (IsAmong(kMapsOfSchemas, keyword) && value.is_object()) {
      for (auto& [name, each] : value.items()) MoveReferences(each, root);
    } else if (!IsAmong(kValues, keyword)) {
      MoveReferences(value, root);
    }
  }
}

// `place` is where the schema of the call will be.
ordered_json CallSchema(const Tool& tool, const std::string& arguments_key, const std::string& place) {
  ordered_json parameters = tool.parameters;
  // A name of the document, to which no reference within it needs to speak.
  parameters.erase("$id");
  MoveReferences(parameters, absl::StrCat(place, "/properties/", arguments_key));
  // The arguments are an object also where the schema forgets to say so.
  if (!parameters.contains("type")) parameters["type"] = "object";
  return {{"type", "object"},
          {"properties", {{"name", {{"const", tool.name}}}, {arguments_key, std::move(parameters)}}},
          {"required", ordered_json::array({"name", arguments_key})},
          {"additionalProperties", false}};
}

}  // namespace

OutputGrammar CallGrammar(const ToolRequest& request, const std::string& arguments_key) {
  ordered_json calls = ordered_json::array();
  for (const Tool& tool : request.tools) {
    if (request.choice == ToolChoice::kNamed && tool.name != request.named) continue;
    calls.push_back(CallSchema(tool, arguments_key, absl::StrCat("#/anyOf/", calls.size())));
  }
  const ordered_json schema = {{"anyOf", std::move(calls)}};
  return {.kind = GrammarKind::kJsonSchema, .text = schema.dump()};
}

}  // namespace baton::gateway
