// OpenAI's API with a backend that says what the test says. The real clients and the real backend are in
// tests/e2e/test_openai.py.
#include "gateway/openai_service.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/testing/test_authority.h"
#include "gateway/admission.h"
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
using router::GenerationDelta;
using router::GenerationFailed;
using router::GenerationFinished;
using telemetry::BodyOf;
using telemetry::GetRequest;
using telemetry::HeaderOf;
using telemetry::RawClient;
using telemetry::StatusOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kChat[] = R"({"messages":[{"role":"user","content":"a"}])";
constexpr char kCompletion[] = R"({"prompt":"a")";

class OpenAiServiceTest : public ServiceTest {
 protected:
  OpenAiServiceTest() {
    service_.AddRoutes(server_);
    Start();
  }
  ~OpenAiServiceTest() override { Stop(); }

  std::atomic<bool> is_serving_ = true;
  OpenAiService service_{calls_, [this] { return is_serving_.load(); }};
};

// The keys of alice and bob, whose file has their hashes.
class OpenAiKeysTest : public OpenAiServiceTest {
 protected:
  OpenAiKeysTest() {
    Write({"alice", "bob"});
    auto keys = router::ApiKeys::Create(path_);
    EXPECT_TRUE(keys.ok()) << keys.status();
    keys_ = *std::move(keys);
    keyed_calls_.emplace(GenerationCallsParts{.model = model_,
                                              .clock = MonotonicClock(),
                                              .random = SystemRandom(),
                                              .backend = backend_,
                                              .reader = reader_,
                                              .work = work_,
                                              .observers = observers_,
                                              .api_keys = keys_.get()});
    keyed_service_.emplace(*keyed_calls_, [] { return true; });
    rpc::ServerGuard guard = {.rules = {.port = rpc::Port::kHttp, .requires_key = true}};
    guard.knows_key = [this](std::string_view key) { return keys_->TenantOf(key).has_value(); };
    keyed_server_.emplace(HttpServerOptions{.admit = MakeAdmission(std::move(guard), nullptr)});
    keyed_service_->AddRoutes(*keyed_server_);
    EXPECT_TRUE(keyed_server_->Start().ok());
  }
  ~OpenAiKeysTest() override {
    keyed_server_->Stop();
    keyed_calls_->AwaitNone();
    std::filesystem::remove(path_);
  }

  // The key of a tenant is its name with a prefix.
  void Write(const std::vector<std::string>& tenants) const {
    std::string text;
    for (const std::string& tenant : tenants) {
      absl::StrAppend(&text, tenant, ": ", router::ApiKeyHashText("key-" + tenant), "\n");
    }
    rpc::WriteFile(path_, text);
  }
  static std::string Keyed(const std::string& request, const std::string& key) {
    std::string with_key = request;
    return with_key.insert(request.find("\r\n") + 2, absl::StrCat("Authorization: Bearer ", key, "\r\n"));
  }
  std::string Ask(const std::string& request) {
    RawClient client(keyed_server_->port());
    EXPECT_TRUE(client.Send(request));
    return client.ReadResponse();
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / absl::StrCat("baton_keys_", SystemRandom().NextId().ToHex())).string();
  std::unique_ptr<router::ApiKeys> keys_;
  std::optional<GenerationCalls> keyed_calls_;
  std::optional<OpenAiService> keyed_service_;
  std::optional<HttpServer> keyed_server_;
};

TEST_F(OpenAiKeysTest, TheTenantIsTheKeys) {
  size_t index = 0;
  for (const char* tenant : {"alice", "bob"}) {
    for (const auto& [path, begin] :
         {std::pair("/v1/completions", kCompletion), std::pair("/v1/chat/completions", kChat)}) {
      RawClient client(keyed_server_->port());
      client.Send(Keyed(PostRequest(path, absl::StrCat(begin, "}")), absl::StrCat("key-", tenant)));
      const StubBackend::Asked asked = backend_.Await(index++);
      EXPECT_EQ(asked.request.authenticated_tenant, tenant);
      EXPECT_EQ(asked.request.tenant, "");
      EXPECT_TRUE(asked.sink->Write(Finished()));
      EXPECT_EQ(StatusOf(ReadWhole(client)), 200);
    }
  }
}

