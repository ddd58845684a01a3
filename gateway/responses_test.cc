// OpenAI's Responses API: reading a request and writing its answer. The real client and the real backend are in
// tests/e2e/test_responses.py.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "gateway/responses_request.h"
#include "gateway/responses_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "router/error_details.h"
#include "router/testing/tiny_served_model.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr int32_t kResponsesContext = 512;

absl::StatusOr<ResponsesRequest> ReadResponse(const std::string& members) {
  return ReadResponsesRequest(absl::StrCat("{", members, "}"), {.context_length = kResponsesContext});
}

// The field at fault.
std::string ResponsesFault(const std::string& members) {
  const auto read = ReadResponse(members);
  if (read.ok()) return "taken";
  const auto field = router::GetFieldError(read.status());
  return field.has_value() ? field->field : "";
}

std::vector<std::pair<std::string, std::string>> ChatOf(const ResponsesRequest& request) {
  std::vector<std::pair<std::string, std::string>> chat;
  for (const auto& message : std::get<router::ChatPrompt>(request.generation.prompt).messages) {
    chat.emplace_back(message.role, message.content);
  }
  return chat;
}

TEST(ResponsesRequestTest, ATextIsTheUsersMessageBehindTheInstructions) {
  const auto read = ReadResponse(R"("input":"Hi","instructions":"Be brief","stream":true,"seed":7,"priority":4)");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(ChatOf(*read), ElementsAre(std::pair("system", "Be brief"), std::pair("user", "Hi")));
  EXPECT_TRUE(read->stream);
  EXPECT_EQ(read->generation.sampling.seed, 7);
  EXPECT_EQ(read->generation.priority, -4);
  EXPECT_EQ(read->generation.sampling.max_tokens, kResponsesContext);
  EXPECT_EQ(read->instructions, R"("Be brief")");
}

TEST(ResponsesRequestTest, AnAnswerOfBeforeComesBackAsItWasGiven) {
  const auto read = ReadResponse(
      R"("input":[{"role":"developer","content":"a"},{"type":"message","role":"user","content":[)"
      R"({"type":"input_text","text":"b"},{"type":"input_text","text":"c"}]},{"id":"msg_1","type":"message",)"
      R"("status":"completed","role":"assistant","content":[{"type":"output_text","text":"d","annotations":[],)"
      R"("logprobs":[]}]}])");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(ChatOf(*read),
              ElementsAre(std::pair("system", "a"), std::pair("user", "bc"), std::pair("assistant", "d")));
}

TEST(ResponsesRequestTest, WhatIsWrongOrNotBuiltIsNamed) {
  EXPECT_EQ(ResponsesFault(""), "input");
  EXPECT_EQ(ResponsesFault(R"("input":[{"role":"robot","content":"x"}])"), "input[0].role");
  EXPECT_EQ(ResponsesFault(R"("input":[{"type":"reasoning"}])"), "input[0].type");
  EXPECT_EQ(ResponsesFault(R"("input":[{"role":"user","content":[{"type":"input_text","text":"a","x":1}]}])"),
            "input[0].content");
  EXPECT_EQ(ResponsesFault(R"("input":"x","tools":[{}])"), "tools[0].type");
  EXPECT_EQ(ResponsesFault(R"("input":"x","include":["a"])"), "include");
  EXPECT_EQ(ResponsesFault(R"("input":"x","priority":-1)"), "priority");
  EXPECT_EQ(ResponsesFault(R"("input":"x","include":["message.output_text.logprobs","a"])"), "include");
  EXPECT_EQ(ResponsesFault(R"("input":"x","top_logprobs":2)"), "top_logprobs");
  EXPECT_EQ(ResponsesFault(R"("input":"x","text":{"format":{"type":"json_schema"}})"), "text.format.schema");
  EXPECT_EQ(ResponsesFault(R"("input":"x","tool_choice":"auto","truncation":"disabled","reasoning":{})"), "taken");
}

