#include "grammar/testing/schema_validator.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>

#include "common/utf8.h"

namespace baton::grammar {
namespace {

using nlohmann::json;

bool HasType(const json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "number") return value.is_number();
  return value.is_number_integer() || (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
}

bool SatisfiesType(const json& value, const json& types) {
  if (types.is_string()) return HasType(value, types);
  return std::any_of(types.begin(), types.end(), [&value](const json& type) { return HasType(value, type); });
}

bool SatisfiesNumber(const json& value, const json& schema) {
  if (!value.is_number()) return true;
  const double number = value;
  return (!schema.contains("minimum") || number >= schema["minimum"].get<double>()) &&
         (!schema.contains("maximum") || number <= schema["maximum"].get<double>()) &&
         (!schema.contains("exclusiveMinimum") || number > schema["exclusiveMinimum"].get<double>()) &&
         (!schema.contains("exclusiveMaximum") || number < schema["exclusiveMaximum"].get<double>());
}

bool SatisfiesString(const json& value, const json& schema) {
  if (!value.is_string()) return true;
  const std::string text = value;
  const size_t length = CountCodePoints(text);
  if (length < schema.value("minLength", size_t{0}) || length > schema.value("maxLength", size_t{1} << 20))
    return false;
  return !schema.contains("pattern") || std::regex_search(text, std::regex(schema["pattern"].get<std::string>()));
}

bool SatisfiesArray(const json& value, const json& schema, const json& root) {
  if (!value.is_array()) return true;
  if (value.size() < schema.value("minItems", size_t{0}) || value.size() > schema.value("maxItems", size_t{1} << 20)) {
    return false;
  }
  const json prefix = schema.value("prefixItems", json::array());
  for (size_t i = 0; i < value.size(); ++i) {
    if (i < prefix.size() ? !Satisfies(value[i], prefix[i], root)
                          : schema.contains("items") && !Satisfies(value[i], schema["items"], root)) {
      return false;
    }
  }
  return true;
}

bool SatisfiesObject(const json& value, const json& schema, const json& root) {
  if (!value.is_object()) return true;
  for (const json& name : schema.value("required", json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  const json properties = schema.value("properties", json::object());
  for (const auto& [name, member] : value.items()) {
    if (properties.contains(name)) {
      if (!Satisfies(member, properties[name], root)) return false;
    } else if (schema.contains("additionalProperties") && !Satisfies(member, schema["additionalProperties"], root)) {
      return false;
    }
  }
  return true;
}

int CountSatisfied(const json& value, const json& schemas, const json& root) {
  return static_cast<int>(std::count_if(schemas.begin(), schemas.end(),
                                        [&](const json& schema) { return Satisfies(value, schema, root); }));
}

}  // namespace

bool Satisfies(const json& value, const json& schema, const json& root) {
  if (schema.is_boolean()) return schema;
  if (schema.contains("$ref")) {
    const std::string ref = schema["$ref"];
    const json& target = ref == "#" ? root : root["$defs"][ref.substr(ref.rfind('/') + 1)];
    if (!Satisfies(value, target, root)) return false;
  }
  if (schema.contains("type") && !SatisfiesType(value, schema["type"])) return false;
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("enum") &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end()) {
    return false;
  }
  if (schema.contains("anyOf") && CountSatisfied(value, schema["anyOf"], root) == 0) return false;
  if (schema.contains("oneOf") && CountSatisfied(value, schema["oneOf"], root) != 1) return false;
  if (schema.contains("allOf") &&
      CountSatisfied(value, schema["allOf"], root) != static_cast<int>(schema["allOf"].size())) {
    return false;
  }
  return SatisfiesNumber(value, schema) && SatisfiesString(value, schema) && SatisfiesArray(value, schema, root) &&
         SatisfiesObject(value, schema, root);
}

}  // namespace baton::grammar