TEST_F(OpenAiKeysTest, WhoHasNoKeyGetsNothing) {
  for (const std::string& request :
       {PostRequest("/v1/completions", absl::StrCat(kCompletion, "}")),
        PostRequest("/v1/chat/completions", absl::StrCat(kChat, "}")), GetRequest("/v1/models"),
        PostRequest("/tokenize", R"({"prompt":"a"})"), PostRequest("/detokenize", R"({"tokens":[1]})")}) {
    for (const std::string& asked : {request, Keyed(request, "key-carol")}) {
      const std::string response = Ask(asked);
      EXPECT_EQ(StatusOf(response), 401) << asked;
      EXPECT_EQ(HeaderOf(response, "WWW-Authenticate"), "Bearer");
      EXPECT_EQ(BodyJson(response)["error"]["code"], "invalid_api_key");
    }
    // The others wait for the backend.
    if (request.find("/v1/c") != std::string::npos) continue;
    EXPECT_EQ(StatusOf(Ask(Keyed(request, "key-alice"))), 200) << request;
  }
  EXPECT_EQ(backend_.asked(), 0);
  for (const char* path : {"/health", "/ping", "/version"}) EXPECT_EQ(StatusOf(Ask(GetRequest(path))), 200) << path;
}

// The server would otherwise hold bodies of clients that it knows nothing of.
TEST_F(OpenAiKeysTest, ABodyIsNotReadWithoutAKey) {
  RawClient client(keyed_server_->port());
  client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
  const std::string response = client.ReadResponse();
  EXPECT_EQ(StatusOf(response), 401);
  EXPECT_EQ(HeaderOf(response, "Connection"), "close");
}

TEST_F(OpenAiKeysTest, AKeyThatGoesWhileItsRequestComesIsRefused) {
  const std::string request = Keyed(PostRequest("/v1/completions", absl::StrCat(kCompletion, "}")), "key-bob");
  RawClient client(keyed_server_->port());
  ASSERT_TRUE(client.Send(request.substr(0, request.size() - 1)));
  Write({"alice"});
  keys_->Reload();
  ASSERT_TRUE(client.Send(request.substr(request.size() - 1)));
  EXPECT_EQ(StatusOf(client.ReadResponse()), 401);
  EXPECT_EQ(backend_.asked(), 0);
}

TEST_F(OpenAiServiceTest, WithoutKeysTheHeaderOfOneIsIgnored) {
  RawClient client(server_.port());
  std::string request = PostRequest("/v1/completions", absl::StrCat(kCompletion, "}"));
  request.insert(request.find("\r\n") + 2, "Authorization: Bearer none\r\n");
  ASSERT_TRUE(client.Send(request));
  const StubBackend::Asked asked = backend_.Await();
  EXPECT_EQ(asked.request.authenticated_tenant, "");
  EXPECT_TRUE(asked.sink->Write(Finished()));
  EXPECT_EQ(StatusOf(ReadWhole(client)), 200);
}

TEST_F(OpenAiServiceTest, AStreamSendsEachDeltaWhenItComesAndItsUsageAtTheEnd) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(PostRequest(
      "/v1/chat/completions", absl::StrCat(kChat, R"(,"stream":true,"stream_options":{"include_usage":true}})"))));
  const StubBackend::Asked asked = backend_.Await();
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "Hel"}));
  EXPECT_THAT(client.ReadUntil(R"("content":"Hel")"), HasSubstr(R"("role":"assistant")"));
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "lo\n\"\xE2\x82\xAC"}));
  client.ReadUntil(R"("content":"lo\n\"€")");
  ASSERT_TRUE(asked.sink->Write(Finished()));
  const std::string end = client.ReadUntil("data: [DONE]\n\n");
  EXPECT_THAT(end, HasSubstr(R"("finish_reason":"stop")"));
  EXPECT_THAT(end, HasSubstr(R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,)"
                             R"("prompt_tokens_details":{"cached_tokens":1}})"));
}

