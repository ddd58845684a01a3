// Anthropic's API with a backend that says what the test says. The real client and the real backend are in
// tests/e2e/test_anthropic.py.
#include "gateway/anthropic_service.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/anthropic_request.h"
#include "gateway/testing/service_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "router/error_details.h"
#include "router/refusal_reason.h"
#include "telemetry/testing/raw_client.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::GenerationAccepted;
using router::GenerationDelta;
using router::GenerationFailed;
using telemetry::HeaderOf;
using telemetry::RawClient;
using telemetry::StatusOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAnthropicRequest[] =
    R"({"max_tokens":9,"stop_sequences":["x","END"],"messages":[{"role":"user","content":"a"}])";

class AnthropicServiceTest : public ServiceTest {
 protected:
  AnthropicServiceTest() {
    service_.AddRoutes(server_);
    Start();
  }
  ~AnthropicServiceTest() override { Stop(); }

  std::string Whole() { return PostRequest(kMessagesPath, absl::StrCat(kAnthropicRequest, "}")); }
  std::string Stream() { return PostRequest(kMessagesPath, absl::StrCat(kAnthropicRequest, R"(,"stream":true})")); }

  AnthropicService service_{calls_};
};

TEST_F(AnthropicServiceTest, AWholeAnswerIsOneMessage) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(Whole()));
  const StubBackend::Asked asked = backend_.Await();
  EXPECT_EQ(asked.request.sampling.max_tokens, 9);
  ASSERT_TRUE(asked.sink->Write(GenerationAccepted{.prompt_tokens = 3}));
  for (const char* text : {"one ", "\"two\""}) ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = text}));
  ASSERT_TRUE(asked.sink->Write(Finished()));
  const std::string response = ReadWhole(client);
  EXPECT_EQ(StatusOf(response), 200);
  EXPECT_EQ(HeaderOf(response, "Request-Id"), asked.request.id.ToHex());
  EXPECT_EQ(BodyJson(response), json({{"id", absl::StrCat("msg_", asked.request.id.ToHex())},
                                      {"type", "message"},
                                      {"role", "assistant"},
                                      {"model", "tiny"},
                                      {"content", {{{"type", "text"}, {"text", "one \"two\""}}}},
                                      {"stop_reason", "end_turn"},
                                      {"stop_sequence", nullptr},
                                      {"usage",
                                       {{"input_tokens", 2},
                                        {"cache_creation_input_tokens", 0},
                                        {"cache_read_input_tokens", 1},
                                        {"output_tokens", 2}}}}));
}

TEST_F(AnthropicServiceTest, AnAnswerSaysWhatEndedIt) {
  const auto reason_of = [this](size_t index, FinishReason reason, int output_tokens, std::optional<int> stop_index) {
    RawClient client(server_.port());
    EXPECT_TRUE(client.Send(Whole()));
    router::GenerationFinished finished = Finished();
    finished.reason = reason;
    finished.usage.output_tokens = output_tokens;
    finished.stop_index = stop_index;
    EXPECT_TRUE(backend_.Await(index).sink->Write(finished));
    const json message = BodyJson(ReadWhole(client));
    return json({message.at("stop_reason"), message.at("stop_sequence")});
  };
  EXPECT_EQ(reason_of(0, FinishReason::kLength, 9, std::nullopt), json({"max_tokens", nullptr}));
  EXPECT_EQ(reason_of(1, FinishReason::kLength, 8, std::nullopt), json({"model_context_window_exceeded", nullptr}));
  EXPECT_EQ(reason_of(2, FinishReason::kStop, 9, std::nullopt), json({"end_turn", nullptr}));
  EXPECT_EQ(reason_of(3, FinishReason::kStop, 9, 1), json({"stop_sequence", "END"}));
}

TEST_F(AnthropicServiceTest, AStreamHasTheEventsOfAMessageInTheirOrder) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(Stream()));
  const StubBackend::Asked asked = backend_.Await();
  ASSERT_TRUE(asked.sink->Write(GenerationAccepted{.prompt_tokens = 3}));
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "Hel"}));
  const std::string begin = client.ReadUntil(R"("text":"Hel"}})");
  EXPECT_THAT(begin, HasSubstr("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_"));
  EXPECT_THAT(begin, HasSubstr(R"("usage":{"input_tokens":3,)"));
  EXPECT_LT(begin.find("event: message_start"), begin.find("event: content_block_start"));
  EXPECT_LT(begin.find("event: content_block_start"), begin.find("event: content_block_delta"));
  // Half a character has no text yet.
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "", .tokens = {OutputToken()}}));
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "lo"}));
  EXPECT_THAT(client.ReadUntil(R"("text":"lo"}})"), Not(HasSubstr("message_start")));
  ASSERT_TRUE(asked.sink->Write(Finished()));
  const std::string end = client.ReadUntil("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
  EXPECT_LT(end.find("event: content_block_stop"), end.find("event: message_delta"));
  EXPECT_THAT(end, HasSubstr(R"("delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":2,)"));
}

