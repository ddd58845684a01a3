#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/testing/grammar_texts.h"

namespace baton::grammar {
namespace {

struct SchemaCase {
  const char* schema;
  std::vector<std::string> allowed;
  std::vector<std::string> refused;
};

class Schema : public testing::TestWithParam<SchemaCase> {};

TEST_P(Schema, AllowsWhatSatisfiesItAlone) {
  const auto grammar = Compiled(GrammarKind::kJsonSchema, GetParam().schema);
  for (const std::string& text : GetParam().allowed) EXPECT_TRUE(Allows(*grammar, text)) << text;
  for (const std::string& text : GetParam().refused) EXPECT_FALSE(Allows(*grammar, text)) << text;
}

INSTANTIATE_TEST_SUITE_P(
    OfAnyJson, Schema,
    testing::Values(
        SchemaCase{
            "{}",
            {"null", "true", "[1, 2,3]", R"({"a": {"b":[]}, "a":1})", "-0.5e-12", "1E+300", "120", R"("x")"},
            {"",   "nul", "[1,]", "[ 1]", "[1 ,2]", "[1,  2]", "{ }",  R"({"a" :1})", R"({"a":  1})", "01",  "1.",
             ".5", "+1",  "1e",   "12e3", "1e308",  "{\"a\"}", "[1]x", " 1",          "1 ",           "'a'", "NaN"}},
        SchemaCase{"true", {"1"}, {"x"}},
        SchemaCase{R"({"type": "string"})",
                   {R"("")", R"("é日😀")", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9\uD83D\ude00\uFFFF")"},
                   {"\"\n\"", "\"\x01\"", "\"\xFF\"", "\"\xC3\"", R"("\x")", R"("\uD83D")", R"("\uDE00")",
                    R"("\uD83D\u0041")", R"("\u12")", R"("a)", "\"\xED\xA0\x80\""}},
        SchemaCase{R"({"type": ["integer", "null"]})",
                   {"0", "-7", "123456789012345678901234567890", "null"},
                   {"1.5", "1e2", "-", "00", "true"}},
        SchemaCase{R"({"type": "string", "nullable": true})", {"null", R"("")"}, {"1"}},
        SchemaCase{R"({"title": "t", "description": "d", "default": 1, "examples": [1], "$comment": "c", "x-order": 3,
                       "type": "boolean", "readOnly": true, "deprecated": false})",
                   {"true", "false"},
                   {"1"}}));

INSTANTIATE_TEST_SUITE_P(
    OfNumbers, Schema,
    testing::Values(
        SchemaCase{R"({"type": "integer", "minimum": 0, "maximum": 150})",
                   {"0", "9", "10", "99", "100", "149", "150"},
                   {"-1", "151", "200", "1000", "015", "1.0"}},
        SchemaCase{R"({"type": "integer", "exclusiveMinimum": -12, "exclusiveMaximum": 12})",
                   {"-11", "-1", "-0", "0", "11"},
                   {"-12", "12", "-100", "20"}},
        SchemaCase{R"({"type": "integer", "minimum": 1000})", {"1000", "99999999999999999999"}, {"999", "-5000", "0"}},
        SchemaCase{R"({"type": "integer", "maximum": -5})", {"-5", "-6", "-50"}, {"-4", "0", "5"}},
        SchemaCase{R"({"type": "integer", "minimum": 1.5, "maximum": 3.999})", {"2", "3"}, {"1", "4"}},
        SchemaCase{R"({"type": "number", "minimum": -0.25, "exclusiveMaximum": 10.5})",
                   {"-0.25", "-0.2", "-0.250", "0", "10.4999", "10", "9.99", "0.000001"},
                   {"-0.26", "-1", "10.5", "10.50", "11", "1e0"}},
        SchemaCase{R"({"type": "number", "exclusiveMinimum": 0})", {"0.0001", "1", "100.5"}, {"0", "0.0", "-0", "-1"}},
        SchemaCase{R"({"type": "number", "exclusiveMaximum": 0})", {"-0.0001", "-1"}, {"0", "-0", "-0.00", "1"}},
        SchemaCase{
            R"({"type": "number", "minimum": 1e2, "maximum": 1.5E+2})", {"100", "150.0", "123.45"}, {"99.9", "150.01"}},
        SchemaCase{R"({"type": "number", "multipleOf": 1})", {"5"}, {"5.5"}},
        SchemaCase{R"({"minimum": 5, "type": ["number", "string"]})", {"5", R"("1")"}, {"4"}},
        SchemaCase{R"({"allOf": [{"minimum": 3}, {"maximum": 8}, {"minimum": 5}], "type": "integer"})",
                   {"5", "8"},
                   {"4", "9"}}));

