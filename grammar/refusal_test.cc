// What is refused, by name, and how soon.
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grammar/grammar.h"
#include "grammar/grammar_limits.h"

namespace baton::grammar {
namespace {

constexpr auto kWrongText = absl::StatusCode::kInvalidArgument;
constexpr auto kNotBuilt = absl::StatusCode::kUnimplemented;
constexpr auto kTooMuch = absl::StatusCode::kResourceExhausted;

struct RefusedSchema {
  const char* schema;
  absl::StatusCode code;
  const char* message;
};

class SchemaIsRefused : public testing::TestWithParam<RefusedSchema> {};

TEST_P(SchemaIsRefused, AndSaysWhy) {
  const auto grammar = CompileGrammar({GrammarKind::kJsonSchema, GetParam().schema});
  EXPECT_EQ(grammar.status().code(), GetParam().code) << grammar.status();
  EXPECT_TRUE(absl::StrContains(grammar.status().message(), GetParam().message)) << grammar.status();
}

INSTANTIATE_TEST_SUITE_P(
    WhereItIsMalformed, SchemaIsRefused,
    testing::Values(
        RefusedSchema{"{", kWrongText, "at byte 2"}, RefusedSchema{"1", kWrongText, "must be an object or a boolean"},
        RefusedSchema{R"({"type": "int"})", kWrongText, "type must name types"},
        RefusedSchema{R"({"properties": {"a": {"type": 3}}})", kWrongText, "#/properties/a: type"},
        RefusedSchema{R"({"properties": [1]})", kWrongText, "properties must be an object"},
        RefusedSchema{R"({"required": "a"})", kWrongText, "required must be"},
        RefusedSchema{R"({"minLength": -1})", kWrongText, "minLength must be"},
        RefusedSchema{R"({"maxItems": 1.5})", kWrongText, "maxItems must be"},
        RefusedSchema{R"({"minimum": "1"})", kWrongText, "minimum must be a number"},
        RefusedSchema{R"({"exclusiveMinimum": true})", kWrongText, "exclusiveMinimum must be"},
        RefusedSchema{R"({"enum": 1})", kWrongText, "enum must be"},
        RefusedSchema{R"({"anyOf": []})", kWrongText, "anyOf must be"},
        RefusedSchema{R"({"type": "string", "pattern": "("})", kWrongText, "pattern, byte 1"},
        RefusedSchema{R"({"$ref": "#/$defs/none"})", kWrongText, "refers to nothing"},
        RefusedSchema{R"({"$ref": "#"})", kWrongText, "refers to itself"},
        RefusedSchema{R"({"type": "object", "type": "array"})", kWrongText, "twice"},
        RefusedSchema{"false", kWrongText, "no output satisfies"},
        RefusedSchema{R"({"type": "string", "enum": [1]})", kWrongText, "no output satisfies"},
        RefusedSchema{R"({"type": "integer", "minimum": 3, "maximum": 2})", kWrongText, "no output satisfies"},
        RefusedSchema{R"({"type": "string", "minLength": 3, "maxLength": 2})", kWrongText, "no output satisfies"},
        RefusedSchema{R"({"type": "string", "pattern": "^aa$", "maxLength": 1})", kWrongText, "no output satisfies"},
        RefusedSchema{R"({"type": "array", "items": {"$ref": "#"}, "minItems": 1})", kWrongText, "no output satisfies"},
        RefusedSchema{R"({"type": "object", "required": ["a"], "additionalProperties": false})", kWrongText,
                      "no output satisfies"}));

INSTANTIATE_TEST_SUITE_P(
    WhereItIsNotSupported, SchemaIsRefused,
    testing::Values(
        RefusedSchema{R"({"not": {}})", kNotBuilt, "not is not supported"},
        RefusedSchema{R"({"items": {"uniqueItems": true}})", kNotBuilt, "#/items: uniqueItems is not supported"},
        RefusedSchema{R"({"if": {}})", kNotBuilt, "if is"},
        RefusedSchema{R"({"contains": {}})", kNotBuilt, "contains is"},
        RefusedSchema{R"({"patternProperties": {"a": {}}})", kNotBuilt, "patternProperties is"},
        RefusedSchema{R"({"propertyNames": {}})", kNotBuilt, "propertyNames is"},
        RefusedSchema{R"({"minProperties": 1})", kNotBuilt, "minProperties is"},
        RefusedSchema{R"({"maxProperties": 1})", kNotBuilt, "maxProperties is"},
        RefusedSchema{R"({"dependentRequired": {}})", kNotBuilt, "dependentRequired is"},
        RefusedSchema{R"({"unevaluatedProperties": false})", kNotBuilt, "unevaluatedProperties is"},
        RefusedSchema{R"({"multipleOf": 0.01})", kNotBuilt, "multipleOf is not supported but for 1"},
        RefusedSchema{R"({"format": "hostname", "type": "string"})", kNotBuilt, "format hostname"},
        RefusedSchema{R"({"minimun": 1})", kNotBuilt, "minimun is not supported"},
        RefusedSchema{R"({"$ref": "https://example.com/a"})", kNotBuilt, "https://example.com/a"},
        RefusedSchema{R"({"$ref": "#name"})", kNotBuilt, "#name"},
        RefusedSchema{R"({"$dynamicRef": "#a"})", kNotBuilt, "$dynamicRef is"},
        RefusedSchema{R"({"items": {"$id": "a"}})", kNotBuilt, "$id is not supported inside"},
        RefusedSchema{R"({"$schema": "http://example.com/mine"})", kNotBuilt, "$schema is"},
        RefusedSchema{
            R"({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "maximum": 1, "definitions": {"a": {}}})",
            kNotBuilt, "$ref is not supported beside"},
        RefusedSchema{R"({"oneOf": [{"type": "string"}, {"maxLength": 1}]})", kNotBuilt,
                      "oneOf is not supported unless"},
        RefusedSchema{R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", kNotBuilt, "oneOf"},
        RefusedSchema{
            R"({"oneOf": [{"type": "object", "properties": {"k": {"const": 1}}}, {"type": "object", "properties": {"k": {"const": 2}}, "required": ["k"]}]})",
            kNotBuilt, "oneOf"},
        RefusedSchema{R"({"enum": [[1]], "items": {"type": "string"}})", kNotBuilt, "an array in enum or const"},
        RefusedSchema{R"({"const": {"a": 1}, "required": ["b"]})", kNotBuilt, "an object in enum or const"},
        RefusedSchema{R"({"type": "string", "pattern": "\\bword"})", kNotBuilt, "a word boundary"}));

INSTANTIATE_TEST_SUITE_P(
    BeyondALimit, SchemaIsRefused,
    testing::Values(RefusedSchema{R"({"maxLength": 16385})", kTooMuch, "maxLength is larger than 16384"},
                    RefusedSchema{R"({"type": "number", "minimum": 1e-402})", kTooMuch, "digits"}));

TEST(CompileGrammar, TakesTheLargestCountAndRefusesTheNext) {
  const auto regex_of = [](int count) { return OutputGrammar{GrammarKind::kRegex, absl::StrCat("a{", count, "}")}; };
  EXPECT_TRUE(CompileGrammar(regex_of(kMaxRepeats)).ok());
  EXPECT_EQ(CompileGrammar(regex_of(kMaxRepeats + 1)).status().code(), kTooMuch);
}

TEST(CompileGrammar, TakesTheLongestSourceAndRefusesOneByteMore) {
  const std::string rule = "root ::= \"a\" #";
  const std::string longest = rule + std::string(kMaxSourceBytes - rule.size(), '#');
  EXPECT_TRUE(CompileGrammar({GrammarKind::kEbnf, longest}).ok());
  EXPECT_EQ(CompileGrammar({GrammarKind::kEbnf, longest + "#"}).status().code(), kTooMuch);
}

TEST(CompileGrammar, TakesTheDeepestNestingAndRefusesMore) {
  const auto nested = [](int depth) {
    return OutputGrammar{GrammarKind::kRegex, std::string(depth, '(') + "a" + std::string(depth, ')')};
  };
  EXPECT_TRUE(CompileGrammar(nested(kMaxSourceNesting)).ok());
  EXPECT_EQ(CompileGrammar(nested(kMaxSourceNesting + 1)).status().code(), kTooMuch);
  const auto nested_json = [](int depth) {
    return OutputGrammar{GrammarKind::kJsonSchema,
                         absl::StrCat("{\"default\": ", std::string(depth - 1, '['), std::string(depth - 1, ']'), "}")};
  };
  EXPECT_TRUE(CompileGrammar(nested_json(kMaxSourceNesting)).ok());
  EXPECT_EQ(CompileGrammar(nested_json(kMaxSourceNesting + 1)).status().code(), kTooMuch);
}

TEST(CompileGrammar, RefusesOutputsThatNestTooDeep) {
  const auto chain = [](int depth) {
    std::string text = "root ::= r0 \".\"\n";
    for (int i = 0; i + 1 < depth; ++i) absl::StrAppend(&text, "r", i, " ::= \"(\" r", i + 1, " \")\"\n");
    return OutputGrammar{GrammarKind::kEbnf, absl::StrCat(text, "r", depth - 1, " ::= \"x\"\n")};
  };
  EXPECT_TRUE(CompileGrammar(chain(kMaxStackDepth)).ok());
  EXPECT_EQ(CompileGrammar(chain(kMaxStackDepth + 1)).status().code(), kTooMuch);
}

TEST(CompileGrammar, RefusesNoGrammarAndEmptyChoices) {
  EXPECT_EQ(CompileGrammar({}).status().code(), kWrongText);
  EXPECT_EQ(CompileGrammar({GrammarKind::kChoice, "[]"}).status().code(), kWrongText);
  EXPECT_EQ(CompileGrammar({GrammarKind::kChoice, "[1]"}).status().code(), kWrongText);
  EXPECT_EQ(CompileGrammar({GrammarKind::kChoice, "\"a\""}).status().code(), kWrongText);
}

std::string Times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

template <typename PartOf>
std::string Joined(int count, PartOf part_of) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, i == 0 ? "" : ",", part_of(i));
  return all;
}

// Sources that make something grow: states, sets of states, alternatives, lookups. None is refused for its length.
std::vector<OutputGrammar> HostileSources() {
  const auto number = [](int i) { return absl::StrCat(i); };
  std::vector<OutputGrammar> sources;
  for (const std::string& regex :
       {std::string("((a{1000}){1000}){1000}"), std::string("(a?){16384}"), std::string(".*a.{30}"),
        std::string("((|){16384}){16384}"), std::string("((){16384}){16384}"), std::string("\\w{0,16384}\\d{0,16384}"),
        Times(32'000, ".*"), Times(32'000, "a|"), Times(2000, "(x+x+)+y"), std::string(64'000, '('),
        Times(3000, "(a|b|ab)*")}) {
    sources.push_back({GrammarKind::kRegex, regex});
  }
  sources.push_back({GrammarKind::kChoice, "[" + Joined(3000, [](int i) {
                                             return absl::StrCat("\"choice ", i, Times(i % 10, "x"), "\"");
                                           }) + "]"});
  sources.push_back({GrammarKind::kEbnf, "root ::= " + Times(30'000, "x ")});
  sources.push_back({GrammarKind::kEbnf, "root ::= x{16384}\nx ::= y{16384}\ny ::= [a-z]{16384}"});
  sources.push_back(
      {GrammarKind::kEbnf,
       "root ::= r0\n" +
           Times(1, Joined(2500, [](int i) { return absl::StrCat("\nr", i, " ::= r", i + 1, " r", i + 1, "#"); })) +
           "\nr2500 ::= \"x\""});
  for (
      const std::string& schema :
      {std::string(64'000, '['), Times(12'800, "{\"a\":"), "{\"enum\": [" + Joined(11'000, number) + "]}",
       "{\"allOf\": [{\"enum\": [" + Joined(5000, number) + "]}, {\"enum\": [" + Joined(5000, number) + "]}]}",
       "{\"properties\": {" + Joined(5000, [](int i) { return absl::StrCat("\"p", i, "\": {}"); }) + "}}",
       "{\"properties\": {" +
           Joined(900, [](int i) { return absl::StrCat("\"property_", i, "\": {\"type\": \"string\"}"); }) + "}}",
       "{\"type\": \"object\", \"required\": [" + Joined(8000, [](int i) { return absl::StrCat("\"r", i, "\""); }) +
           "]}",
       "{\"allOf\": [" +
           Joined(15,
                  [](int i) {
                    return absl::StrCat("{\"anyOf\": [{\"minLength\": ", i, "}, {\"maxLength\": ", i + 9, "}]}");
                  }) +
           "]}",
       "{\"allOf\": [" +
           Joined(800,
                  [](int i) {
                    return absl::StrCat("{\"properties\": {\"p", i,
                                        "\": {}}, \"additionalProperties\": {\"minimum\": ", i, "}}");
                  }) +
           "]}",
       "{\"oneOf\": [" +
           Joined(700,
                  [](int i) {
                    return absl::StrCat("{\"type\": \"object\", \"properties\": {\"k\": {\"const\": ", i,
                                        "}}, \"required\": [\"k\"]}");
                  }) +
           "]}",
       "{\"properties\": {" +
           Joined(200, [](int i) { return absl::StrCat("\"p", i, "\": {\"minimum\": 1e-300, \"maximum\": 1e300}"); }) +
           "}}",
       "{\"properties\": {" +
           Joined(200,
                  [](int i) { return absl::StrCat("\"p", i, "\": {\"format\": \"email\", \"minLength\": ", i, "}"); }) +
           "}}",
       std::string(
           R"({"type": "array", "maxItems": 16384, "items": {"type": "array", "maxItems": 16384, "items": {"type": "array", "maxItems": 16384}}})"),
       std::string(R"({"type": "string", "pattern": ".*a.{12}", "maxLength": 400})")}) {
    sources.push_back({GrammarKind::kJsonSchema, schema});
  }
  return sources;
}

TEST(CompileGrammar, EndsSoonForAHostileSource) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
  constexpr double kMaxMs = 3000;
#else
  constexpr double kMaxMs = 100;
#endif
  for (const OutputGrammar& source : HostileSources()) {
    ASSERT_LE(source.text.size(), kMaxSourceBytes) << source.text.substr(0, 80);
    // Of this process alone, whatever else runs here.
    const std::clock_t begin = std::clock();
    const auto grammar = CompileGrammar(source);
    const double ms = static_cast<double>(std::clock() - begin) * 1000 / CLOCKS_PER_SEC;
    EXPECT_LT(ms, kMaxMs) << source.text.substr(0, 80) << " " << grammar.status();
    EXPECT_LT(grammar.status().message().size(), 1000u);
  }
}

}  // namespace
}  // namespace baton::grammar