TEST_F(OpenAiServiceTest, EveryChunkHasTheUsageSoFarWhereThatIsAskedFor) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(
      PostRequest("/v1/chat/completions",
                  absl::StrCat(kChat, R"(,"n":2,"stream":true,"stream_options":{"continuous_usage_stats":true}})"))));
  const StubBackend::Asked asked = backend_.Await();
  ASSERT_TRUE(asked.sink->Write(router::GenerationAccepted{.id = asked.request.id, .prompt_tokens = 3}));
  const auto usage = [](int output_tokens) {
    return absl::StrCat(R"("usage":{"prompt_tokens":3,"completion_tokens":)", output_tokens, R"(,"total_tokens":)",
                        3 + output_tokens, "}}");
  };
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "ab", .tokens = {{.index = 0}, {.index = 1}}, .choice = 1}));
  const std::string first = client.ReadUntil(usage(2));
  EXPECT_THAT(first, HasSubstr(R"("role":"assistant")"));
  EXPECT_THAT(first, HasSubstr(usage(0)));
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "c", .tokens = {{.index = 0}}, .choice = 0}));
  client.ReadUntil(usage(3));
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.choice = 1, .end = router::ChoiceEnd{FinishReason::kStop}}));
  EXPECT_THAT(client.ReadUntil(R"("finish_reason":"stop")"), Not(HasSubstr("usage")));
  GenerationFinished finished = Finished();
  finished.choices.resize(2);
  ASSERT_TRUE(asked.sink->Write(finished));
  const std::string end = client.ReadUntil("data: [DONE]\n\n");
  EXPECT_THAT(end, HasSubstr(usage(3)));
  EXPECT_THAT(end, HasSubstr(R"("choices":[],"usage":{"prompt_tokens":3)"));
}

TEST_F(OpenAiServiceTest, AWholeAnswerIsOneObject) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(PostRequest("/v1/completions", absl::StrCat(kCompletion, R"(,"max_tokens":9})"))));
  const StubBackend::Asked asked = backend_.Await();
  EXPECT_EQ(asked.request.sampling.max_tokens, 9);
  for (const char* text : {"one ", "two"}) ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = text}));
  ASSERT_TRUE(asked.sink->Write(Finished()));
  const std::string response = ReadWhole(client);
  EXPECT_EQ(StatusOf(response), 200);
  const json body = BodyJson(response);
  EXPECT_EQ(body.at("object"), "text_completion");
  EXPECT_EQ(body.at("id"), absl::StrCat("cmpl-", asked.request.id.ToHex()));
  EXPECT_EQ(body.at("model"), "tiny");
  EXPECT_EQ(body.at("choices").at(0).at("text"), "one two");
  EXPECT_EQ(body.at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(body.at("usage").at("total_tokens"), 5);
}

TEST_F(OpenAiServiceTest, SeveralChoicesComeInOneAnswer) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(PostRequest("/v1/chat/completions", absl::StrCat(kChat, R"(,"n":3})"))));
  const StubBackend::Asked asked = backend_.Await();
  EXPECT_EQ(asked.request.choices, 3);
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "b", .choice = 1}));
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "a", .choice = 0}));
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.choice = 1, .end = router::ChoiceEnd{FinishReason::kStop}}));
  // A choice may be empty.
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.choice = 2, .end = router::ChoiceEnd{FinishReason::kStop}}));
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.choice = 0, .end = router::ChoiceEnd{FinishReason::kLength}}));
  GenerationFinished finished = Finished();
  finished.choices.resize(3);
  ASSERT_TRUE(asked.sink->Write(finished));
  const json choices = BodyJson(ReadWhole(client)).at("choices");
  ASSERT_EQ(choices.size(), 3u);
  const char* const texts[] = {"a", "b", ""};
  const char* const reasons[] = {"length", "stop", "stop"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(choices.at(i).at("index"), i);
    EXPECT_EQ(choices.at(i).at("message").at("content"), texts[i]);
    EXPECT_EQ(choices.at(i).at("finish_reason"), reasons[i]);
  }
}

TEST_F(OpenAiServiceTest, EachChoiceOfAStreamHasItsRoleAndItsEndAndTheUsageIsThatOfAll) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(
      PostRequest("/v1/chat/completions",
                  absl::StrCat(kChat, R"(,"n":2,"stream":true,"stream_options":{"include_usage":true}})"))));
  const StubBackend::Asked asked = backend_.Await();
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "b", .choice = 1}));
  EXPECT_THAT(client.ReadUntil(R"("content":"b")"), HasSubstr(R"({"index":1,"delta":{"role":"assistant")"));
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.choice = 1, .end = router::ChoiceEnd{FinishReason::kStop}}));
  EXPECT_THAT(client.ReadUntil(R"("finish_reason":"stop")"), HasSubstr(R"({"index":1,"delta":{})"));
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.choice = 0, .end = router::ChoiceEnd{FinishReason::kLength}}));
  EXPECT_THAT(client.ReadUntil(R"("finish_reason":"length")"), HasSubstr(R"({"index":0,"delta":{"role":"assistant")"));
  GenerationFinished finished = Finished();
  finished.choices.resize(2);
  ASSERT_TRUE(asked.sink->Write(finished));
  const std::string end = client.ReadUntil("data: [DONE]\n\n");
  EXPECT_THAT(end, HasSubstr(R"("choices":[],"usage":{"prompt_tokens":3)"));
  EXPECT_THAT(end, Not(HasSubstr("finish_reason")));
}

