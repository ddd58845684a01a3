// Answers with calls in the forms of the three APIs.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "gateway/anthropic_response.h"
#include "gateway/openai_response.h"
#include "gateway/responses_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "router/testing/tiny_served_model.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr char kAnswer[] =
    "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";
const std::vector<std::string> kPieces = {"I look.\n<tool", "_call>\n{\"name\": \"f\", \"argu",
                                          "ments\": {\"a\": ", "1}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", ",
                                          "\"arguments\": {}}\n</tool_call>"};
constexpr char kCutCall[] = R"({"name": "f", "arguments": {"a": "x)";

ToolReading TwoTools(CallForm form = CallForm::kTags) { return {.form = form, .names = {"f", "g"}}; }

router::GenerationFinished EndedBy(FinishReason reason) {
  router::GenerationFinished finished;
  finished.reason = reason;
  finished.usage = {.prompt_tokens = 3, .output_tokens = 9};
  return finished;
}

// The data of all events of a stream.
std::vector<json> StreamOf(AnswerWriter& writer, const std::vector<std::string>& pieces, FinishReason reason) {
  std::string text;
  for (const std::string& piece : pieces) text += writer.Chunk({.text = piece});
  text += writer.End(EndedBy(reason));
  std::vector<json> events;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.substr(0, 6) == "data: " && line != "data: [DONE]") events.push_back(json::parse(line.substr(6)));
  }
  return events;
}

class ToolAnswersTest : public ::testing::Test {
 protected:
  OpenAiWriter ChatWriter(bool is_stream, CallForm form = CallForm::kTags, int32_t choices = 1) {
    return {{.endpoint = OpenAiEndpoint::kChat,
             .choices = choices,
             .id = "chatcmpl-mine",
             .own_id = "ab",
             .model = "tiny",
             .tools = TwoTools(form),
             .is_stream = is_stream},
            *model_.tokenizer};
  }
  static AnthropicWriter BlockWriter(bool is_stream, CallForm form = CallForm::kTags) {
    return AnthropicWriter(
        {.id = "msg_ab", .model = "tiny", .max_tokens = 9, .tools = TwoTools(form), .is_stream = is_stream});
  }
  ResponsesAnswer ItemAnswer(bool is_stream, CallForm form = CallForm::kTags) {
    ResponsesAnswer answer = {.id = "ab", .model = "tiny", .request = {.stream = is_stream}};
    answer.request.reading = TwoTools(form);
    return answer;
  }

  const router::ServedModel model_ = router::TestModel();
};

const json& FirstChoice(const json& answer) { return answer.at("choices").at(0); }

TEST_F(ToolAnswersTest, EachChoiceOfAChatHasCallsOfItsOwn) {
  const router::ChoiceEnd end = {.reason = FinishReason::kStop};
  const json answer = json::parse(ChatWriter(false, CallForm::kTags, 3)
                                      .Whole({{.text = kAnswer, .choice = 0, .end = end},
                                              {.text = "Hi", .choice = 1, .end = end},
                                              {.text = kAnswer, .choice = 2, .end = end}},
                                             EndedBy(FinishReason::kStop)));
  const json& choices = answer.at("choices");
  EXPECT_EQ(choices.at(0).at("message").at("tool_calls").at(1).at("id"), "call_ab_1");
  EXPECT_EQ(choices.at(1).at("finish_reason"), "stop");
  EXPECT_EQ(choices.at(2).at("finish_reason"), "tool_calls");
  EXPECT_EQ(choices.at(2).at("message").at("tool_calls").at(1).at("id"), "call_ab_2_1");
}

