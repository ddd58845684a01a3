// What OpenAI's endpoints say of a prompt, with a backend that says what the test says.
#include "gateway/openai_prompt.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/openai_service.h"
#include "gateway/testing/service_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "telemetry/testing/raw_client.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::GenerationDelta;
using router::GenerationPrompt;
using telemetry::RawClient;
using telemetry::StatusOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCompletions[] = "/v1/completions";

int32_t IdOf(char letter) { return modelfile::kTinyFirstByteToken + letter; }

// The prompt "hey": e has a likelier one, y is the likeliest.
std::shared_ptr<const GenerationPrompt> Hey(bool with_text) {
  GenerationPrompt prompt;
  if (with_text) prompt.text = "hey";
  prompt.tokens = {IdOf('h'), IdOf('e'), IdOf('y')};
  prompt.logprobs = std::make_shared<const std::vector<PromptLogprob>>(
      std::vector<PromptLogprob>{{.logprob = -2.5f, .rank = 7, .top = {{IdOf('a'), -0.25f}, {IdOf('b'), -1.5f}}},
                                 {.logprob = -0.5f, .rank = 1, .top = {{IdOf('y'), -0.5f}, {IdOf('z'), -3}}}});
  return std::make_shared<const GenerationPrompt>(std::move(prompt));
}

GenerationDelta First(std::shared_ptr<const GenerationPrompt> prompt) {
  OutputToken token = {.index = 0, .token = IdOf('!'), .logprob = -1, .top = {{IdOf('!'), -1}}};
  return {.text = "!", .tokens = {std::move(token)}, .has_logprobs = true, .prompt = std::move(prompt)};
}

class OpenAiPromptTest : public ServiceTest {
 protected:
  OpenAiPromptTest() {
    service_.AddRoutes(server_);
    Start();
  }
  ~OpenAiPromptTest() override { Stop(); }

  // The whole answer to the request, to which the backend says this.
  json Ask(const char* path, const std::string& body, GenerationDelta delta) {
    RawClient client(server_.port());
    EXPECT_TRUE(client.Send(PostRequest(path, body)));
    asked_ = backend_.Await(count_++).request;
    const auto sink = backend_.Await(count_ - 1).sink;
    EXPECT_TRUE(sink->Write(std::move(delta)));
    EXPECT_TRUE(sink->Write(Finished()));
    return BodyJson(ReadWhole(client));
  }
  std::string FaultOf(const char* path, const std::string& body) {
    const json error = BodyJson(Post(path, body)).at("error");
    return error.at("param").is_null() ? "" : error.at("param");
  }

  OpenAiService service_{calls_, [] { return true; }};
  router::GenerationRequest asked_;
  size_t count_ = 0;
};

TEST_F(OpenAiPromptTest, AnEchoComesBeforeTheOutputWithItsLogProbabilities) {
  const json answer =
      Ask(kCompletions, R"({"prompt":"hey","echo":true,"logprobs":1,"max_tokens":1})", First(Hey(true)));
  EXPECT_TRUE(asked_.echo);
  EXPECT_EQ(asked_.sampling.prompt_logprobs, 1);
  EXPECT_EQ(asked_.sampling.logprobs, 1);
  const json& choice = answer.at("choices").at(0);
  EXPECT_EQ(choice.at("text"), "hey!");
  const json expected = {{"tokens", {"h", "e", "y", "!"}},
                         {"token_logprobs", {nullptr, -2.5, -0.5, -1}},
                         {"top_logprobs", {nullptr, {{"a", -0.25}}, {{"y", -0.5}}, {{"!", -1}}}},
                         {"text_offset", {0, 1, 2, 3}}};
  EXPECT_EQ(choice.at("logprobs"), expected);
  EXPECT_FALSE(choice.contains("prompt_logprobs"));
}

TEST_F(OpenAiPromptTest, AnEchoWithoutLogProbabilitiesIsText) {
  auto prompt = std::make_shared<GenerationPrompt>(*Hey(true));
  prompt->logprobs = nullptr;
  GenerationDelta delta = First(prompt);
  delta.has_logprobs = false;
  const json answer = Ask(kCompletions, R"({"prompt":"hey","echo":true})", std::move(delta));
  EXPECT_FALSE(asked_.sampling.prompt_logprobs.has_value());
  EXPECT_EQ(answer.at("choices").at(0).at("text"), "hey!");
  EXPECT_TRUE(answer.at("choices").at(0).at("logprobs").is_null());
}

TEST_F(OpenAiPromptTest, TheIdsOfTheOutputAndOfThePromptAreApart) {
  const json answer =
      Ask(kCompletions, R"({"prompt":"hey","echo":true,"logprobs":0,"return_token_ids":true})", First(Hey(true)));
  EXPECT_TRUE(asked_.want_prompt_tokens);
  EXPECT_EQ(answer.at("choices").at(0).at("token_ids"), json({IdOf('!')}));
  EXPECT_EQ(answer.at("choices").at(0).at("prompt_token_ids"), json({IdOf('h'), IdOf('e'), IdOf('y')}));
  const json plain = Ask(kCompletions, R"({"prompt":"hey","echo":true,"logprobs":0})", First(Hey(true)));
  EXPECT_FALSE(asked_.want_prompt_tokens);
  EXPECT_FALSE(plain.at("choices").at(0).contains("prompt_token_ids"));
}