TEST_F(OpenAiServiceTest, AnAnswerSaysWhereItsTimeWentWhenItIsAsked) {
  GenerationFinished finished = Finished();
  finished.timing = {.phases = {.queue_ns = 1'000'000, .prefill_ns = 20'500'000, .decode_ns = 3'000'000},
                     .network_ns = 500'000,
                     .total_ns = 25'000'000};
  const json expected = {{"queue_ms", 1.0},  {"admission_ms", 0.0}, {"prefill_ms", 20.5}, {"transfer_ms", 0.0},
                         {"decode_ms", 3.0}, {"network_ms", 0.5},   {"total_ms", 25.0}};
  size_t asked = 0;
  for (const bool asks : {true, false}) {
    RawClient client(server_.port());
    ASSERT_TRUE(client.Send(
        PostRequest("/v1/completions", absl::StrCat(kCompletion, R"(,"return_phases":)", asks ? "true}" : "false}"))));
    ASSERT_TRUE(backend_.Await(asked++).sink->Write(finished));
    EXPECT_EQ(BodyJson(ReadWhole(client)).value("phases", json()), asks ? expected : json());
  }
  RawClient client(server_.port());
  ASSERT_TRUE(
      client.Send(PostRequest("/v1/chat/completions", absl::StrCat(kChat, R"(,"stream":true,"return_phases":true})"))));
  ASSERT_TRUE(backend_.Await(asked).sink->Write(finished));
  const std::string end = client.ReadUntil("data: [DONE]\n\n");
  EXPECT_THAT(end, HasSubstr(R"("finish_reason":"stop"}],"phases":{"queue_ms":1.000,)"));
}

TEST_F(OpenAiServiceTest, AnErrorBeforeTheFirstOutputIsAStatusOfItsOwnAlsoForAStream) {
  struct Case {
    absl::Status status;
    int http_status;
    const char* type;
    // Null: the HTTP status.
    json code = {};
  };
  const std::vector<Case> cases = {
      {router::WithRetryAfter(absl::ResourceExhaustedError("full"), 1'200), 429, "rate_limit_error"},
      {absl::UnavailableError("no workers"), 503, "service_unavailable_error"},
      {absl::DeadlineExceededError("late"), 504, "timeout_error"},
      {absl::InternalError("a bug"), 500, "internal_error"},
      {absl::NotFoundError("another model"), 404, "not_found_error"},
      {router::FieldViolation("sampling.top_p", "must be at most 1"), 400, "invalid_request_error"},
      {router::WithReason(router::FieldViolation("top_p", "too long"), router::RefusalReason::kTooLong), 400,
       "invalid_request_error", "context_length_exceeded"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    RawClient client(server_.port());
    ASSERT_TRUE(client.Send(PostRequest("/v1/completions", absl::StrCat(kCompletion, R"(,"stream":true})"))));
    ASSERT_TRUE(backend_.Await(i).sink->Write(GenerationFailed{.status = cases[i].status}));
    const std::string response = client.ReadResponse();
    EXPECT_EQ(StatusOf(response), cases[i].http_status);
    const json error = BodyJson(response).at("error");
    EXPECT_EQ(error.at("type"), cases[i].type);
    EXPECT_EQ(error.at("code"), cases[i].code.is_null() ? json(cases[i].http_status) : cases[i].code);
    EXPECT_EQ(error.at("param"), cases[i].http_status == 400 ? json("top_p") : json());
    EXPECT_EQ(HeaderOf(response, "Retry-After"), cases[i].http_status == 429 ? "2" : "");
    EXPECT_EQ(HeaderOf(response, "Retry-After-Ms"), cases[i].http_status == 429 ? "1200" : "");
  }
}

TEST_F(OpenAiServiceTest, AnErrorInsideAStreamIsItsLastEvent) {
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(PostRequest("/v1/completions", absl::StrCat(kCompletion, R"(,"stream":true})"))));
  const StubBackend::Asked asked = backend_.Await();
  ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "begun"}));
  client.ReadUntil("begun");
  ASSERT_TRUE(asked.sink->Write(GenerationFailed{.status = absl::UnavailableError("the worker is gone")}));
  const std::string end = client.ReadUntil("data: [DONE]\n\n");
  EXPECT_THAT(end, HasSubstr(R"(data: {"error":{"message":"the worker is gone","type":"service_unavailable_error")"));
  EXPECT_THAT(end, Not(HasSubstr("finish_reason\":\"")));
}