TEST_F(ToolAnswersTest, AChatHasItsCallsBesideItsText) {
  const json choice =
      FirstChoice(json::parse(ChatWriter(false).Whole({{.text = kAnswer}}, EndedBy(FinishReason::kStop))));
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  EXPECT_EQ(choice.at("message").at("content"), "I look.");
  EXPECT_EQ(choice.at("message").at("tool_calls"),
            json::parse(R"([{"id":"call_ab_0","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},)"
                        R"({"id":"call_ab_1","type":"function","function":{"name":"g","arguments":"{}"}}])"));
  const json plain =
      FirstChoice(json::parse(ChatWriter(false).Whole({{.text = "Hi\n"}}, EndedBy(FinishReason::kStop))));
  EXPECT_EQ(plain.at("finish_reason"), "stop");
  EXPECT_EQ(plain.at("message").at("content"), "Hi\n");
  EXPECT_FALSE(plain.at("message").contains("tool_calls"));
}

TEST_F(ToolAnswersTest, ACallThatIsCutOffHasWhatThereIsOfIt) {
  OpenAiWriter writer = ChatWriter(false, CallForm::kOneCall);
  const json choice = FirstChoice(json::parse(writer.Whole({{.text = kCutCall}}, EndedBy(FinishReason::kLength))));
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_EQ(choice.at("message").at("content"), nullptr);
  EXPECT_EQ(choice.at("message").at("tool_calls").at(0).at("function").at("arguments"), R"({"a": "x)");
  const json message =
      json::parse(BlockWriter(false, CallForm::kOneCall).Whole({{.text = kCutCall}}, EndedBy(FinishReason::kLength)));
  EXPECT_EQ(message.at("stop_reason"), "max_tokens");
  EXPECT_EQ(message.at("content").at(0).at("input"), json::object());
  ResponsesWriter items(ItemAnswer(false, CallForm::kOneCall), *model_.tokenizer);
  const json response = json::parse(items.Whole({{.text = kCutCall}}, EndedBy(FinishReason::kLength)));
  EXPECT_EQ(response.at("status"), "incomplete");
  EXPECT_EQ(response.at("output").at(0).at("status"), "incomplete");
  EXPECT_EQ(response.at("output").at(0).at("arguments"), R"({"a": "x)");
}

TEST_F(ToolAnswersTest, ThePiecesOfAStreamedChatMakeUpTheWhole) {
  OpenAiWriter writer = ChatWriter(true);
  const std::vector<json> events = StreamOf(writer, kPieces, FinishReason::kStop);
  std::string content;
  std::vector<json> calls;
  for (const json& event : events) {
    const json& delta = FirstChoice(event).at("delta");
    content += delta.value("content", "");
    for (const json& call : delta.value("tool_calls", json::array())) {
      const size_t index = call.at("index");
      if (index == calls.size()) {
        EXPECT_EQ(call.at("type"), "function");
        calls.push_back(call);
      } else {
        EXPECT_FALSE(call.contains("id"));
        std::string arguments = calls.at(index).at("function").at("arguments");
        calls[index]["function"]["arguments"] = arguments + call.at("function").at("arguments").get<std::string>();
      }
    }
  }
  EXPECT_EQ(content, "I look.");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].at("id"), "call_ab_0");
  EXPECT_EQ(calls[0].at("function"), json({{"name", "f"}, {"arguments", R"({"a": 1})"}}));
  EXPECT_EQ(calls[1].at("function"), json({{"name", "g"}, {"arguments", "{}"}}));
  EXPECT_EQ(FirstChoice(events.back()).at("finish_reason"), "tool_calls");
}

TEST_F(ToolAnswersTest, WhatWaitsAtTheEndOfAChatIsSent) {
  OpenAiWriter writer = ChatWriter(true);
  std::string content;
  for (const json& event : StreamOf(writer, {"Hi ", "<tool_", "call> {"}, FinishReason::kLength)) {
    content += FirstChoice(event).at("delta").value("content", "");
  }
  EXPECT_EQ(content, "Hi <tool_call> {");
}

