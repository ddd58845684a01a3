#include "gateway/output_format.h"

#include <string>

#include "common/clock.h"
#include "gateway/json_reading.h"
#include "gtest/gtest.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using Reader = absl::Status (*)(const nlohmann::json&, std::string_view, router::SamplingRequest&);

struct FormatRead {
  absl::Status status;
  router::SamplingRequest sampling;

  GrammarKind kind() const { return sampling.grammar.kind; }
  const std::string& text() const { return sampling.grammar.text; }
  // The field at fault.
  std::string fault() const {
    const auto field = router::GetFieldError(status);
    return field.has_value() ? field->field : std::string(status.message());
  }
};

FormatRead ReadWith(Reader reader, const std::string& body) {
  FormatRead read;
  read.status = reader(ParseJsonObject(body).value(), body, read.sampling);
  return read;
}

FormatRead OpenAi(const std::string& body) { return ReadWith(&ReadOpenAiFormat, body); }
FormatRead Anthropic(const std::string& body) { return ReadWith(&ReadAnthropicFormat, body); }

TEST(OutputFormatTest, WithoutAFormatThereIsNoGrammar) {
  for (const char* body :
       {"{}", R"({"response_format":null,"structured_outputs":null})", R"({"response_format":{"type":"text"}})"}) {
    EXPECT_TRUE(OpenAi(body).sampling.grammar.empty()) << body;
    EXPECT_TRUE(OpenAi(body).status.ok()) << body;
  }
  for (const char* body : {"{}", R"({"output_config":{}})", R"({"output_config":{"format":null,"effort":null}})"}) {
    EXPECT_TRUE(Anthropic(body).sampling.grammar.empty()) << body;
    EXPECT_TRUE(Anthropic(body).status.ok()) << body;
  }
}

TEST(OutputFormatTest, ASchemaKeepsTheOrderOfItsMembers) {
  const std::string schema = R"({"type":"object","properties":{"z":{"type":"integer"},"a":{}},"required":["z"]})";
  const FormatRead openai =
      OpenAi(R"({"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema": )" + schema +
             "}}}");
  EXPECT_EQ(openai.status, absl::OkStatus());
  EXPECT_EQ(openai.kind(), GrammarKind::kJsonSchema);
  EXPECT_EQ(openai.text(), schema);
  EXPECT_STREQ(openai.sampling.grammar_field, "response_format");
  EXPECT_EQ(OpenAi(R"({"structured_outputs":{"json":)" + schema + "}}").text(), schema);
  const FormatRead anthropic =
      Anthropic(R"({"output_config":{"format":{"type":"json_schema","schema":)" + schema + "}}}");
  EXPECT_EQ(anthropic.text(), schema);
  EXPECT_STREQ(anthropic.sampling.grammar_field, "output_config.format");
  EXPECT_EQ(Anthropic(R"({"output_format":{"type":"json_schema","schema":)" + schema + "}}").text(), schema);
}

TEST(OutputFormatTest, AnObjectOfManyMembersTakesNoQuadraticTime) {
  std::string members;
  for (int i = 0; i < 100'000; ++i) members += "\"" + std::to_string(i) + "\":{},";
  const std::string body = R"({"metadata":{)" + members +
                           R"("x":1},"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{)" +
                           members + R"("x":1}}}}})";
  const TimeNs start = MonotonicClock().Now();
  EXPECT_TRUE(OpenAi(body).status.ok());
  EXPECT_LT(MonotonicClock().Now() - start, 20 * kNsPerSecond);
}

TEST(OutputFormatTest, EveryKindOfStructuredOutput) {
  EXPECT_EQ(OpenAi(R"({"response_format":{"type":"json_object"}})").kind(), GrammarKind::kJsonObject);
  EXPECT_EQ(OpenAi(R"({"structured_outputs":{"json_object":true}})").kind(), GrammarKind::kJsonObject);
  const FormatRead text =
      OpenAi(R"({"structured_outputs":{"json":"{\"type\":\"null\"}","disable_any_whitespace":false}})");
  EXPECT_EQ(text.kind(), GrammarKind::kJsonSchema);
  EXPECT_EQ(text.text(), R"({"type":"null"})");
  const FormatRead regex = OpenAi(R"({"structured_outputs":{"regex":"[0-9]+","json_object":false}})");
  EXPECT_EQ(regex.kind(), GrammarKind::kRegex);
  EXPECT_EQ(regex.text(), "[0-9]+");
  const FormatRead choice = OpenAi(R"({"structured_outputs":{"choice":["yes","no"]}})");
  EXPECT_EQ(choice.kind(), GrammarKind::kChoice);
  EXPECT_EQ(choice.text(), R"(["yes","no"])");
  EXPECT_EQ(OpenAi(R"({"structured_outputs":{"grammar":"root ::= \"a\""}})").kind(), GrammarKind::kEbnf);
}

TEST(OutputFormatTest, WhatIsWrongIsNamed) {
  const auto fault = [](const std::string& members) { return OpenAi("{" + members + "}").fault(); };
  EXPECT_EQ(fault(R"("response_format":"json")"), "response_format");
  EXPECT_EQ(fault(R"("response_format":{"type":"xml"})"), "response_format.type");
  EXPECT_EQ(fault(R"("response_format":{})"), "response_format.type");
  EXPECT_EQ(fault(R"("response_format":{"type":"json_object","schema":{}})"), "response_format.schema");
  EXPECT_EQ(fault(R"("response_format":{"type":"json_schema"})"), "response_format.json_schema");
  EXPECT_EQ(fault(R"("response_format":{"type":"json_schema","json_schema":{}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(fault(R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"x":1}})"),
            "response_format.json_schema.x");
  EXPECT_EQ(fault(R"("structured_outputs":[])"), "structured_outputs");
  EXPECT_EQ(fault(R"("structured_outputs":{})"), "structured_outputs");
  EXPECT_EQ(fault(R"("structured_outputs":{"json_object":false})"), "structured_outputs");
  EXPECT_EQ(fault(R"("structured_outputs":{"json_object":1})"), "structured_outputs.json_object");
  EXPECT_EQ(fault(R"("structured_outputs":{"regex":"a","choice":["b"]})"), "structured_outputs");
  EXPECT_EQ(fault(R"("structured_outputs":{"regex":5})"), "structured_outputs.regex");
  EXPECT_EQ(fault(R"("structured_outputs":{"grammar":{}})"), "structured_outputs.grammar");
  EXPECT_EQ(fault(R"("structured_outputs":{"regex":"a","whitespace_pattern":"b"})"),
            "structured_outputs.whitespace_pattern");
  EXPECT_EQ(fault(R"("structured_outputs":{"regex":"a"},"response_format":{"type":"json_object"})"),
            "structured_outputs");
  const auto anthropic = [](const std::string& members) { return Anthropic("{" + members + "}").fault(); };
  EXPECT_EQ(anthropic(R"("output_config":5)"), "output_config");
  EXPECT_EQ(anthropic(R"("output_config":{"effort":"low"})"), "output_config.effort");
  EXPECT_EQ(anthropic(R"("output_config":{"format":5})"), "output_config.format");
  EXPECT_EQ(anthropic(R"("output_format":{"type":"json"})"), "output_format.type");
  EXPECT_EQ(anthropic(R"("output_format":{"type":"json_schema"})"), "output_format.schema");
  const std::string format = R"({"type":"json_schema","schema":{}})";
  EXPECT_EQ(anthropic(R"("output_format":)" + format + R"(,"output_config":{"format":)" + format + "}"),
            "output_format");
}

}  // namespace
}  // namespace baton::gateway