TEST_F(OpenAiServiceTest, AClientThatLeavesCancelsItsRequest) {
  JobId id;
  {
    RawClient client(server_.port());
    ASSERT_TRUE(client.Send(PostRequest("/v1/chat/completions", absl::StrCat(kChat, R"(,"stream":true})"))));
    const StubBackend::Asked asked = backend_.Await();
    ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = "begun"}));
    client.ReadUntil("begun");
    id = asked.request.id;
  }
  EXPECT_EQ(backend_.AwaitCancelled(), id);
  EXPECT_TRUE(backend_.Await().sink->cancelled());
  // What the router says after that goes nowhere.
  EXPECT_TRUE(backend_.Await().sink->Write(GenerationFailed{.status = absl::CancelledError("the client is gone")}));
}

TEST_F(OpenAiServiceTest, WhatCannotBeReadNeverReachesTheBackend) {
  for (const auto& [body, param] : std::vector<std::pair<std::string, json>>{
           {"no json", json()},
           {"[]", json()},
           {absl::StrCat(kChat, R"(,"frequency_penalty":"much"})"), json("frequency_penalty")},
           {absl::StrCat(kChat, R"(,"no_such_field":1})"), json("no_such_field")},
           {R"({"model":"tiny"})", json("messages")}}) {
    const std::string response = Post("/v1/chat/completions", body);
    EXPECT_EQ(StatusOf(response), 400) << body;
    EXPECT_EQ(BodyJson(response).at("error").at("param"), param) << body;
  }
  RawClient client(server_.port());
  ASSERT_TRUE(client.Send(PostRequest("/v1/chat/completions", absl::StrCat(kChat, "}"), "text/plain")));
  const std::string response = client.ReadResponse();
  EXPECT_EQ(StatusOf(response), 400);
  EXPECT_THAT(BodyOf(response), HasSubstr("Content-Type"));
  EXPECT_EQ(backend_.asked(), 0u);
}

TEST_F(OpenAiServiceTest, EveryRequestHasAnIdOfItsOwnAndAllOfThemRunAtOnce) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_.port()));
    ASSERT_TRUE(clients.back()->Send(PostRequest("/v1/completions", absl::StrCat(kCompletion, "}"))));
    backend_.Await(i);
  }
  for (int i = 7; i >= 0; --i) {
    const StubBackend::Asked asked = backend_.Await(i);
    ASSERT_TRUE(asked.sink->Write(GenerationDelta{.text = absl::StrCat("answer ", i)}));
    ASSERT_TRUE(asked.sink->Write(Finished()));
    const json body = BodyJson(ReadWhole(*clients[i]));
    EXPECT_EQ(body.at("choices").at(0).at("text"), absl::StrCat("answer ", i));
    EXPECT_EQ(body.at("id"), absl::StrCat("cmpl-", asked.request.id.ToHex()));
  }
}

TEST_F(OpenAiServiceTest, AnswersAndErrorsNameTheirRequestByTheClientsNameOrOurs) {
  struct Case {
    std::string lines;
    // Empty: ours.
    std::string name;
  };
  const std::vector<Case> cases = {{"", ""},
                                   {"X-Request-Id: mine-7\r\n", "mine-7"},
                                   {"X-Request-Id: \r\n", ""},
                                   {"X-Request-Id: two words\r\n", ""},
                                   {"X-Request-Id: a\r\nX-Request-Id: b\r\n", ""},
                                   {absl::StrCat("X-Request-Id: ", std::string(129, 'x'), "\r\n"), ""}};
  for (size_t i = 0; i < 2 * cases.size(); ++i) {
    const Case& one = cases[i / 2];
    const std::string body = absl::StrCat(kCompletion, "}");
    RawClient client(server_.port());
    ASSERT_TRUE(
        client.Send(absl::StrCat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json",
                                 "\r\nContent-Length: ", body.size(), "\r\n", one.lines, "\r\n", body)));
    const StubBackend::Asked asked = backend_.Await(i);
    const bool fails = i % 2 == 1;
    ASSERT_TRUE(fails ? asked.sink->Write(GenerationFailed{.status = absl::UnavailableError("no workers")})
                      : asked.sink->Write(Finished()));
    const std::string response = fails ? client.ReadResponse() : ReadWhole(client);
    EXPECT_EQ(StatusOf(response), fails ? 503 : 200);
    EXPECT_EQ(HeaderOf(response, "X-Request-Id"), one.name.empty() ? asked.request.id.ToHex() : one.name) << one.lines;
  }
}

