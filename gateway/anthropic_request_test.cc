#include "gateway/anthropic_request.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using ::testing::ElementsAre;

constexpr char kAnthropicMessages[] = R"("max_tokens":5,"messages":[{"role":"user","content":"x"}])";

absl::StatusOr<AnthropicRequest> Read(const std::string& members) {
  return ReadAnthropicRequest(absl::StrCat("{", members, "}"));
}

const std::vector<tokenizer::ChatMessage>& MessagesOf(const router::Prompt& prompt) {
  return std::get<router::ChatPrompt>(prompt).messages;
}

// The field that the refusal names; "" where it names none, and "taken" where there is no refusal.
template <typename T>
std::string FieldAtFault(const absl::StatusOr<T>& read) {
  if (read.ok()) return "taken";
  const auto field = router::GetFieldError(read.status());
  return field.has_value() ? field->field : "";
}

TEST(AnthropicRequestTest, AllThatARequestAsksForReachesTheRouter) {
  const auto read = Read(R"("model":"m","max_tokens":7,"stop_sequences":["a","b"],"stream":true,"temperature":0.5,)"
                         R"("top_k":3,"top_p":0.9,"seed":11,"metadata":{"user_id":"u"},"service_tier":"auto",)"
                         R"("thinking":{"type":"disabled"},"tools":[],"messages":[{"role":"user","content":"x"}])");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->generation.model, "m");
  EXPECT_TRUE(read->stream);
  EXPECT_THAT(read->generation.stop, ElementsAre("a", "b"));
  EXPECT_EQ(read->generation.sampling.max_tokens, 7);
  EXPECT_EQ(read->generation.sampling.temperature, 0.5F);
  EXPECT_EQ(read->generation.sampling.top_k, 3);
  EXPECT_EQ(read->generation.sampling.top_p, 0.9F);
  EXPECT_EQ(read->generation.sampling.seed, 11u);
}

TEST(AnthropicRequestTest, TheSystemPromptIsTheFirstMessage) {
  const auto read =
      Read(R"("max_tokens":1,"system":[{"type":"text","text":"Be ","cache_control":{"type":"ephemeral"}},)"
           R"({"type":"text","text":"brief"}],"messages":[{"role":"user","content":"x"},)"
           R"({"role":"assistant","content":[{"type":"text","text":"y"}]},{"role":"user","content":"z"}])");
  ASSERT_TRUE(read.ok()) << read.status();
  const auto& messages = MessagesOf(read->generation.prompt);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "Be brief");
  EXPECT_EQ(messages[2].role, "assistant");
  EXPECT_EQ(messages[2].content, "y");
}

TEST(AnthropicRequestTest, MoreTokensThanAnyContextHasAreAsManyAsThereCanBe) {
  const auto read = Read(R"("max_tokens":2000000000,"messages":[{"role":"user","content":"x"}])");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->generation.sampling.max_tokens, kMaxOutputTokens);
}

TEST(AnthropicRequestTest, WhatIsWrongIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("messages":[{"role":"user","content":"x"}])", "max_tokens"},
      {R"("max_tokens":"many")", "max_tokens"},
      {R"("max_tokens":5)", "messages"},
      {R"("max_tokens":5,"messages":[])", "messages"},
      {R"("max_tokens":5,"messages":[5])", "messages[0]"},
      {R"("max_tokens":5,"messages":[{"role":"system","content":"x"}])", "messages[0].role"},
      {R"("max_tokens":5,"messages":[{"content":"x"}])", "messages[0].role"},
      {R"("max_tokens":5,"messages":[{"role":"user"}])", "messages[0].content"},
      {R"("max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{}}]}])",
       "messages[0].content"},
      {R"("max_tokens":5,"messages":[{"role":"user","content":"x","name":"y"}])", "messages[0].name"},
      {R"("max_tokens":5,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}])",
       "messages[1].role"},
      {absl::StrCat(kAnthropicMessages, R"(,"system":5)"), "system"},
      {absl::StrCat(kAnthropicMessages, R"(,"temperature":"hot")"), "temperature"},
      {absl::StrCat(kAnthropicMessages, R"(,"stop_sequences":[1])"), "stop_sequences"},
      {absl::StrCat(kAnthropicMessages, R"(,"stream":1)"), "stream"},
      {absl::StrCat(kAnthropicMessages, R"(,"tools":[{}])"), "tools[0].input_schema"},
      {absl::StrCat(kAnthropicMessages, R"(,"thinking":{"type":"enabled","budget_tokens":1024})"), "thinking"},
      {absl::StrCat(kAnthropicMessages, R"(,"top_n":1)"), "top_n"},
      {kAnthropicMessages, "taken"}};
  for (const auto& [members, field] : cases) {
    SCOPED_TRACE(members);
    EXPECT_EQ(FieldAtFault(Read(members)), field);
  }
}

TEST(AnthropicRequestTest, AsManyMessagesAsAChatMayHave) {
  const auto with = [](int count) {
    std::string messages;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&messages, i > 0 ? "," : "", R"({"role":"user","content":"x"})");
    }
    return absl::StrCat(R"("max_tokens":1,"messages":[)", messages, "]");
  };
  EXPECT_EQ(FieldAtFault(Read(with(kMaxChatMessages))), "taken");
  EXPECT_EQ(FieldAtFault(Read(with(kMaxChatMessages + 1))), "messages");
}

TEST(AnthropicRequestTest, ACountHasAPromptAndNothingOfAnAnswer) {
  const auto count = ReadAnthropicCount(R"({"model":"m","system":"s","messages":[{"role":"user","content":"x"}]})");
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(count->model, "m");
  EXPECT_EQ(count->prompt.messages.size(), 2u);
  EXPECT_EQ(FieldAtFault(ReadAnthropicCount(absl::StrCat("{", kAnthropicMessages, "}"))), "max_tokens");
}

}  // namespace
}  // namespace baton::gateway