INSTANTIATE_TEST_SUITE_P(
    OfStrings, Schema,
    testing::Values(
        SchemaCase{R"({"type": "string", "minLength": 2, "maxLength": 3})",
                   {R"("ab")", R"("日本語")", R"("\n\u00e9")", R"("\ud83d\ude00a")"},
                   {R"("a")", R"("abcd")", R"("")"}},
        SchemaCase{R"({"type": "string", "minLength": 2})", {R"("ab")", R"("abcdefgh")"}, {R"("a")"}},
        SchemaCase{R"({"type": "string", "maxLength": 0})", {R"("")"}, {R"("a")"}},
        SchemaCase{R"({"type": "string", "pattern": "^a\"b+$"})",
                   {R"("a\"b")", R"("a\"bbb")"},
                   {R"("a\u0022b")", R"("xa\"b")"}},
        SchemaCase{R"({"type": "string", "pattern": "b"})", {R"("b")", R"("xx\nbyy")"}, {R"("xx")"}},
        SchemaCase{R"({"type": "string", "pattern": "^[^\\n]+$", "maxLength": 2})",
                   {R"("\t\\")", R"("é")"},
                   {R"("\n")", R"("abc")", "\"\n\""}},
        SchemaCase{R"({"type": "string", "pattern": "^a", "allOf": [{"pattern": "b$"}]})",
                   {R"("ab")", R"("axb")"},
                   {R"("a")", R"("ba")"}},
        SchemaCase{R"({"type": "string", "format": "date"})",
                   {R"("2024-02-29")", R"("2000-02-29")", R"("2023-12-31")"},
                   {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("2023-13-01")", R"("23-01-01")"}},
        SchemaCase{R"({"type": "string", "format": "date-time"})",
                   {R"("2024-02-29T23:59:60Z")", R"("2024-01-01t00:00:00.5+01:30")"},
                   {R"("2024-01-01T24:00:00Z")", R"("2024-01-01T00:00:00")", R"("2024-01-01 00:00:00Z")"}},
        SchemaCase{R"({"type": "string", "format": "uuid"})",
                   {R"("2EB8AA08-aa98-11ea-b4aa-73b441d16380")"},
                   {R"("2eb8aa08aa9811eab4aa73b441d16380")"}},
        SchemaCase{R"({"type": "string", "format": "ipv4"})",
                   {R"("0.0.0.0")", R"("255.249.199.9")"},
                   {R"("256.0.0.0")", R"("1.2.3")", R"("01.1.1.1")"}},
        SchemaCase{R"({"type": "string", "format": "ipv6"})",
                   {R"("::1")", R"("1:2:3:4:5:6:7:8")", R"("::ffff:1.2.3.4")", R"("1::")"},
                   {R"("1:2")", R"("1::2::3")", R"("12345::")", R"("1:2:3:4:5:6:7:8:9")"}},
        SchemaCase{R"({"type": "string", "format": "email"})",
                   {R"("a.b+c@d-e.org")", R"("\"a b\"@[127.0.0.1]")"},
                   {R"("a@")", R"("a..b@c")", R"("a@-b")"}},
        SchemaCase{R"({"type": "string", "format": "uri"})",
                   {R"("https://a:b@c.d:8/e/f?g=%20#h")", R"("urn:x")"},
                   {R"("//a/b")", R"("a b:c")", R"("x:%2")"}},
        SchemaCase{R"({"type": "string", "format": "duration"})",
                   {R"("P1Y2M3DT4H5M6S")", R"("P2W")", R"("PT1S")"},
                   {R"("P")", R"("P1Y1D")", R"("P1S")"}},
        SchemaCase{
            R"({"type": "string", "format": "json-pointer"})", {R"("")", R"("/a~0b/~1")"}, {R"("a")", R"("/~2")"}}));

INSTANTIATE_TEST_SUITE_P(
    OfArrays, Schema,
    testing::Values(
        SchemaCase{R"({"type": "array", "items": {"type": "integer"}})",
                   {"[]", "[1]", "[1, 2,3]"},
                   {"[true]", "[1,true]", "[1", "[,1]"}},
        SchemaCase{R"({"type": "array", "minItems": 2, "maxItems": 3})",
                   {"[1,2]", "[[],{},\"a\"]"},
                   {"[]", "[1]", "[1,2,3,4]"}},
        SchemaCase{R"({"type": "array", "minItems": 2, "items": {"type": "null"}})",
                   {"[null,null]", "[null,null,null]"},
                   {"[null]", "[null,1]"}},
        SchemaCase{R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
        SchemaCase{
            R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "items": {"type": "boolean"}})",
            {"[]", "[1]", "[1, null]", "[1,null,true, false]"},
            {"[null]", "[1,1]", "[1,null,1]"}},
        SchemaCase{R"({"type": "array", "prefixItems": [{"type": "integer"}], "items": false})",
                   {"[]", "[1]"},
                   {"[1,1]", "[null]"}},
        SchemaCase{R"({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "null"}})",
                   {"[1,null]"},
                   {"[1,1]"}},
        SchemaCase{
            R"({"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 3, "items": {"type": "null"}})",
            {"[1,null,null]"},
            {"[1,null]", "[1]"}},
        SchemaCase{
            R"({"allOf": [{"items": {"minimum": 1}}, {"prefixItems": [{"maximum": 2}]}], "type": "array", "items": {"type": "integer"}})",
            {"[2,9]", "[1]"},
            {"[3]", "[0]", "[1,0]"}}));

INSTANTIATE_TEST_SUITE_P(
    OfObjects, Schema,
    testing::Values(
        SchemaCase{
            R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "null"}}, "additionalProperties": false})",
            {"{}", R"({"b":1})", R"({"a": null})", R"({"b": 1, "a":null})"},
            {R"({"a":null,"b":1})", R"({"b":1,"b":1})", R"({"c":1})", R"({"b":null})", R"({,"b":1})"}},
        SchemaCase{
            R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "required": ["b"], "additionalProperties": false})",
            {R"({"b":1})", R"({"a":1,"b":1})", R"({"b":1,"c":1})", R"({"a":1,"b":1,"c":1})"},
            {"{}", R"({"a":1})", R"({"a":1,"c":1})", R"({"a":1,})"}},
        SchemaCase{R"({"type": "object", "properties": {"ab": {"type": "integer"}}})",
                   {"{}", R"({"ab":1})", R"({"a":"x"})", R"({"abc":"x", "":1})", R"({"ab":1,"b":null})",
                    R"({"a\nb":1})", R"({"é":1})"},
                   {R"({"ab":"x"})", R"({"x":1,"ab":"x"})", R"({"x":1,"ab":1})", R"({"\u0061b":"x"})"}},
        SchemaCase{
            R"({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "null"}})",
            {R"({"a":1,"b":null,"c": null})", R"({"b":null})"},
            {R"({"b":1})", R"({"a":null})"}},
        SchemaCase{R"({"type": "object", "required": ["x", "y"], "additionalProperties": {"type": "integer"}})",
                   {R"({"x":1,"y":2})", R"({"x":1,"y":2,"z":3})"},
                   {R"({"x":1})", R"({"x":1,"y":"b"})"}},
        SchemaCase{
            R"({"type": "object", "properties": {"a\"b\\": {"type": "null"}, "日\n": {}}, "required": ["a\"b\\", "日\n"]})",
            {R"({"a\"b\\":null,"日\n":1})"},
            {R"({"a\"b\\":1,"日\n":1})", R"({"日\n":1})"}},
        SchemaCase{
            R"({"type": "object", "properties": {"a": false, "b": {"type": "null"}}, "additionalProperties": false})",
            {R"({"b":null})", "{}"},
            {R"({"a":1})"}},
        SchemaCase{R"({"properties": {"a": {"type": "null"}}, "required": ["a"]})",
                   {"1", "[]", R"({"a":null})"},
                   {"{}", R"({"a":1})"}},
        SchemaCase{
            R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"a": {"minimum": 5}, "b": {"type": "null"}}, "required": ["b"]}],
                       "type": "object"})",
            {R"({"a":5,"b":null})", R"({"a":6,"b":null,"c":1})"},
            {R"({"a":4,"b":null})", R"({"a":5})", R"({"a":5,"b":1})"}},
        SchemaCase{
            R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"properties": {"b": {}}}], "type": "object"})",
            {"{}", R"({"a":1})"},
            {R"({"b":1})", R"({"a":1,"b":1})"}}));

