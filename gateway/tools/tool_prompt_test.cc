// What tools make of a prompt and of the grammar of its answer.
#include "gateway/tools/tool_prompt.h"

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/random.h"
#include "gateway/json_text.h"
#include "gateway/tools/tool_schema.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/error_details.h"
#include "router/request_reader.h"
#include "router/testing/tiny_served_model.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ToolRequest RequestOf(ToolChoice choice,
                      const std::string& schema = R"({"type":"object","properties":{"z":{},"a":{}}})") {
  ToolRequest request = {.choice = choice, .named = "time"};
  EXPECT_TRUE(AddTool({.name = "weather", .description = "The \"weather\"", .parameters = ordered_json::parse(schema)},
                      "tools[0]", request)
                  .ok());
  EXPECT_TRUE(AddTool({.name = "time", .description = "", .parameters = {}}, "tools[1]", request).ok());
  return request;
}

tokenizer::ChatMessage CallMessage() {
  tokenizer::ChatMessage message = {.role = "assistant", .content = "I look."};
  message.tool_calls.push_back({.id = "1", .name = "time", .arguments = "{}"});
  message.tool_calls.push_back({.id = "2", .name = "weather", .arguments = R"({"city":"Rome"})"});
  return message;
}

router::GenerationRequest ChatOf(std::vector<tokenizer::ChatMessage> messages) {
  router::GenerationRequest generation;
  generation.prompt = router::ChatPrompt{.messages = std::move(messages)};
  return generation;
}

router::ChatPrompt Applied(const ToolRequest& request, const ToolStyle& style,
                           std::vector<tokenizer::ChatMessage> messages) {
  router::GenerationRequest generation = ChatOf(std::move(messages));
  EXPECT_TRUE(ApplyTools(request, style, generation).ok());
  return std::get<router::ChatPrompt>(generation.prompt);
}

ToolStyle StyleOf(std::string_view source) {
  const auto chat_template = tokenizer::ChatTemplate::Parse(source);
  EXPECT_TRUE(chat_template.ok()) << chat_template.status();
  return ToolStyleOf(&*chat_template);
}

TEST(ToolStyleTest, AFamilyIsKnownByItsTemplate) {
  const ToolStyle none = ToolStyleOf(nullptr);
  EXPECT_FALSE(none.template_writes);
  EXPECT_TRUE(none.has_tags);
  EXPECT_FALSE(StyleOf("{% for m in messages %}<tool_call>{{ m.tools }}{% endfor %}").template_writes);
  const ToolStyle qwen = StyleOf(R"({% if tools %}{{ "<tool_call>\n{\"name\": x, \"arguments\": y}" }}{% endif %})");
  EXPECT_TRUE(qwen.template_writes);
  EXPECT_TRUE(qwen.has_tags);
  EXPECT_STREQ(qwen.arguments_key, "arguments");
  const ToolStyle llama = StyleOf(R"({% if tools is not none %}{{ '{"name": "' }}{{ '"parameters": ' }}{% endif %})");
  EXPECT_TRUE(llama.template_writes);
  EXPECT_FALSE(llama.has_tags);
  EXPECT_STREQ(llama.arguments_key, "parameters");
  const ToolStyle other = StyleOf(R"([TOOLS]{{ tools | tojson }}{{ '"arguments": ' }})");
  EXPECT_FALSE(other.has_tags);
  EXPECT_STREQ(other.arguments_key, "arguments");
}