TEST(ResponsesRequestTest, LogProbabilitiesAndASchemaReachTheRouter) {
  const auto read = ReadResponse(R"("input":"x","include":["message.output_text.logprobs"],"top_logprobs":2,)"
                                 R"("text":{"format":{"type":"json_schema","name":"n","schema":{"z":1,"a":2}}})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->generation.sampling.logprobs, 2);
  EXPECT_EQ(read->generation.sampling.grammar,
            (OutputGrammar{.kind = GrammarKind::kJsonSchema, .text = R"({"z":1,"a":2})"}));
  EXPECT_STREQ(read->generation.sampling.grammar_field, "text.format");
}

struct StreamEvent {
  std::string name;
  json data;
};

std::vector<StreamEvent> EventsOf(const std::string& text) {
  std::vector<StreamEvent> events;
  for (absl::string_view block : absl::StrSplit(text, "\n\n", absl::SkipEmpty())) {
    const std::vector<std::string> lines = absl::StrSplit(block, '\n');
    BATON_CHECK(lines.size() == 2) << block;
    events.push_back({lines[0].substr(7), json::parse(lines[1].substr(6))});
  }
  return events;
}

class ResponsesWriterTest : public ::testing::Test {
 protected:
  static router::GenerationFinished Finished(FinishReason reason) {
    router::GenerationFinished finished;
    finished.reason = reason;
    finished.usage = {.prompt_tokens = 3, .output_tokens = 2, .cached_prompt_tokens = 1};
    return finished;
  }
  std::vector<std::string> NamesOf(const std::string& text) {
    std::vector<std::string> names;
    for (const StreamEvent& event : EventsOf(text)) {
      names.push_back(event.name);
      EXPECT_EQ(event.data.at("type"), event.name);
      EXPECT_EQ(event.data.at("sequence_number"), next_number_++);
      last_ = event.data;
    }
    return names;
  }

  const router::ServedModel model_ = router::TestModel();
  ResponsesWriter writer_{{.id = "ab12", .model = "tiny", .created_unix_s = 5, .request = {.metadata = R"({"k":"v"})"}},
                          *model_.tokenizer};
  int next_number_ = 0;
  json last_;
};

TEST_F(ResponsesWriterTest, AWholeAnswerIsOneMessageOfOneText) {
  const json answer = json::parse(writer_.Whole({{.text = "a \"b\""}}, Finished(FinishReason::kStop)));
  EXPECT_EQ(answer.at("id"), "resp_ab12");
  EXPECT_EQ(answer.at("status"), "completed");
  EXPECT_EQ(answer.at("metadata"), json({{"k", "v"}}));
  EXPECT_EQ(answer.at("incomplete_details"), nullptr);
  EXPECT_EQ(answer.at("output"), json::array({{{"id", "msg_ab12"},
                                               {"type", "message"},
                                               {"status", "completed"},
                                               {"role", "assistant"},
                                               {"content", json::array({{{"type", "output_text"},
                                                                         {"annotations", json::array()},
                                                                         {"logprobs", json::array()},
                                                                         {"text", "a \"b\""}}})}}}));
  EXPECT_EQ(answer.at("usage").at("total_tokens"), 5);
  EXPECT_EQ(answer.at("usage").at("input_tokens_details").at("cached_tokens"), 1);
}

TEST_F(ResponsesWriterTest, AStreamHasTheEventsInTheirOrderAndRepeatsItsTextInTheEnd) {
  EXPECT_THAT(NamesOf(writer_.Chunk({.text = "Hel"})),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta"));
  EXPECT_EQ(last_.at("delta"), "Hel");
  EXPECT_EQ(writer_.Chunk({.text = "", .tokens = {OutputToken()}}), "") << "half a character";
  EXPECT_THAT(NamesOf(writer_.Chunk({.text = "lo"})), ElementsAre("response.output_text.delta"));
  EXPECT_THAT(NamesOf(writer_.End(Finished(FinishReason::kStop))),
              ElementsAre("response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response.completed"));
  EXPECT_EQ(last_.at("response").at("output").at(0).at("content").at(0).at("text"), "Hello");
}

TEST_F(ResponsesWriterTest, AnAnswerThatIsCutIsIncomplete) {
  writer_.Chunk({.text = "Hel"});
  const std::vector<StreamEvent> events = EventsOf(writer_.End(Finished(FinishReason::kLength)));
  EXPECT_EQ(events.back().name, "response.incomplete");
  EXPECT_EQ(events.back().data.at("response").at("status"), "incomplete");
  EXPECT_EQ(events.back().data.at("response").at("incomplete_details").at("reason"), "max_output_tokens");
  EXPECT_EQ(events[2].data.at("item").at("status"), "incomplete");
}

TEST_F(ResponsesWriterTest, AStreamThatFailsSaysWhy) {
  NamesOf(writer_.Chunk({.text = "Hel"}));
  EXPECT_THAT(NamesOf(writer_.End(absl::UnavailableError("a worker died"))), ElementsAre("response.failed"));
  EXPECT_EQ(last_.at("response").at("error"), json({{"code", "server_error"}, {"message", "a worker died"}}));
  EXPECT_EQ(last_.at("response").at("status"), "failed");
}

TEST_F(ResponsesWriterTest, LogProbabilitiesComeWithTheirTextAndAllOfThemInTheEnd) {
  const OutputToken token = {.token = 0, .logprob = -0.5f};
  NamesOf(writer_.Chunk({.text = "a", .tokens = {token}, .has_logprobs = true}));
  EXPECT_EQ(last_.at("logprobs").size(), 1);
  NamesOf(writer_.Chunk({.text = "", .tokens = {token}, .has_logprobs = true}));
  EXPECT_EQ(last_.at("delta"), "");
  NamesOf(writer_.End(Finished(FinishReason::kStop)));
  EXPECT_EQ(last_.at("response").at("output").at(0).at("content").at(0).at("logprobs").size(), 2);
}

}  // namespace
}  // namespace baton::gateway