TEST_F(ToolAnswersTest, AMessageOfAnthropicHasABlockForEachCall) {
  const json message = json::parse(BlockWriter(false).Whole({{.text = kAnswer}}, EndedBy(FinishReason::kStop)));
  EXPECT_EQ(message.at("stop_reason"), "tool_use");
  EXPECT_EQ(message.at("content"),
            json::parse(R"([{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_ab_0","name":"f",)"
                        R"("input":{"a":1}},{"type":"tool_use","id":"toolu_ab_1","name":"g","input":{}}])"));
  const json plain = json::parse(BlockWriter(false).Whole({{.text = ""}}, EndedBy(FinishReason::kStop)));
  EXPECT_EQ(plain.at("stop_reason"), "end_turn");
  EXPECT_EQ(plain.at("content"), json::parse(R"([{"type":"text","text":""}])"));
}

TEST_F(ToolAnswersTest, BlocksOfAStreamOpenAndCloseInTurn) {
  AnthropicWriter writer = BlockWriter(true);
  std::vector<std::string> seen;
  std::string arguments;
  for (const json& event : StreamOf(writer, kPieces, FinishReason::kStop)) {
    const std::string type = event.at("type");
    if (type == "content_block_start") seen.push_back("+" + event.at("content_block").at("type").get<std::string>());
    if (type == "content_block_stop") seen.push_back("-" + event.at("index").dump());
    if (type == "content_block_delta" && event.at("index") == 1) arguments += event.at("delta").at("partial_json");
    if (type == "message_delta") seen.push_back(event.at("delta").at("stop_reason"));
  }
  EXPECT_THAT(seen, ElementsAre("+text", "-0", "+tool_use", "-1", "+tool_use", "-2", "tool_use"));
  EXPECT_EQ(arguments, R"({"a": 1})");
  AnthropicWriter empty = BlockWriter(true);
  EXPECT_EQ(StreamOf(empty, {}, FinishReason::kStop).at(1).at("content_block").at("type"), "text");
}

TEST_F(ToolAnswersTest, AResponseHasAnItemForEachCall) {
  ResponsesWriter writer(ItemAnswer(false), *model_.tokenizer);
  const json output = json::parse(writer.Whole({{.text = kAnswer}}, EndedBy(FinishReason::kStop))).at("output");
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0].at("content").at(0).at("text"), "I look.");
  EXPECT_EQ(output[1],
            json::parse(R"({"id":"fc_ab_0","type":"function_call","status":"completed","call_id":"call_ab_0",)"
                        R"("name":"f","arguments":"{\"a\": 1}"})"));
  EXPECT_EQ(output[2].at("call_id"), "call_ab_1");
}

TEST_F(ToolAnswersTest, TheEventsOfAResponseNameTheirItems) {
  ResponsesWriter writer(ItemAnswer(true), *model_.tokenizer);
  std::vector<std::string> types;
  std::string arguments;
  int number = 0;
  json last;
  for (const json& event : StreamOf(writer, kPieces, FinishReason::kStop)) {
    EXPECT_EQ(event.at("sequence_number"), number++);
    const std::string type = event.at("type").get<std::string>().substr(sizeof("response.") - 1);
    if (type == "function_call_arguments.delta" && event.at("output_index") == 1) arguments += event.at("delta");
    if (type == "function_call_arguments.done" && event.at("output_index") == 1) {
      EXPECT_EQ(event.at("arguments"), arguments);
      EXPECT_EQ(event.at("item_id"), "fc_ab_0");
    }
    if (types.empty() || types.back() != type) types.push_back(type);
    last = event;
  }
  EXPECT_EQ(arguments, R"({"a": 1})");
  EXPECT_THAT(types, ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                                 "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
                                 "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
                                 "output_item.done", "output_item.added", "function_call_arguments.delta",
                                 "function_call_arguments.done", "output_item.done", "completed"));
  EXPECT_EQ(last.at("response").at("output").size(), 3u);
}

}  // namespace
}  // namespace baton::gateway
