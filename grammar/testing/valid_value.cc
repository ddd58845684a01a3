#include "grammar/testing/valid_value.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "grammar/testing/schema_validator.h"

namespace baton::grammar {
namespace {

using nlohmann::json;

constexpr int kTriesOfAll = 300;
constexpr int kTriesOfScalar = 20;
constexpr int kDepth = 4;
// Where a schema has no bounds.
constexpr uint64_t kMostCharacters = 24;
constexpr uint64_t kMostItems = 3;

class ValueDrawer {
 public:
  // `root` must outlive it. A sparse value has what it must have alone.
  ValueDrawer(RandomSource& random, const json& root, bool is_sparse)
      : random_(random), root_(root), is_sparse_(is_sparse) {}

  // Often a value that satisfies the schema.
  json Draw(const json& schema, int depth) {
    // A recursion that nothing ends has no value.
    if (depth < -kDepth) return nullptr;
    if (schema.is_boolean()) return DrawAnything(depth);
    if (schema.contains("$ref")) return Draw(root_["$defs"]["list"], depth - 1);
    if (schema.contains("const")) return schema["const"];
    if (schema.contains("enum")) return schema["enum"][random_.Below(schema["enum"].size())];
    for (const char* branches : {"anyOf", "oneOf"}) {
      if (!schema.contains(branches)) continue;
      const json& of = schema[branches];
      // The last branch of a recursion ends it.
      return Draw(of[depth <= 0 ? of.size() - 1 : random_.Below(of.size())], depth - 1);
    }
    if (schema.contains("allOf")) return DrawAllOf(schema["allOf"], depth);
    const json type = schema.value("type", json());
    if (type.is_array()) return Chance(3) ? json(nullptr) : json(Chance(2));
    if (type == "array") return DrawArray(schema, depth);
    if (type == "object") return DrawObject(schema, depth, /*may_have_others=*/true);
    if (type != "string" && type != "integer" && type != "number") return DrawAnything(depth);
    json value;
    for (int i = 0; i < kTriesOfScalar; ++i) {
      value = type == "string" ? DrawString(schema) : DrawNumber(schema);
      if (Satisfies(value, schema, root_)) break;
    }
    return value;
  }

 private:
  bool Chance(uint64_t count) { return random_.Below(count) == 0; }
  // Includes both ends.
  uint64_t Between(uint64_t low, uint64_t high) { return low + random_.Below(high - low + 1); }

  std::string Letters(uint64_t low, uint64_t high, char first, char last) {
    std::string text;
    for (uint64_t count = Between(low, high); count > 0; --count) {
      text += static_cast<char>(first + random_.Below(last - first + 1));
    }
    return text;
  }

  // A text that has between `low` and `high` characters.
  std::string Characters(uint64_t low, uint64_t high) {
    static constexpr const char* kRare[] = {"\"", "\\", "\n", "\t", "\x01", "/",      "é", "ß",
                                            "日", "本", "Ж",  "{",  ",",    "\u2028", "😀"};
    // Real vocabularies have long tokens for these.
    static constexpr std::string_view kWords[] = {" information", "understanding", " international",
                                                  "        ",     "----------",    " responsibility"};
    std::string text;
    for (uint64_t left = Between(low, high); left > 0;) {
      const std::string_view word = kWords[random_.Below(std::size(kWords))];
      if (word.size() <= left && Chance(4)) {
        text += word;
        left -= word.size();
        continue;
      }
      text += Chance(3) ? kRare[random_.Below(std::size(kRare))] : Chance(5) ? " " : Letters(1, 1, 'a', 'z');
      --left;
    }
    return text;
  }

  // A text that matches a pattern of RandomSchema.
  std::string Matching(std::string_view pattern) {
    if (pattern == "^[a-z]{1,3}$") return Letters(1, 3, 'a', 'z');
    if (pattern == "ab") return Characters(0, 3) + "ab" + Characters(0, 3);
    if (pattern == "b$") return Characters(0, 4) + "b";
    if (pattern == "^(foo|bar)-[A-Z]+$") return (Chance(2) ? "foo-" : "bar-") + Letters(1, 9, 'A', 'Z');
    if (pattern == "[\"\\\\]") return Characters(0, 3) + (Chance(2) ? "\"" : "\\") + Characters(0, 3);
    if (pattern == "^\\d+") return Letters(1, 5, '0', '9') + Characters(0, 4);
    BATON_CHECK(pattern == "^[^a]*$") << "no text for " << std::string(pattern);
    std::string text = Characters(0, 6);
    text.erase(std::remove(text.begin(), text.end(), 'a'), text.end());
    return text;
  }

