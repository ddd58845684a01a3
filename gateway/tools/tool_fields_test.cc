// Tools, calls and results as the bodies of the three APIs say them.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gateway/anthropic_request.h"
#include "gateway/json_text.h"
#include "gateway/openai_request.h"
#include "gateway/responses_request.h"
#include "gateway/tools/anthropic_tools.h"
#include "gateway/tools/openai_tools.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ChatModel kToolModel = {.context_length = 512};
// A template that writes tools leaves messages as they are.
constexpr ToolStyle kTemplateWrites = {.template_writes = true};

constexpr char kChatTools[] =
    R"("tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"z":1,"a":2},"strict":true}}])";
constexpr char kItemTools[] = R"("tools":[{"type":"function","name":"f","parameters":null,"strict":false}])";
constexpr char kBlockTools[] = R"("tools":[{"name":"f","input_schema":{"z":1,"a":2},"cache_control":{"type":"x"}}])";

absl::StatusOr<OpenAiRequest> ReadChatOfTools(const std::string& members) {
  return ReadOpenAiRequest(OpenAiEndpoint::kChat, absl::StrCat("{", members, "}"), kToolModel);
}
absl::StatusOr<ResponsesRequest> ReadItemsOfTools(const std::string& members) {
  return ReadResponsesRequest(absl::StrCat("{", members, "}"), kToolModel);
}
absl::StatusOr<AnthropicRequest> ReadBlocksOfTools(const std::string& members) {
  return ReadAnthropicRequest(absl::StrCat(R"({"max_tokens":5,)", members, "}"), kTemplateWrites);
}

template <typename T>
std::string ToolFault(const absl::StatusOr<T>& read) {
  if (read.ok()) return "taken";
  const auto field = router::GetFieldError(read.status());
  return field.has_value() ? field->field : "";
}

ToolRequest ToolsOf(OpenAiToolForm form, const std::string& members) {
  const std::string text = absl::StrCat("{", members, "}");
  const auto read = ReadOpenAiTools(form, nlohmann::json::parse(text), text);
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *read : ToolRequest();
}

ToolRequest BlockToolsOf(const std::string& members) {
  const std::string text = absl::StrCat("{", members, "}");
  const auto read = ReadAnthropicTools(nlohmann::json::parse(text), text);
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *read : ToolRequest();
}

TEST(ToolFieldsTest, AToolHasANameADescriptionAndASchemaInTheClientsOrder) {
  const ToolRequest chat = ToolsOf(OpenAiToolForm::kChat, kChatTools);
  ASSERT_EQ(chat.tools.size(), 1u);
  EXPECT_EQ(chat.tools[0].name, "f");
  EXPECT_EQ(chat.tools[0].description, "d");
  EXPECT_EQ(chat.tools[0].parameters.dump(), R"({"z":1,"a":2})");
  EXPECT_EQ(chat.choice, ToolChoice::kAuto);
  EXPECT_TRUE(chat.takes_several);
  const ToolRequest items = ToolsOf(OpenAiToolForm::kResponses, kItemTools);
  EXPECT_EQ(items.tools.at(0).parameters.dump(), R"({"type":"object","properties":{}})");
  EXPECT_EQ(BlockToolsOf(kBlockTools).tools.at(0).parameters.dump(), R"({"z":1,"a":2})");
}

TEST(ToolFieldsTest, EachApiHasItsWordsForTheChoice) {
  const auto chat = [](const std::string& choice) {
    return ToolsOf(OpenAiToolForm::kChat, absl::StrCat(kChatTools, R"(,"tool_choice":)", choice)).choice;
  };
  EXPECT_EQ(chat(R"("none")"), ToolChoice::kNone);
  EXPECT_EQ(chat(R"("auto")"), ToolChoice::kAuto);
  EXPECT_EQ(chat("null"), ToolChoice::kAuto);
  EXPECT_EQ(chat(R"("required")"), ToolChoice::kRequired);
  EXPECT_EQ(chat(R"({"type":"function","function":{"name":"f"}})"), ToolChoice::kNamed);
  const ToolRequest items =
      ToolsOf(OpenAiToolForm::kResponses, absl::StrCat(kItemTools, R"(,"tool_choice":{"type":"function","name":"f"})"));
  EXPECT_EQ(items.choice, ToolChoice::kNamed);
  EXPECT_EQ(items.named, "f");
  const auto blocks = [](const std::string& choice) {
    return BlockToolsOf(absl::StrCat(kBlockTools, R"(,"tool_choice":{"type":)", choice, "}"));
  };
  EXPECT_EQ(blocks(R"("none")").choice, ToolChoice::kNone);
  EXPECT_EQ(blocks(R"("auto")").choice, ToolChoice::kAuto);
  EXPECT_EQ(blocks(R"("any")").choice, ToolChoice::kRequired);
  EXPECT_EQ(blocks(R"("tool","name":"f")").choice, ToolChoice::kNamed);
  EXPECT_FALSE(blocks(R"("auto","disable_parallel_tool_use":true)").takes_several);
  EXPECT_FALSE(
      ToolsOf(OpenAiToolForm::kChat, absl::StrCat(kChatTools, R"(,"parallel_tool_calls":false)")).takes_several);
}