TEST_F(OpenAiServiceTest, TextGoesToTokensAndBack) {
  const json tokens = BodyJson(Post("/tokenize", R"({"prompt":"abc"})"));
  EXPECT_EQ(tokens.at("count"), tokens.at("tokens").size());
  EXPECT_EQ(tokens.at("max_model_len"), model_.config.context_length);
  const json text = BodyJson(Post("/detokenize", json({{"tokens", tokens.at("tokens")}}).dump()));
  EXPECT_THAT(text.at("prompt").get<std::string>(), EndsWith("abc"));
  for (const char* body : {R"({"tokens":[-1]})", R"({"tokens":"a"})", R"({"tokens":[99999999999]})", R"({})"}) {
    const std::string response = Post("/detokenize", body);
    EXPECT_EQ(StatusOf(response), 400) << body;
    EXPECT_EQ(BodyJson(response).at("error").at("param"), "tokens") << body;
  }
}

TEST_F(OpenAiServiceTest, AFieldThatTokenizingDoesNotKnowIsRefusedByItsName) {
  const auto param_of = [this](const char* path, const char* body) {
    const std::string response = Post(path, body);
    EXPECT_EQ(StatusOf(response), 400) << body;
    return BodyJson(response).at("error").at("param").get<std::string>();
  };
  EXPECT_EQ(param_of("/tokenize", R"({"prompt":"a","add_special_token":false})"), "add_special_token");
  EXPECT_EQ(param_of("/tokenize", R"({"messages":[]})"), "messages");
  EXPECT_EQ(param_of("/tokenize", R"({"prompt":"a","return_token_strs":true})"), "return_token_strs");
  EXPECT_EQ(param_of("/tokenize", R"({"prompt":5})"), "prompt");
  EXPECT_EQ(param_of("/tokenize", R"({})"), "prompt");
  // The router calls a prompt so.
  EXPECT_EQ(param_of("/v1/completions", R"({"prompt":"a","text":"b"})"), "text");
  EXPECT_EQ(param_of("/detokenize", R"({"tokens":[1],"skip_special_tokens":true})"), "skip_special_tokens");
  EXPECT_EQ(StatusOf(Post("/tokenize", R"({"prompt":"a","model":null,"add_special_tokens":null})")), 200);
}

TEST_F(OpenAiServiceTest, TheTokensAroundATextAreThoseOfTheTokenizer) {
  const json info = BodyJson(Get("/tokenizer_info"));
  const tokenizer::Tokenizer& tokenizer = *model_.tokenizer;
  EXPECT_EQ(info.at("eos_token"), tokenizer.TokenText(tokenizer.eos_id()));
  EXPECT_EQ(info.at("add_bos_token"), tokenizer.adds_bos());
  EXPECT_EQ(info.at("model_max_length"), model_.config.context_length);
  // No token stands for one that the tokenizer has not.
  for (const auto& [name, id] :
       {std::pair("bos_token", tokenizer.bos_id()), std::pair("pad_token", tokenizer.padding_id()),
        std::pair("unk_token", tokenizer.unknown_id())}) {
    EXPECT_EQ(info.at(name), tokenizer.IsValidId(id) ? json(tokenizer.TokenText(id)) : json()) << name;
  }
}

TEST_F(OpenAiServiceTest, HealthSaysWhetherTheClusterServes) {
  EXPECT_EQ(StatusOf(Get("/health")), 200);
  is_serving_ = false;
  EXPECT_EQ(StatusOf(Get("/health")), 503);
  EXPECT_EQ(StatusOf(Get("/ping")), 503);
}

TEST_F(OpenAiServiceTest, TheModelAndTheVersionAreNamed) {
  const json models = BodyJson(Get("/v1/models"));
  EXPECT_EQ(models.at("object"), "list");
  EXPECT_EQ(models.at("data").at(0).at("id"), "tiny");
  EXPECT_EQ(models.at("data").at(0).at("max_model_len"), model_.config.context_length);
  EXPECT_THAT(BodyOf(Get("/version")), StartsWith(R"({"version":")"));
}

}  // namespace
}  // namespace baton::gateway