TEST_F(AnthropicServiceTest, AStreamThatFailsEndsWithAnErrorEvent) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(Stream()));
  const StubBackend::Asked asked = backend_.Await();
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "Hel"}));
  ASSERT_TRUE(asked.sink->Write(GenerationFailed{.status = absl::UnavailableError("a worker died")}));
  const std::string rest = client.ReadUntil("\r\n0\r\n\r\n");
  EXPECT_THAT(rest,
              HasSubstr("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"
                        "\"a worker died\"}}\n\n"));
  EXPECT_THAT(rest, Not(HasSubstr("message_stop")));
}

TEST_F(AnthropicServiceTest, AnErrorBeforeTheFirstOutputIsAStatusOfItsOwnAlsoForAStream) {
  struct Case {
    absl::Status status;
    int http_status;
    const char* type;
    const char* message;
  };
  const std::vector<Case> cases = {
      {router::WithRetryAfter(absl::ResourceExhaustedError("full"), 1'200), 429, "rate_limit_error", "full"},
      {absl::UnavailableError("no workers"), 529, "overloaded_error", "no workers"},
      {absl::DeadlineExceededError("late"), 504, "timeout_error", "late"},
      {absl::InternalError("a bug"), 500, "api_error", "a bug"},
      {absl::NotFoundError("another model"), 404, "not_found_error", "another model"},
      {router::FieldViolation("sampling.top_p", "must be at most 1"), 400, "invalid_request_error",
       "top_p: must be at most 1"},
      {router::FieldViolation("stop", "at most 16 strings"), 400, "invalid_request_error",
       "stop_sequences: at most 16 strings"},
      {router::WithReason(router::FieldViolation("messages", "9 tokens"), router::RefusalReason::kTooLong), 400,
       "invalid_request_error", "prompt is too long: messages: 9 tokens"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    RawClient client(server_.port());
    ASSERT_TRUE(client.Send(Stream()));
    ASSERT_TRUE(backend_.Await(i).sink->Write(GenerationFailed{.status = cases[i].status}));
    const std::string response = client.ReadResponse();
    EXPECT_EQ(StatusOf(response), cases[i].http_status);
    EXPECT_EQ(BodyJson(response),
              json({{"type", "error"}, {"error", {{"type", cases[i].type}, {"message", cases[i].message}}}}));
    EXPECT_EQ(HeaderOf(response, "Retry-After"), cases[i].http_status == 429 ? "2" : "");
  }
}

TEST_F(AnthropicServiceTest, AnErrorNamesTheFieldAsTheClientDoes) {
  const auto error_of = [this](const char* path, const std::string& members) {
    const std::string response =
        Post(path, absl::StrCat(R"({"max_tokens":1,"messages":[{"role":"user","content":"a"}],)", members, "}"));
    EXPECT_EQ(StatusOf(response), 400);
    return BodyJson(response).at("error").at("message").get<std::string>();
  };
  EXPECT_EQ(error_of(kMessagesPath, R"("stop_sequences":5)"), "stop_sequences: must be a string or a list of strings");
  EXPECT_EQ(error_of(kMessagesPath, R"("stop":["x"])"), "stop: this field is not known");
  EXPECT_EQ(error_of("/v1/messages/count_tokens", R"("stop_sequences":["x"])"), "max_tokens: this field is not known");
}

TEST_F(AnthropicServiceTest, ARequestThatCannotBeReadNeverReachesTheRouter) {
  const std::string response = Post(kMessagesPath, R"({"max_tokens":1,"mcp_servers":[{}],"messages":[]})");
  EXPECT_EQ(StatusOf(response), 400);
  EXPECT_EQ(BodyJson(response).at("error").at("message"), "mcp_servers: not supported yet");
  EXPECT_EQ(backend_.asked(), 0u);
}

TEST_F(AnthropicServiceTest, TokensAreCountedAsTheTemplateRendersThem) {
  const std::string path = absl::StrCat(kMessagesPath, "/count_tokens");
  const auto count = [&](const std::string& text) {
    const std::string response =
        Post(path, absl::StrCat(R"({"messages":[{"role":"user","content":")", text, R"("}]})"));
    EXPECT_EQ(StatusOf(response), 200) << response;
    return BodyJson(response).at("input_tokens").get<int>();
  };
  EXPECT_GT(count("a"), 0);
  EXPECT_EQ(count("aa"), count("a") + 1);
  EXPECT_EQ(StatusOf(Post(path, R"({"messages":5})")), 400);
}

}  // namespace
}  // namespace baton::gateway