TEST(ToolFieldsTest, WithoutToolsOnlyAChoiceThatNeedsOneIsRefused) {
  const std::string chat = R"("messages":[{"role":"user","content":"x"}],"tool_choice":)";
  EXPECT_EQ(ToolFault(ReadChatOfTools(chat + R"("auto")")), "taken");
  EXPECT_EQ(ToolFault(ReadChatOfTools(chat + R"("none","tools":[],"parallel_tool_calls":false)")), "taken");
  EXPECT_EQ(ToolFault(ReadChatOfTools(chat + R"("required")")), "tool_choice");
  EXPECT_EQ(ReadChatOfTools(chat + R"("auto")")->tools.form, CallForm::kNone);
}

TEST(ToolFieldsTest, WhatIsWrongInAToolIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("tools":{})", "tools"},
      {R"("tools":[5])", "tools[0]"},
      {R"("tools":[{}])", "tools[0].type"},
      {R"("tools":[{"type":"custom","custom":{"name":"x"}}])", "tools[0].type"},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
      {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"a","x":1}}])", "tools[0].function.x"},
      {R"("tools":[{"type":"function","function":{"name":"a","parameters":[]}}])", "tools[0].function"},
      {R"("tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}])",
       "tools[1].function.name"},
      {absl::StrCat(kChatTools, R"(,"tool_choice":"f")"), "tool_choice"},
      {absl::StrCat(kChatTools, R"(,"tool_choice":{"type":"allowed_tools"})"), "tool_choice.type"},
      {absl::StrCat(kChatTools, R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"), "tool_choice"},
      {absl::StrCat(kChatTools, R"(,"parallel_tool_calls":1)"), "parallel_tool_calls"},
      {absl::StrCat(kChatTools, R"(,"response_format":{"type":"json_object"})"), "response_format"},
      {R"("functions":[{"name":"f"}])", "functions"}};
  for (const auto& [members, field] : cases) {
    SCOPED_TRACE(members);
    EXPECT_EQ(ToolFault(ReadChatOfTools(absl::StrCat(R"("messages":[{"role":"user","content":"x"}],)", members))),
              field);
  }
  const auto blocks = [](const std::string& members) {
    return ToolFault(ReadBlocksOfTools(absl::StrCat(R"("messages":[{"role":"user","content":"x"}],)", members)));
  };
  EXPECT_EQ(blocks(R"("tools":[{"type":"bash_20250124","name":"bash"}])"), "tools[0].type");
  EXPECT_EQ(blocks(R"("tools":[{"name":"f"}])"), "tools[0].input_schema");
  EXPECT_EQ(blocks(R"("tools":[{"name":"f","input_schema":{},"defer_loading":true}])"), "tools[0].defer_loading");
  EXPECT_EQ(blocks(absl::StrCat(kBlockTools, R"(,"tool_choice":"auto")")), "tool_choice");
  EXPECT_EQ(blocks(absl::StrCat(kBlockTools, R"(,"tool_choice":{"type":"required"})")), "tool_choice.type");
  EXPECT_EQ(blocks(absl::StrCat(kBlockTools, R"(,"tool_choice":{"type":"tool"})")), "tool_choice.name");
  EXPECT_EQ(blocks(absl::StrCat(kBlockTools, R"(,"tool_choice":{"type":"any","name":"f"})")), "tool_choice.name");
}

TEST(ToolFieldsTest, ARequestHasAsManyToolsAsItMay) {
  const auto with = [](size_t count) {
    std::string tools;
    for (size_t i = 0; i < count; ++i) {
      absl::StrAppend(&tools, i > 0 ? "," : "", R"({"type":"function","function":{"name":"f)", i, R"("}})");
    }
    return ToolFault(
        ReadChatOfTools(absl::StrCat(R"("messages":[{"role":"user","content":"x"}],"tools":[)", tools, "]")));
  };
  EXPECT_EQ(with(kMaxTools), "taken");
  EXPECT_EQ(with(kMaxTools + 1), "tools");
  const auto named = [](size_t bytes) {
    return ToolFault(ReadBlocksOfTools(absl::StrCat(R"("messages":[{"role":"user","content":"x"}],"tools":[{"name":")",
                                                    std::string(bytes, 'x'), R"(","input_schema":{}}])")));
  };
  EXPECT_EQ(named(kMaxToolNameBytes), "taken");
  EXPECT_EQ(named(kMaxToolNameBytes + 1), "tools[0].name");
}

