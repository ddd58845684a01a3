#include "grammar/testing/random_schema.h"

#include <algorithm>
#include <vector>

#include "grammar/json_rules.h"
#include "grammar/json_spelling.h"

namespace baton::grammar {
namespace {

using nlohmann::json;

template <typename T>
const T& Pick(RandomSource& random, const std::vector<T>& from) {
  return from[random.Below(from.size())];
}

bool OneIn(RandomSource& random, int count) { return random.Below(count) == 0; }

const std::vector<std::string>& Strings() {
  static const auto* const kStrings =
      new std::vector<std::string>({"", "a", "b", "ab", "abc", "foo-A", "x\"y", "back\\slash", "line\nend", "tab\t",
                                    "é", "日本", "12", "3.25", "bab", "zzzzzz"});
  return *kStrings;
}

json RandomScalar(RandomSource& random) {
  switch (random.Below(5)) {
    case 0:
      return nullptr;
    case 1:
      return OneIn(random, 2);
    case 2:
      return static_cast<int64_t>(random.Below(220)) - 110;
    case 3:
      return (static_cast<double>(random.Below(4000)) - 2000) / 8;
    default:
      return Pick(random, Strings());
  }
}

json RandomConstant(RandomSource& random) {
  if (OneIn(random, 6)) return json::array({RandomScalar(random), RandomScalar(random)});
  if (OneIn(random, 6)) return {{"k", RandomScalar(random)}, {"m", json::array()}};
  return RandomScalar(random);
}

json NumberSchema(RandomSource& random) {
  json schema = {{"type", Pick<const char*>(random, {"integer", "number"})}};
  const double low = Pick<double>(random, {-105, -20, -9.5, -1, 0, 0.125, 3, 10, 99});
  if (OneIn(random, 2)) schema[Pick<const char*>(random, {"minimum", "exclusiveMinimum"})] = low;
  if (OneIn(random, 2)) {
    schema[Pick<const char*>(random, {"maximum", "exclusiveMaximum"})] =
        low + Pick<double>(random, {0, 0.5, 1, 7, 100});
  }
  return schema;
}

json StringSchema(RandomSource& random) {
  json schema = {{"type", "string"}};
  if (OneIn(random, 3)) schema["minLength"] = random.Below(4);
  if (OneIn(random, 3)) schema["maxLength"] = random.Below(4) + schema.value("minLength", 0);
  if (OneIn(random, 3)) {
    schema["pattern"] =
        Pick<const char*>(random, {"^[a-z]{1,3}$", "ab", "b$", "^[^a]*$", "^(foo|bar)-[A-Z]+$", "[\"\\\\]", "^\\d+"});
  }
  return schema;
}

json ArraySchema(RandomSource& random, int depth) {
  json schema = {{"type", "array"}};
  if (!OneIn(random, 3)) schema["items"] = RandomSchema(random, depth - 1);
  if (OneIn(random, 3)) schema["prefixItems"] = {RandomSchema(random, depth - 1), RandomSchema(random, depth - 1)};
  if (OneIn(random, 3)) schema["minItems"] = random.Below(3);
  if (OneIn(random, 3)) schema["maxItems"] = random.Below(3) + schema.value("minItems", 0);
  return schema;
}

// `names` in alphabetical order.
json ObjectSchema(RandomSource& random, int depth, const std::vector<const char*>& names) {
  json schema = {{"type", "object"}};
  for (const char* name : names) {
    const bool is_declared = OneIn(random, 2);
    if (is_declared) schema["properties"][name] = RandomSchema(random, depth - 1);
    // What is only required follows what is declared.
    const bool may_be_required = is_declared || std::string_view(name) == "é";
    if (may_be_required && OneIn(random, 3)) schema["required"].push_back(name);
  }
  if (OneIn(random, 2)) schema["additionalProperties"] = false;
  if (OneIn(random, 4)) schema["additionalProperties"] = RandomSchema(random, depth - 1);
  return schema;
}

json CombinedSchema(RandomSource& random, int depth) {
  switch (random.Below(5)) {
    case 0:
      return {{"anyOf", {RandomSchema(random, depth - 1), RandomSchema(random, depth - 1)}}};
    case 1:
      return {{"type", {"string", "integer", "array"}}, {"anyOf", {StringSchema(random), NumberSchema(random)}}};
    case 2: {
      json schema;
      for (const char* kind : {"p", "q"}) {
        schema["oneOf"].push_back({{"type", "object"},
                                   {"properties", {{"a", {{"const", kind}}}, {"b", RandomSchema(random, depth - 1)}}},
                                   {"required", {"a"}}});
      }
      return schema;
    }
    case 3:
      return {{"allOf", {ObjectSchema(random, depth, {"a", "b"}), ObjectSchema(random, depth, {"c\"", "d"})}}};
    default:
      return {{"$ref", "#/$defs/list"}};
  }
}

}  // namespace

json RandomSchema(RandomSource& random, int depth) {
  const uint64_t kind = random.Below(depth > 0 ? 12 : 6);
  switch (kind) {
    case 0:
      return OneIn(random, 3) ? json(true) : json{{"type", {"null", "boolean"}}};
    case 1:
      return {{"enum", {RandomConstant(random), RandomConstant(random), RandomConstant(random)}}};
    case 2:
      return {{"const", RandomConstant(random)}};
    case 3:
      return NumberSchema(random);
    case 4:
    case 5:
      return StringSchema(random);
    case 6:
    case 7:
      return ArraySchema(random, depth);
    case 8:
    case 9:
      return ObjectSchema(random, depth, {"a", "b", "c\"", "é"});
    default:
      return CombinedSchema(random, depth);
  }
}

json RandomRootSchema(RandomSource& random) {
  json schema = RandomSchema(random, 3);
  if (schema.is_boolean()) schema = json::object();
  schema["$defs"]["list"] = {
      {"type", "object"},
      {"properties",
       {{"a", RandomSchema(random, 1)}, {"b", {{"anyOf", {{{"$ref", "#/$defs/list"}}, {{"type", "null"}}}}}}}},
      {"required", {"a"}},
      {"additionalProperties", false}};
  return schema;
}

json RandomValue(RandomSource& random, const json& schema, const json& root, int depth) {
  if (depth == 0 || OneIn(random, 12) || schema.is_boolean()) return RandomScalar(random);
  const auto value_of = [&](const json& part) { return RandomValue(random, part, root, depth - 1); };
  if (schema.contains("$ref")) return value_of(root["$defs"]["list"]);
  if (schema.contains("const")) return schema["const"];
  for (const char* list : {"enum", "anyOf", "oneOf", "allOf"}) {
    if (!schema.contains(list)) continue;
    if (std::string(list) == "enum") return schema[list][random.Below(schema[list].size())];
    json value = value_of(schema[list][random.Below(schema[list].size())]);
    if (std::string(list) == "allOf" && value.is_object()) {
      for (const json& part : schema[list]) {
        const json more = value_of(part);
        if (more.is_object()) value.update(more);
      }
    }
    return value;
  }
  if (schema.value("type", json()) == "array") {
    json value = json::array();
    const size_t count = random.Below(4);
    const json prefix = schema.value("prefixItems", json::array());
    for (size_t i = 0; i < count; ++i)
      value.push_back(value_of(i < prefix.size() ? prefix[i] : schema.value("items", json(true))));
    return value;
  }
  if (schema.value("type", json()) == "object") {
    json value = json::object();
    const json properties = schema.value("properties", json::object());
    for (const auto& [name, part] : properties.items()) {
      if (!OneIn(random, 3)) value[name] = value_of(part);
    }
    for (const json& name : schema.value("required", json::array())) {
      if (!value.contains(name.get<std::string>()) && !OneIn(random, 5))
        value[name.get<std::string>()] = RandomScalar(random);
    }
    if (OneIn(random, 3)) value["\xF0\x9F\x98\x80"] = value_of(schema.value("additionalProperties", json(true)));
    return value;
  }
  for (int i = 0; i < 8; ++i) {
    json value = RandomScalar(random);
    const std::string type = schema.value("type", json()).is_string() ? schema["type"] : "";
    if ((type == "string") == value.is_string() && (type == "string" || value.is_number())) return value;
  }
  return RandomScalar(random);
}

std::string SpellValue(RandomSource& random, const json& value) {
  const auto space = [&random] { return OneIn(random, 2) ? " " : ""; };
  if (value.is_string()) return SpellJsonString(value.get<std::string>());
  // Integers have no point.
  if (value.is_number()) return SpellNumber(value.dump());
  if (!value.is_structured()) return value.dump();
  std::string text = value.is_object() ? "{" : "[";
  for (const auto& [key, member] : value.items()) {
    if (text.size() > 1) text += std::string(",") + space();
    if (value.is_object()) text += SpellJsonString(key) + ":" + space();
    text += SpellValue(random, member);
  }
  return text + (value.is_object() ? "}" : "]");
}

}  // namespace baton::grammar