TEST_F(OpenAiPromptTest, TheIdsOfAChatsPromptAreBesideItsChoicesAndInTheFirstChunk) {
  const char* const path = "/v1/chat/completions";
  const std::string begin = R"({"messages":[{"role":"user","content":"hey"}],"return_token_ids":true)";
  const json answer = Ask(path, begin + "}", First(Hey(false)));
  EXPECT_EQ(answer.at("prompt_token_ids"), json({IdOf('h'), IdOf('e'), IdOf('y')}));
  EXPECT_FALSE(answer.at("choices").at(0).contains("prompt_token_ids"));
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(PostRequest(path, begin + R"(,"stream":true})")));
  const auto sink = backend_.Await(count_++).sink;
  ASSERT_TRUE(sink->Write(First(Hey(false))));
  EXPECT_THAT(client.ReadUntil(R"("content":"!")"),
              HasSubstr(absl::StrCat(R"("finish_reason":null}],"prompt_token_ids":[)", IdOf('h'), ",")));
  ASSERT_TRUE(sink->Write(Finished()));
  EXPECT_THAT(client.ReadUntil("data: [DONE]\n\n"), Not(HasSubstr("prompt_token_ids")));
}

TEST_F(OpenAiPromptTest, AStreamBeginsWithTheEcho) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(
      PostRequest(kCompletions, R"({"prompt":"hey","echo":true,"logprobs":0,"stream":true,"max_tokens":2})")));
  const auto sink = backend_.Await().sink;
  ASSERT_TRUE(sink->Write(First(Hey(true))));
  EXPECT_THAT(client.ReadUntil("\n\n"), HasSubstr(R"("text":"hey!","logprobs":{"tokens":["h","e","y","!"])"));
  GenerationDelta next = First(nullptr);
  next.tokens[0].index = 1;
  ASSERT_TRUE(sink->Write(std::move(next)));
  EXPECT_THAT(client.ReadUntil("\n\n"), HasSubstr(R"("text":"!","logprobs":{"tokens":["!"])"));
  ASSERT_TRUE(sink->Write(Finished()));
  client.ReadUntil("data: [DONE]\n\n");
}

TEST_F(OpenAiPromptTest, AnEchoMayStandAlone) {
  const json answer =
      Ask(kCompletions, R"({"prompt":"hey","echo":true,"logprobs":1,"max_tokens":0})", First(Hey(true)));
  EXPECT_EQ(asked_.sampling.max_tokens, 1);
  const json& choice = answer.at("choices").at(0);
  EXPECT_EQ(choice.at("text"), "hey");
  EXPECT_EQ(choice.at("logprobs").at("tokens").size(), 3u);
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), 0);
}

TEST_F(OpenAiPromptTest, VllmsListHasAnObjectForEachTokenButTheFirst) {
  const json expected = {nullptr,
                         {{absl::StrCat(IdOf('e')), {{"logprob", -2.5}, {"rank", 7}, {"decoded_token", "e"}}},
                          {absl::StrCat(IdOf('a')), {{"logprob", -0.25}, {"rank", 1}, {"decoded_token", "a"}}}},
                         {{absl::StrCat(IdOf('y')), {{"logprob", -0.5}, {"rank", 1}, {"decoded_token", "y"}}}}};
  const json text = Ask(kCompletions, R"({"prompt":"hey","prompt_logprobs":1})", First(Hey(false)));
  EXPECT_EQ(asked_.sampling.prompt_logprobs, 1);
  EXPECT_FALSE(asked_.echo);
  EXPECT_EQ(text.at("choices").at(0).at("prompt_logprobs"), expected);
  EXPECT_EQ(text.at("choices").at(0).at("text"), "!");
  const json chat = Ask("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hey"}],"prompt_logprobs":1})",
                        First(Hey(false)));
  EXPECT_EQ(chat.at("prompt_logprobs"), expected);
  EXPECT_FALSE(chat.at("choices").at(0).contains("prompt_logprobs"));
}

TEST_F(OpenAiPromptTest, EachListHasAsManyLikelyTokensAsItsFieldSays) {
  const json answer =
      Ask(kCompletions, R"({"prompt":"hey","echo":true,"logprobs":0,"prompt_logprobs":2})", First(Hey(true)));
  EXPECT_EQ(asked_.sampling.prompt_logprobs, 2);
  const json& choice = answer.at("choices").at(0);
  EXPECT_EQ(choice.at("logprobs").at("top_logprobs").at(1), json::object());
  EXPECT_EQ(choice.at("prompt_logprobs").at(1).size(), 3u);
}

TEST_F(OpenAiPromptTest, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_EQ(FaultOf(kCompletions, R"({"prompt":"hey","prompt_logprobs":1,"stream":true})"), "prompt_logprobs");
  EXPECT_EQ(FaultOf(kCompletions, R"({"prompt":"hey","prompt_logprobs":true})"), "prompt_logprobs");
  EXPECT_EQ(FaultOf(kCompletions, R"({"prompt":"hey","echo":1})"), "echo");
  EXPECT_EQ(FaultOf("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hey"}],"echo":true})"), "echo");
}

}  // namespace
}  // namespace baton::gateway