std::string ToolOf(size_t members) {
  std::string properties;
  for (size_t i = 0; i < members; ++i) absl::StrAppend(&properties, i > 0 ? "," : "", "\"", i, "\":{}");
  return absl::StrCat(R"({"name":"f","input_schema":{"properties":{)", properties, "}}}");
}

TEST(ToolFieldsTest, AnObjectOfASchemaOrOfArgumentsHasAsManyMembersAsItMay) {
  const auto fault = [](size_t members) {
    return ToolFault(ReadBlocksOfTools(
        absl::StrCat(R"("messages":[{"role":"user","content":"x"}],"tools":[)", ToolOf(members), "]")));
  };
  EXPECT_EQ(fault(kMaxOrderedMembers), "taken");
  EXPECT_EQ(fault(kMaxOrderedMembers + 1), "tools[0].input_schema");
  EXPECT_TRUE(ReadArguments(ToolOf(kMaxOrderedMembers), "arguments").ok());
  EXPECT_EQ(ToolFault(ReadArguments(ToolOf(kMaxOrderedMembers + 1), "arguments")), "arguments");
}

std::vector<std::string> RolesOf(const router::Prompt& prompt) {
  std::vector<std::string> roles;
  for (const auto& message : std::get<router::ChatPrompt>(prompt).messages) roles.push_back(message.role);
  return roles;
}

TEST(ToolFieldsTest, AChatHasCallsAndResults) {
  const auto tokens = tokenizer::ChatTemplate::Parse("{{ tools }}");
  const auto read = ReadOpenAiRequest(
      OpenAiEndpoint::kChat,
      R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"refusal":null,"tool_calls":[)"
      R"({"id":"a","index":0,"type":"function","function":{"name":"f","arguments":"{\"z\": 1, \"a\": 2}"}},)"
      R"({"id":"b","type":"function","function":{"name":"g","arguments":""}}]},)"
      R"({"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"r"}]},)"
      R"({"role":"tool","tool_call_id":"a","name":"mine","content":"s"}]})",
      {.context_length = 512, .chat_template = &*tokens});
  ASSERT_TRUE(read.ok()) << read.status();
  const auto& messages = std::get<router::ChatPrompt>(read->generation.prompt).messages;
  ASSERT_THAT(RolesOf(read->generation.prompt), ElementsAre("user", "assistant", "tool", "tool"));
  ASSERT_EQ(messages[1].tool_calls.size(), 2u);
  EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"z": 1, "a": 2})");
  EXPECT_EQ(messages[1].tool_calls[1].arguments, "{}");
  EXPECT_EQ(messages[2].name, "g");
  EXPECT_EQ(messages[2].content, "r");
  EXPECT_EQ(messages[3].name, "mine");
}

TEST(ToolFieldsTest, WhatIsWrongInAMessageOfToolsIsNamed) {
  const auto chat = [](const std::string& messages) {
    return ToolFault(ReadChatOfTools(absl::StrCat(R"("messages":[)", messages, "]")));
  };
  const auto call = [&chat](const std::string& call) {
    return chat(absl::StrCat(R"({"role":"assistant","tool_calls":[)", call, "]}"));
  };
  EXPECT_EQ(chat(R"({"role":"user","content":"x","tool_calls":[{}]})"), "messages[0].tool_calls");
  EXPECT_EQ(chat(R"({"role":"assistant","content":null})"), "messages[0].content");
  EXPECT_EQ(chat(R"({"role":"tool","tool_call_id":"a","content":"x"})"), "messages[0].tool_call_id");
  EXPECT_EQ(chat(R"({"role":"tool","content":"x"})"), "messages[0].tool_call_id");
  EXPECT_EQ(call("5"), "messages[0].tool_calls[0]");
  EXPECT_EQ(call(R"({"id":"a","type":"custom"})"), "messages[0].tool_calls[0].type");
  EXPECT_EQ(call(R"({"type":"function","function":{"name":"f"}})"), "messages[0].tool_calls[0].id");
  EXPECT_EQ(call(R"({"id":"a","type":"function","function":{}})"), "messages[0].tool_calls[0].function.name");
  EXPECT_EQ(call(R"({"id":"a","type":"function","function":{"name":"f","arguments":"[1]"}})"),
            "messages[0].tool_calls[0].function.arguments");
  EXPECT_EQ(call(R"({"id":"a","type":"function","function":{"name":"f","arguments":{}}})"),
            "messages[0].tool_calls[0].function.arguments");
}

