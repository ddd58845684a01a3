// OpenAI's embeddings, with a backend that says what the test says.
#include "gateway/openai_embeddings.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
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
using telemetry::RawClient;

constexpr char kPath[] = "/v1/embeddings";

GenerationDelta Output(int32_t choice, std::vector<float> embedding) {
  OutputToken token = {.index = 0, .token = 5, .finish = FinishReason::kLength, .embedding = std::move(embedding)};
  return {.text = "!", .tokens = {std::move(token)}, .choice = choice};
}

class OpenAiEmbeddingsTest : public ServiceTest {
 protected:
  OpenAiEmbeddingsTest() {
    service_.AddRoutes(server_);
    Start();
  }
  ~OpenAiEmbeddingsTest() override { Stop(); }

  json Ask(const std::string& body, std::vector<GenerationDelta> outputs) {
    RawClient client(server_.port());
    EXPECT_TRUE(client.Send(PostRequest(kPath, body)));
    const auto asked = backend_.Await(count_++);
    asked_ = asked.request;
    router::GenerationFinished finished = Finished();
    if (outputs.size() > 1) finished.choices.resize(outputs.size());
    for (GenerationDelta& output : outputs) EXPECT_TRUE(asked.sink->Write(std::move(output)));
    EXPECT_TRUE(asked.sink->Write(std::move(finished)));
    return BodyJson(ReadWhole(client));
  }
  std::string FaultOf(const std::string& body) { return BodyJson(Post(kPath, body)).at("error").at("param"); }

  OpenAiService service_{calls_, [] { return true; }};
  router::GenerationRequest asked_;
  size_t count_ = 0;
};

TEST_F(OpenAiEmbeddingsTest, AnEmbeddingHasTheLengthOne) {
  const json answer = Ask(R"({"input":"hey","model":"tiny","priority":2})", {Output(0, {3, -4})});
  EXPECT_EQ(std::get<router::TextPrompt>(asked_.prompt).text, "hey");
  EXPECT_EQ(asked_.sampling.max_tokens, 1);
  EXPECT_EQ(asked_.sampling.pooling, Pooling::kLast);
  EXPECT_EQ(asked_.priority, -2);
  EXPECT_EQ(answer.at("object"), "list");
  EXPECT_EQ(answer.at("data").at(0).at("embedding").at(0).get<float>(), 0.6f);
  EXPECT_EQ(answer.at("data").at(0).at("embedding").at(1).get<float>(), -0.8f);
  EXPECT_EQ(answer.at("usage").at("total_tokens"), answer.at("usage").at("prompt_tokens"));
}

TEST_F(OpenAiEmbeddingsTest, EachInputHasItsOwnInTheirOrder) {
  const json answer = Ask(R"({"input":["a",[1,2]],"pooling":"mean"})", {Output(1, {0, 2}), Output(0, {1, 0})});
  EXPECT_EQ(asked_.more_prompts.size(), 1u);
  EXPECT_EQ(asked_.sampling.pooling, Pooling::kMean);
  ASSERT_EQ(answer.at("data").size(), 2u);
  EXPECT_EQ(answer.at("data").at(0).at("embedding"), json({1, 0}));
  EXPECT_EQ(answer.at("data").at(1).at("embedding"), json({0, 1}));
  EXPECT_EQ(answer.at("data").at(1).at("index"), 1);
}

TEST_F(OpenAiEmbeddingsTest, Base64HasTheBytesOfTheFloats) {
  const json answer = Ask(R"({"input":"hey","encoding_format":"base64"})", {Output(0, {2, 0})});
  // 1.0f and 0.0f, little-endian.
  EXPECT_EQ(answer.at("data").at(0).at("embedding"), "AACAPwAAAAA=");
}

TEST_F(OpenAiEmbeddingsTest, WhatHasNoLengthIsZeros) {
  const json answer = Ask(R"({"input":"hey"})", {Output(0, {0, 0})});
  EXPECT_EQ(answer.at("data").at(0).at("embedding"), json({0, 0}));
}

TEST_F(OpenAiEmbeddingsTest, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_EQ(FaultOf("{}"), "input");
  EXPECT_EQ(FaultOf(R"({"input":{}})"), "input");
  EXPECT_EQ(FaultOf(R"({"input":[["a"]]})"), "input");
  EXPECT_EQ(FaultOf(R"({"input":"a","pooling":"cls"})"), "pooling");
  EXPECT_EQ(FaultOf(R"({"input":"a","encoding_format":"int8"})"), "encoding_format");
  EXPECT_EQ(FaultOf(R"({"input":"a","dimensions":1})"), "dimensions");
  EXPECT_EQ(FaultOf(R"({"input":"a","normalize":false})"), "normalize");
  EXPECT_EQ(FaultOf(R"({"input":"a","temperature":1})"), "temperature");
  EXPECT_EQ(FaultOf(R"({"input":"a","priority":-1})"), "priority");
}

}  // namespace
}  // namespace baton::gateway