  json DrawString(const json& schema) {
    const uint64_t low = schema.value("minLength", uint64_t{0});
    const uint64_t high = schema.value("maxLength", low + kMostCharacters);
    return schema.contains("pattern") ? Matching(schema["pattern"].get<std::string>()) : Characters(low, high);
  }

  // A number between the bounds. A bound that is missing is drawn far from the other one.
  json DrawNumber(const json& schema) {
    const double span = Chance(3) ? 1e9 : 300;
    const bool has_low = schema.contains("minimum") || schema.contains("exclusiveMinimum");
    const bool has_high = schema.contains("maximum") || schema.contains("exclusiveMaximum");
    double high = schema.value("maximum", schema.value("exclusiveMaximum", span));
    const double low = schema.value("minimum", schema.value("exclusiveMinimum", has_high ? high - span : -span));
    if (has_low && !has_high) high = low + span;
    const double share = Chance(4) ? random_.Below(2) : static_cast<double>(random_.Below(1'000'001)) / 1e6;
    const double number = low + share * (high - low);
    if (schema.value("type", "") == "integer" || Chance(3)) {
      return static_cast<int64_t>(Chance(2) ? std::ceil(number) : std::floor(number));
    }
    const double scale = Chance(2) ? 8 : 1000;
    return share == 0 || share == 1 ? number : std::round(number * scale) / scale;
  }

  json DrawArray(const json& schema, int depth) {
    json value = json::array();
    const uint64_t low = schema.value("minItems", uint64_t{0});
    const uint64_t high = std::max(low, schema.value("maxItems", low + kMostItems));
    const json prefix = schema.value("prefixItems", json::array());
    for (uint64_t count = is_sparse_ || depth <= 0 ? low : Between(low, high); count > 0; --count) {
      const size_t at = value.size();
      value.push_back(Draw(at < prefix.size() ? prefix[at] : schema.value("items", json(true)), depth - 1));
    }
    return value;
  }

  // Behind all that is named, by alphabet as well as in the grammar.
  std::string OtherKey() {
    static constexpr const char* kOthers[] = {"ü", "ж \"q\"", "日本", "ﬂ\\", "😀", "😀 2"};
    return kOthers[random_.Below(std::size(kOthers))];
  }

  json DrawObject(const json& schema, int depth, bool may_have_others) {
    json value = json::object();
    const json properties = schema.value("properties", json::object());
    const json required = schema.value("required", json::array());
    const json others = schema.value("additionalProperties", json(true));
    const bool is_small = is_sparse_ || depth <= 0;
    for (const auto& [name, part] : properties.items()) {
      const bool must_be = std::find(required.begin(), required.end(), name) != required.end();
      if (must_be || (!is_small && Chance(2))) value[name] = Draw(part, depth - 1);
    }
    for (const json& name : required) {
      if (!value.contains(name.get<std::string>())) value[name.get<std::string>()] = Draw(others, depth - 1);
    }
    if (may_have_others && !is_small && others != json(false)) {
      while (Chance(2)) value[OtherKey()] = Draw(others, depth - 1);
    }
    return value;
  }

  json DrawAnything(int depth) {
    switch (random_.Below(depth > 0 && !is_sparse_ ? 7 : 4)) {
      case 0:
        return Chance(3) ? json(nullptr) : json(Chance(2));
      case 1:
        return DrawNumber(json::object());
      case 2:
      case 3:
        return Characters(0, kMostCharacters);
      case 4:
        return DrawArray(json::object(), depth);
      default:
        break;
    }
    json value = json::object();
    while (!Chance(3)) value[Characters(0, 6)] = DrawAnything(depth - 1);
    return value;
  }

  // All parts describe objects.
  json DrawAllOf(const json& parts, int depth) {
    json value = json::object();
    for (const json& part : parts) value.update(DrawObject(part, depth, /*may_have_others=*/false));
    return value;
  }

  RandomSource& random_;
  const json& root_;
  const bool is_sparse_;
};

}  // namespace

std::optional<json> ValidValue(RandomSource& random, const json& root) {
  for (int i = 0; i < kTriesOfAll; ++i) {
    json value = ValueDrawer(random, root, /*is_sparse=*/random.Below(4) == 0).Draw(root, kDepth);
    if (Satisfies(value, root, root)) return value;
  }
  return std::nullopt;
}

}  // namespace baton::grammar