TEST(ToolFieldsTest, ItemsOfResponsesAreCallsAndOutputs) {
  const auto tokens = tokenizer::ChatTemplate::Parse("{{ tools }}");
  const auto read = ReadResponsesRequest(
      absl::StrCat(
          R"({"input":[{"role":"user","content":"x"},{"role":"assistant","content":"y"},)"
          R"({"type":"function_call","call_id":"a","name":"f","arguments":"{}","id":"fc","status":"completed"},)"
          R"({"type":"function_call","call_id":"b","name":"g","arguments":"{}"},)"
          R"({"type":"function_call_output","call_id":"b","output":"r"}],)",
          kItemTools, R"(,"tool_choice":"required"})"),
      {.context_length = 512, .chat_template = &*tokens});
  ASSERT_TRUE(read.ok()) << read.status();
  const auto& messages = std::get<router::ChatPrompt>(read->generation.prompt).messages;
  ASSERT_THAT(RolesOf(read->generation.prompt), ElementsAre("user", "assistant", "tool"));
  EXPECT_EQ(messages[1].content, "y");
  EXPECT_EQ(messages[1].tool_calls.size(), 2u);
  EXPECT_EQ(messages[2].name, "g");
  EXPECT_EQ(read->tool_choice, R"("required")");
  EXPECT_EQ(read->tools, R"([{"type":"function","name":"f","parameters":null,"strict":false}])");
  EXPECT_EQ(read->reading.form, CallForm::kOneCall);
  EXPECT_EQ(ToolFault(ReadItemsOfTools(R"("input":[{"type":"function_call_output","call_id":"b","output":"r"}])")),
            "input[0].call_id");
  EXPECT_EQ(ToolFault(ReadItemsOfTools(R"("input":[{"type":"function_call","name":"b","arguments":"{}"}])")),
            "input[0].call_id");
  EXPECT_EQ(ToolFault(ReadItemsOfTools(
                absl::StrCat(R"("input":"x",)", kItemTools, R"(,"include":["message.output_text.logprobs"])"))),
            "include");
  EXPECT_EQ(ToolFault(ReadItemsOfTools(R"("input":"x","tools":[{"type":"web_search"}])")), "tools[0].type");
}

TEST(ToolFieldsTest, BlocksOfAnthropicAreTextsCallsAndResults) {
  const auto read = ReadBlocksOfTools(
      R"("messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"text","text":"I look."},)"
      R"({"type":"tool_use","id":"a","name":"f","input":{"z":1,"a":2}},{"type":"tool_use","id":"b","name":"g","input":{}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"b","is_error":true,"content":"no"},)"
      R"({"type":"tool_result","tool_use_id":"a"},{"type":"text","text":"And?"}]}])");
  ASSERT_TRUE(read.ok()) << read.status();
  const auto& messages = std::get<router::ChatPrompt>(read->generation.prompt).messages;
  ASSERT_THAT(RolesOf(read->generation.prompt), ElementsAre("user", "assistant", "tool", "tool", "user"));
  EXPECT_EQ(messages[1].content, "I look.");
  ASSERT_EQ(messages[1].tool_calls.size(), 2u);
  EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"z":1,"a":2})");
  EXPECT_EQ(messages[2].content, "Error: no");
  EXPECT_EQ(messages[2].name, "g");
  EXPECT_EQ(messages[3].content, "");
  EXPECT_EQ(messages[4].content, "And?");
  const auto fault = [](const std::string& role, const std::string& block) {
    return ToolFault(ReadBlocksOfTools(absl::StrCat(R"("messages":[{"role":")", role, R"(","content":[)", block,
                                                    R"(]},{"role":"user","content":"x"}])")));
  };
  EXPECT_EQ(fault("user", R"({"type":"tool_use","id":"a","name":"f","input":{}})"), "messages[0].content");
  EXPECT_EQ(fault("assistant", R"({"type":"tool_use","id":"a","name":"f","input":"{}"})"),
            "messages[0].content[0].input");
  EXPECT_EQ(fault("assistant", R"({"type":"tool_use","name":"f","input":{}})"), "messages[0].content[0].id");
  EXPECT_EQ(fault("user", R"({"type":"tool_result","tool_use_id":"a","content":"x"})"),
            "messages[0].content[0].tool_use_id");
}

TEST(ToolFieldsTest, ACountHasTheToolsOfItsMessage) {
  const std::string body = absl::StrCat(R"({"messages":[{"role":"user","content":"x"}],)", kBlockTools);
  const auto count = ReadAnthropicCount(body + "}", ToolStyle());
  ASSERT_TRUE(count.ok()) << count.status();
  ASSERT_EQ(count->prompt.messages.size(), 2u);
  EXPECT_THAT(count->prompt.messages[0].content, HasSubstr("<tools>"));
  EXPECT_EQ(count->prompt.answer_begin, "");
  EXPECT_EQ(ReadAnthropicCount(body + R"(,"tool_choice":{"type":"any"}})", ToolStyle())->prompt.answer_begin,
            "<tool_call>\n");
}

}  // namespace
}  // namespace baton::gateway