// A template in the manner of a family.
tokenizer::ChatTemplate FamilyTemplate(const std::string& name) {
  std::ifstream file(absl::StrCat(BATON_SOURCE_DIR "/tokenizer/corpus/chat_template/", name));
  const std::string source((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto chat_template = tokenizer::ChatTemplate::Parse(source);
  EXPECT_TRUE(chat_template.ok()) << chat_template.status();
  return *std::move(chat_template);
}

std::string RenderedBy(const tokenizer::ChatTemplate& chat_template, const ToolRequest& request) {
  tokenizer::ChatMessage call = {.role = "assistant", .content = ""};
  call.tool_calls.push_back({.id = "1", .name = "time", .arguments = R"({"b":1,"a":[true]})"});
  const router::ChatPrompt chat = Applied(
      request, ToolStyleOf(&chat_template),
      {{.role = "user", .content = "x"}, call, {.role = "tool", .content = "9", .tool_call_id = "1", .name = "time"}});
  const auto text = chat_template.RenderChat(
      {.messages = chat.messages, .add_generation_prompt = true, .tools = chat.tools, .eos_token = "</s>"});
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("") + chat.answer_begin;
}

TEST(ToolStyleTest, TheTemplateOfAFamilyWritesToolsCallsAndResults) {
  ToolRequest request = {.choice = ToolChoice::kRequired};
  ASSERT_TRUE(
      AddTool({.name = "time", .description = "", .parameters = {{"type", "object"}}}, "tools[0]", request).ok());
  EXPECT_EQ(RenderedBy(FamilyTemplate("chatml"), request),
            "<|im_start|>system\nYou help.<|im_end|>\n# Tools\n\n"
            "{\"type\": \"function\", \"function\": {\"name\": \"time\", \"parameters\": {\"type\": \"object\"}}}"
            "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<tool_call>\n"
            "{\"name\": \"time\", \"arguments\": {\"b\": 1, \"a\": [true]}}\n</tool_call><|im_end|>\n"
            "<|im_start|>user\n<tool_response>\n9\n</tool_response><|im_end|>\n<|im_start|>assistant\n<tool_call>\n");
  const tokenizer::ChatTemplate headers = FamilyTemplate("headers");
  EXPECT_STREQ(ToolStyleOf(&headers).arguments_key, "parameters");
  const std::string text = RenderedBy(headers, request);
  EXPECT_THAT(text, HasSubstr(R"({"name": "time", "parameters": {"b": 1, "a": [true]}}<|eot_id|>)"));
  EXPECT_THAT(text, ::testing::EndsWith("assistant<|end_header_id|>\n\n"));
  // It knows no tools, and users and assistants take turns.
  EXPECT_THAT(RenderedBy(FamilyTemplate("instructions"), request),
              HasSubstr("\n\n<tool_response>\n9\n</tool_response>[/INST]<tool_call>\n"));
}

TEST(ToolPromptTest, ATemplateThatReadsToolsHasThemInTheClientsOrder) {
  const router::ChatPrompt chat = Applied(RequestOf(ToolChoice::kAuto), {.template_writes = true},
                                          {{.role = "user", .content = "x"}, CallMessage()});
  EXPECT_EQ(chat.tools,
            R"([{"type":"function","function":{"name":"weather","description":"The \"weather\"","parameters":)"
            R"({"type":"object","properties":{"z":{},"a":{}}}}},{"type":"function","function":{"name":"time",)"
            R"("parameters":{"type":"object","properties":{}}}}])");
  EXPECT_EQ(chat.messages.size(), 2u);
  EXPECT_EQ(chat.messages[1].tool_calls.size(), 2u);
  EXPECT_EQ(chat.answer_begin, "");
}

TEST(ToolPromptTest, OtherwiseTheyAreATextOfTheSystem) {
  const ToolRequest request = RequestOf(ToolChoice::kAuto);
  const router::ChatPrompt alone = Applied(request, {}, {{.role = "user", .content = "x"}});
  ASSERT_EQ(alone.messages.size(), 2u);
  EXPECT_EQ(alone.messages[0].role, "system");
  EXPECT_THAT(alone.messages[0].content, StartsWith("# Tools"));
  EXPECT_THAT(alone.messages[0].content,
              HasSubstr("<tools>\n{\"type\":\"function\",\"function\":{\"name\":\"weather\""));
  EXPECT_EQ(alone.tools, "");
  const router::ChatPrompt told =
      Applied(request, {}, {{.role = "system", .content = "Be brief."}, {.role = "user", .content = "x"}});
  ASSERT_EQ(told.messages.size(), 2u);
  EXPECT_THAT(told.messages[0].content, StartsWith("Be brief.\n\n# Tools"));
}

TEST(ToolPromptTest, CallsAndResultsOfBeforeBecomeText) {
  const router::ChatPrompt chat = Applied({}, {},
                                          {{.role = "user", .content = "x"},
                                           CallMessage(),
                                           {.role = "tool", .content = "12:00", .tool_call_id = "1"},
                                           {.role = "tool", .content = "rain", .tool_call_id = "2"},
                                           {.role = "user", .content = "And?"}});
  ASSERT_EQ(chat.messages.size(), 4u) << "without tools there is no text of the system";
  EXPECT_EQ(chat.messages[1].content,
            "I look.\n<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":\"Rome\"}}\n</tool_call>");
  EXPECT_TRUE(chat.messages[1].tool_calls.empty());
  EXPECT_EQ(chat.messages[2].role, "user");
  EXPECT_EQ(chat.messages[2].content,
            "<tool_response>\n12:00\n</tool_response>\n<tool_response>\nrain\n</tool_response>");
  EXPECT_EQ(chat.messages[3].content, "And?");
}

TEST(ToolPromptTest, WithTheChoiceOfNoneTheModelSeesNoTools) {
  for (const bool template_writes : {false, true}) {
    const router::ChatPrompt chat =
        Applied(RequestOf(ToolChoice::kNone), {.template_writes = template_writes}, {{.role = "user", .content = "x"}});
    EXPECT_EQ(chat.tools, "");
    EXPECT_EQ(chat.messages.size(), 1u);
  }
}

TEST(ToolPromptTest, AnAnswerThatMustBeACallHasItsGrammar) {
  router::GenerationRequest generation = ChatOf({{.role = "user", .content = "x"}});
  const auto reading = ApplyTools(RequestOf(ToolChoice::kRequired), {}, generation);
  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_EQ(reading->form, CallForm::kOneCall);
  EXPECT_EQ(std::get<router::ChatPrompt>(generation.prompt).answer_begin, "<tool_call>\n");
  EXPECT_STREQ(generation.sampling.grammar_field, "tools");
  const json schema = json::parse(generation.sampling.grammar.text);
  ASSERT_EQ(schema.at("anyOf").size(), 2u);
  EXPECT_EQ(schema.at("anyOf")[0].at("properties").at("name"), json({{"const", "weather"}}));
  EXPECT_EQ(schema.at("anyOf")[1].at("required"), json({"name", "arguments"}));

  router::GenerationRequest named = ChatOf({{.role = "user", .content = "x"}});
  ASSERT_TRUE(ApplyTools(RequestOf(ToolChoice::kNamed),
                         {.template_writes = true, .has_tags = false, .arguments_key = "parameters"}, named)
                  .ok());
  EXPECT_EQ(std::get<router::ChatPrompt>(named.prompt).answer_begin, "");
  EXPECT_EQ(named.sampling.grammar.text,
            R"({"anyOf":[{"type":"object","properties":{"name":{"const":"time"},"parameters":{"type":"object",)"
            R"("properties":{}}},"required":["name","parameters"],"additionalProperties":false}]})");
}

TEST(ToolPromptTest, AFormatOfTheAnswerBesideToolsIsRefused) {
  for (const ToolChoice choice : {ToolChoice::kNone, ToolChoice::kAuto, ToolChoice::kRequired}) {
    router::GenerationRequest generation = ChatOf({{.role = "user", .content = "x"}});
    generation.sampling.grammar.kind = GrammarKind::kJsonObject;
    generation.sampling.grammar_field = "response_format";
    const auto reading = ApplyTools(RequestOf(choice), {}, generation);
    EXPECT_EQ(reading.ok(), choice == ToolChoice::kNone);
    if (reading.ok()) continue;
    EXPECT_EQ(router::GetFieldError(reading.status())->field, "response_format");
  }
}

// What the router says of a request whose answer must be a call of a tool with this schema.
absl::Status Routed(const std::string& schema) {
  const router::ServedModel model = router::TestModel();
  SeededRandom random(7);
  router::GenerationRequest generation;
  generation.prompt = router::TokenPrompt{.ids = {1}};
  generation.sampling.grammar = CallGrammar(RequestOf(ToolChoice::kRequired, schema), "arguments");
  generation.sampling.grammar_field = "tools";
  return router::RequestReader(model, random).Read(std::move(generation)).status();
}

TEST(ToolSchemaTest, ReferencesWithinASchemaGoOnToMeanWhatTheyMean) {
  constexpr char kSchema[] =
      R"({"$id":"https://example.com/tool","$schema":"https://json-schema.org/draft/2020-12/schema",
      "type":"object","properties":{"$ref":{"type":"string"},"next":{"$ref":"#"},"place":{"$ref":"#/$defs/Place"},
      "all":{"type":"array","items":{"$ref":"#/$defs/Place"}},"kind":{"enum":["#/a"],"default":{"$ref":"#/x"}}},
      "$defs":{"Place":{"type":"object","properties":{"in":{"$ref":"#/$defs/Place"}}}}})";
  const json schema = json::parse(CallGrammar(RequestOf(ToolChoice::kRequired, kSchema), "arguments").text);
  const json& arguments = schema.at("anyOf")[0].at("properties").at("arguments");
  EXPECT_EQ(arguments.at("properties").at("$ref"), json({{"type", "string"}}));
  EXPECT_EQ(arguments.at("properties").at("next").at("$ref"), "#/anyOf/0/properties/arguments");
  EXPECT_EQ(arguments.at("properties").at("place").at("$ref"), "#/anyOf/0/properties/arguments/$defs/Place");
  EXPECT_EQ(arguments.at("properties").at("all").at("items").at("$ref"), "#/anyOf/0/properties/arguments/$defs/Place");
  EXPECT_EQ(arguments.at("properties").at("kind").at("default").at("$ref"), "#/x");
  EXPECT_TRUE(Routed(kSchema).ok()) << Routed(kSchema);
}