INSTANTIATE_TEST_SUITE_P(
    OfValuesAndChoices, Schema,
    testing::Values(
        SchemaCase{R"({"enum": ["a", 1, 1.50, null, true, {"x": [1, "é"], "y": {}}, []]})",
                   {R"("a")", "1", "1.5", "null", "true", R"({"x": [1,"é"],"y":{}})", "[]"},
                   {R"("b")", "1.50", "false", R"({"y":{},"x":[1,"é"]})", "2"}},
        SchemaCase{R"({"const": 1e3})", {"1000"}, {"1e3", "100"}},
        SchemaCase{R"({"const": "a\nb"})", {R"("a\nb")"}, {"\"a\nb\""}},
        SchemaCase{
            R"({"enum": ["a", 1, 2.5, "abc", null], "type": ["string", "integer"], "minLength": 2, "maximum": 0.5})",
            {R"("abc")"},
            {R"("a")", "1", "2.5", "null"}},
        SchemaCase{R"({"enum": ["ab", "b", "a1"], "pattern": "^a"})", {R"("ab")", R"("a1")"}, {R"("b")"}},
        SchemaCase{R"({"enum": [1, 2, 3], "allOf": [{"enum": [2, 3.0, 4]}]})", {"2", "3"}, {"1", "4"}},
        SchemaCase{R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})",
                   {"5", R"("a")"},
                   {R"("ab")", "1.5"}},
        SchemaCase{
            R"({"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": -10}]})", {"10", "-10"}, {"0", "9", "\"a\""}},
        SchemaCase{
            R"({"anyOf": [{"minimum": 3}, {"const": 1}], "allOf": [{"anyOf": [{"maximum": 5}, {"const": 9}]}], "type": "integer"})",
            {"1", "3", "5", "9"},
            {"0", "6"}},
        SchemaCase{R"({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "null"}}, {"const": 3}]})",
                   {R"("a")", "[null]", "3"},
                   {"4"}},
        SchemaCase{
            R"({"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "v": {"type": "integer"}}, "required": ["k", "v"]},
                                 {"type": "object", "properties": {"k": {"enum": ["b", "c"]}}, "required": ["k"], "additionalProperties": false}]})",
            {R"({"k":"a","v":1})", R"({"k":"c"})", R"({"k":"a","v":1,"w":1})"},
            {R"({"k":"a"})", R"({"k":"b","v":1})", R"({"k":"d"})"}},
        SchemaCase{
            R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
                       "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"], "additionalProperties": false}}})",
            {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
            {R"({"v":1})", R"({"v":1,"next":{}})"}},
        SchemaCase{
            R"({"type": "array", "items": {"$ref": "#"}, "maxItems": 2})", {"[]", "[[],[[]]]"}, {"[1]", "[[],[],[]]"}},
        SchemaCase{
            R"({"definitions": {"a/b~c%": {"type": "null"}}, "$ref": "#/definitions/a~1b~0c%25", "description": "d"})",
            {"null"},
            {"1"}},
        SchemaCase{R"({"$ref": "#/$defs/a", "maximum": 5, "$defs": {"a": {"type": "integer", "minimum": 3}}})",
                   {"3", "5"},
                   {"2", "6"}}));

TEST(JsonObject, IsAnyObject) {
  const auto grammar = Compiled(GrammarKind::kJsonObject);
  EXPECT_TRUE(Allows(*grammar, "{}"));
  EXPECT_TRUE(Allows(*grammar, R"({"a": [1,2.5e3,{"b":null}], "c":"x\n\u00e9é"})"));
  for (const char* other : {"[]", "1", "", "{", "{}{}", R"({"a":})", R"({a:1})"}) EXPECT_FALSE(Allows(*grammar, other));
}

TEST(Choice, IsOneOfTheTexts) {
  const auto grammar = Compiled(GrammarKind::kChoice, R"(["yes", "yes!", "no", "", "日本\n"])");
  for (const char* text : {"yes", "yes!", "no", "", "日本\n"}) EXPECT_TRUE(Allows(*grammar, text)) << text;
  for (const char* text : {"ye", "noo", "yes!!", "日本", "\"yes\""}) EXPECT_FALSE(Allows(*grammar, text)) << text;
}

}  // namespace
}  // namespace baton::grammar