TEST(ToolSchemaTest, WhatTheEngineRefusesIsNamed) {
  const absl::Status status = Routed(R"({"type":"object","properties":{"a":{"not":{}}}})");
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_EQ(router::GetFieldError(status)->field, "tools");
  EXPECT_THAT(std::string(status.message()), HasSubstr("not is not supported"));
}

TEST(TemplateVariablesTest, AreThoseThatTheTemplateReads) {
  const auto chat_template = tokenizer::ChatTemplate::Parse("{% if thinks %}x{% endif %}{{ bos_token }}");
  const auto fault = [&](const json& variables) -> std::string {
    router::ChatPrompt chat;
    const absl::Status status = ReadTemplateVariables(variables, &*chat_template, chat);
    return status.ok() ? chat.variables : router::GetFieldError(status)->field;
  };
  EXPECT_EQ(fault(json::object()), "");
  EXPECT_EQ(fault({{"thinks", false}}), R"({"thinks":false})");
  EXPECT_EQ(fault({{"think", false}}), "chat_template_kwargs.think");
  EXPECT_EQ(fault({{"bos_token", "x"}}), "chat_template_kwargs.bos_token");
  EXPECT_EQ(fault("x"), "chat_template_kwargs");
  json many = json::object();
  for (size_t i = 0; i <= kMaxOrderedMembers; ++i) many[std::to_string(i)] = true;
  EXPECT_EQ(fault({{"thinks", many}}), "chat_template_kwargs");
}

}  // namespace
}  // namespace baton::gateway
