#include "router/request_reader.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "common/random.h"
#include "common/status.h"
#include "gtest/gtest.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"
#include "router/testing/tiny_served_model.h"

namespace baton::router {
namespace {

GenerationRequest Ask(Prompt prompt) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  return request;
}

GenerationRequest AskText(const std::string& text) { return Ask(TextPrompt{text}); }

GenerationRequest AskChat(const std::string& content) {
  return Ask(ChatPrompt{{{.role = "user", .content = content}}});
}

// "CODE FIELD" of an error that names a field; "CODE" of another one.
std::string ErrorWords(const absl::Status& status) {
  const auto error = GetFieldError(status);
  const std::string code = absl::StatusCodeToString(status.code());
  return error.has_value() ? code + " " + error->field : code;
}

class RequestReaderTest : public ::testing::Test {
 protected:
  JobSpec Read(const GenerationRequest& request) const { return ReadWith(reader_, request); }

  static JobSpec ReadWith(const RequestReader& reader, const GenerationRequest& request) {
    auto prepared = reader.Read(request);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    return prepared.ok() ? std::move(prepared->job) : JobSpec();
  }

  std::string Refusal(const GenerationRequest& request) const { return ErrorWords(reader_.Read(request).status()); }

  std::string RefusalWith(const std::function<void(GenerationRequest&)>& change) const {
    GenerationRequest request = AskText("hello");
    change(request);
    return Refusal(request);
  }

  const ServedModel model_ = TestModel();
  mutable SeededRandom random_{1};
  const RequestReader reader_{model_, random_};
};

TEST_F(RequestReaderTest, TextBecomesTokensAndADrawnSeed) {
  const JobSpec job = Read(AskText("hello"));
  EXPECT_FALSE(job.prompt.empty());
  EXPECT_NE(job.sampling.seed, 0u);
}

TEST_F(RequestReaderTest, AGivenSeedIsKept) {
  GenerationRequest request = AskText("hello");
  request.sampling.seed = 42;
  EXPECT_EQ(Read(request).sampling.seed, 42u);
}

TEST_F(RequestReaderTest, ADrawnSeedIsKeptByJsonReadersThatHaveDoublesOnly) {
  struct AllOnes final : RandomSource {
    uint64_t Next64() override { return ~uint64_t{0}; }
  } ones;
  const RequestReader reader(model_, ones);
  EXPECT_EQ(ReadWith(reader, AskText("hello")).sampling.seed, (uint64_t{1} << 53) - 1);
}

TEST_F(RequestReaderTest, WhatTheAdapterKnowsOfTheCallGoesIntoTheJob) {
  GenerationRequest request = AskText("hello");
  request.id = {.high = 1, .low = 2};
  request.deadline = 77;
  request.tenant = "a";
  request.trace.traceparent = "00-trace";
  request.want_kv_digest = true;
  request.allow_other_numerics = true;
  const JobSpec job = Read(request);
  EXPECT_EQ(job.id, request.id);
  EXPECT_EQ(job.deadline, 77);
  EXPECT_EQ(job.tenant, "a");
  EXPECT_EQ(job.trace.traceparent, "00-trace");
  EXPECT_TRUE(job.want_kv_digest);
  EXPECT_TRUE(job.allows_other_numerics);
}

TEST_F(RequestReaderTest, AnAuthenticatedClientIsItsTenantAndCannotStateAnother) {
  GenerationRequest request = AskText("hello");
  request.authenticated_tenant = "alice";
  EXPECT_EQ(Read(request).tenant, "alice");
  for (const char* const stated : {"bob", "alice"}) {
    request.tenant = stated;
    EXPECT_EQ(Refusal(request), "INVALID_ARGUMENT tenant");
  }
}

TEST_F(RequestReaderTest, ChatIsRenderedByTheModelsTemplate) {
  EXPECT_EQ(*model_.tokenizer->Decode(Read(AskChat("hi")).prompt, false), "user: hi\n");
}

TEST_F(RequestReaderTest, TheModelsSamplingDefaultsCountWhereTheClientSetsNothing) {
  const auto model = TestModelWithDefaults(
      R"({"do_sample": true, "temperature": 0.5, "top_k": 64, "top_p": 0.75, "repetition_penalty": 1.25})");
  ASSERT_TRUE(model.ok()) << model.status();
  const RequestReader reader(*model, random_);
  GenerationRequest request = AskText("hello");
  SamplingParams sampling = ReadWith(reader, request).sampling;
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_k, 64);
  EXPECT_EQ(sampling.top_p, 0.75f);
  EXPECT_EQ(sampling.repetition_penalty, 1.25f);
  EXPECT_EQ(sampling.min_p, 0.0f);
  request.sampling.temperature = 0;
  request.sampling.top_k = 3;
  sampling = ReadWith(reader, request).sampling;
  EXPECT_EQ(sampling.temperature, 0.0f);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.top_p, 0.75f);
}

TEST_F(RequestReaderTest, AModelThatIsNotToBeSampledStaysGreedy) {
  const auto model = TestModelWithDefaults(R"({"temperature": 0.5, "top_k": 64})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->sampling_defaults, SamplingParams());
}

TEST_F(RequestReaderTest, RefusesAModelWithSamplingDefaultsThatNoClientMayAskFor) {
  const absl::Status status = TestModelWithDefaults(R"({"do_sample": true, "top_p": 1.5})").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("generation_config.json: top_p"), absl::string_view::npos) << status;
}

TEST_F(RequestReaderTest, BosIsAddedToTextAndNotToWhatTheTemplateWrites) {
  const auto model = TestModelWithDefaults("{}");
  ASSERT_TRUE(model.ok()) << model.status();
  const RequestReader reader(*model, random_);
  const std::vector<int32_t> expected = {modelfile::kTinyBos, modelfile::kTinyFirstByteToken + 'h'};
  EXPECT_EQ(ReadWith(reader, AskText("h")).prompt, expected);
  EXPECT_EQ(ReadWith(reader, AskChat("h")).prompt, expected);
}

TEST_F(RequestReaderTest, TokensOfTokenizeAreThePromptOfTheSameTextOrChat) {
  const auto model = TestModelWithDefaults("{}");
  ASSERT_TRUE(model.ok()) << model.status();
  const RequestReader reader(*model, random_);
  EXPECT_EQ(*reader.Tokenize("", TextPrompt{"h"}), ReadWith(reader, AskText("h")).prompt);
  const ChatPrompt chat = {{{.role = "user", .content = "h"}}};
  EXPECT_EQ(*reader.Tokenize("", chat), ReadWith(reader, Ask(chat)).prompt);
}

TEST_F(RequestReaderTest, AnAnswerMayGoOnFromATextOfTheChat) {
  const auto model = TestModelWithDefaults("{}");
  ASSERT_TRUE(model.ok()) << model.status();
  const RequestReader reader(*model, random_);
  ChatPrompt chat = {{{.role = "user", .content = "h"}}};
  std::vector<int32_t> expected = ReadWith(reader, Ask(chat)).prompt;
  expected.push_back(modelfile::kTinyFirstByteToken + '!');
  chat.answer_begin = "!";
  EXPECT_EQ(ReadWith(reader, Ask(chat)).prompt, expected);
}

TEST_F(RequestReaderTest, ToolsAndCallsCountAsTextOfTheChat) {
  ChatPrompt chat = {{{.role = "assistant", .content = ""}}};
  chat.messages[0].tool_calls.push_back({.id = "1", .name = "f", .arguments = "{}"});
  const std::string most = "\"" + std::string(kMaxPromptBytes / 2, 'x') + "\"";
  chat.tools = "[" + most + "]";
  EXPECT_NE(Refusal(Ask(chat)), "INVALID_ARGUMENT chat.messages") << "only the context is too short for it";
  chat.messages[0].tool_calls[0].arguments = "{\"a\":" + most + "}";
  EXPECT_EQ(Refusal(Ask(chat)), "INVALID_ARGUMENT chat.messages");
}

TEST_F(RequestReaderTest, AClientMaySendTextThatHasItsBosAlready) {
  const auto model = TestModelWithDefaults("{}");
  ASSERT_TRUE(model.ok()) << model.status();
  const RequestReader reader(*model, random_);
  const TextPrompt bare = {.text = "h", .add_special_tokens = false};
  const std::vector<int32_t> expected = {modelfile::kTinyFirstByteToken + 'h'};
  EXPECT_EQ(ReadWith(reader, Ask(bare)).prompt, expected);
  EXPECT_EQ(*reader.Tokenize("", bare), expected);
}

TEST_F(RequestReaderTest, RefusesWithoutAPromptOrWithAnEmptyOne) {
  EXPECT_EQ(Refusal({}), "INVALID_ARGUMENT prompt");
  EXPECT_EQ(Refusal(AskText("")), "INVALID_ARGUMENT prompt");
  EXPECT_EQ(Refusal(Ask(TokenPrompt{})), "INVALID_ARGUMENT prompt");
  EXPECT_EQ(Refusal(Ask(ChatPrompt{})), "INVALID_ARGUMENT chat.messages");
}

TEST_F(RequestReaderTest, RefusesAPromptThatFillsTheContextAndTakesOneTokenLess) {
  std::vector<int32_t> ids(model_.config.context_length - 1, 1);
  EXPECT_EQ(Read(Ask(TokenPrompt{ids})).prompt, ids);
  ids.push_back(1);
  EXPECT_EQ(Refusal(Ask(TokenPrompt{ids})), "INVALID_ARGUMENT prompt");
}

TEST_F(RequestReaderTest, RefusesATextThatFillsTheContextAndTakesOneTokenLess) {
  // Each of these letters is a token.
  std::string text(model_.config.context_length - 1, 'x');
  EXPECT_EQ(Read(AskText(text)).prompt.size(), text.size());
  EXPECT_EQ(Refusal(AskText(text + "x")), "INVALID_ARGUMENT prompt");
  EXPECT_EQ(Refusal(AskChat(text)), "INVALID_ARGUMENT prompt") << "the template adds to the message";
}

TEST_F(RequestReaderTest, WhateverIsWrongWithAPromptHasTheClientsNameOfIt) {
  const std::string too_long(model_.config.context_length, 'x');
  for (const Prompt& prompt : std::vector<Prompt>{TextPrompt{too_long}, TextPrompt{"\xff"}, TextPrompt{}, ChatPrompt{},
                                                  ChatPrompt{{{.role = "user", .content = too_long}}},
                                                  TokenPrompt{{model_.config.vocab_size}}}) {
    GenerationRequest request = Ask(prompt);
    request.prompt_field = "input";
    EXPECT_EQ(Refusal(request), "INVALID_ARGUMENT input") << prompt.index();
  }
  GenerationRequest several = AskText("hello");
  several.prompt_field = "input";
  several.more_prompts = {TextPrompt{too_long}};
  const absl::Status status = reader_.ReadAll(several).status();
  EXPECT_EQ(ErrorWords(status), "INVALID_ARGUMENT input");
  EXPECT_EQ(GetRefusalReason(status), RefusalReason::kTooLong);
}

TEST_F(RequestReaderTest, RefusesAPromptThatIsTooLongByItsBytesBeforeItIsTokenized) {
  // This is not UTF-8, which the tokenizer would say first.
  const absl::Status status = reader_.Read(AskText(std::string(kMaxPromptBytes - 1, 'x') + "\xff")).status();
  EXPECT_EQ(ErrorWords(status), "INVALID_ARGUMENT prompt");
  EXPECT_NE(status.message().find("at least"), absl::string_view::npos) << status;
}

// A text that may fit by its bytes is tokenized as far as the context goes. One that cannot is refused before that.
TEST_F(RequestReaderTest, WhatTheRefusalOfATooLongPromptTakesIsBoundedByTheContextAndNotByWhatWasSent) {
  constexpr int kRefusals = 20;
  ServedModel model = TestModel();
  model.config.context_length = 8'192;
  const RequestReader reader(model, random_);
  const auto mean_us = [&](const GenerationRequest& request) {
    const auto began = std::chrono::steady_clock::now();
    for (int n = 0; n < kRefusals; ++n) {
      EXPECT_EQ(GetRefusalReason(reader.Read(request).status()), RefusalReason::kTooLong);
    }
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / kRefusals;
  };
  // As long as a text may be that might fit.
  const size_t most_bytes_of_a_token = kMaxPromptBytes / model.tokenizer->MinTokens(std::string(kMaxPromptBytes, 'x'));
  std::string text;
  while (text.size() < (model.config.context_length - 1) * most_bytes_of_a_token) text += "hello ";
  text.resize((model.config.context_length - 1) * most_bytes_of_a_token);
  const double by_tokens_us = mean_us(AskText(text));
  const double by_bytes_us = mean_us(AskText(std::string(kMaxPromptBytes, 'x')));
  std::printf(
      "unoptimized, with a context of %d: %.0f us for %zu bytes, which are tokenized; %.0f us for %zu, which are not\n",
      model.config.context_length, by_tokens_us, text.size(), by_bytes_us, kMaxPromptBytes);
  // Tokenizing takes ten times as long for a byte, whatever the build.
  EXPECT_LT(by_bytes_us / static_cast<double>(kMaxPromptBytes), 0.5 * by_tokens_us / static_cast<double>(text.size()));
}

TEST_F(RequestReaderTest, TokenizesATextBeyondTheContext) {
  const std::string text(2 * model_.config.context_length, 'x');
  EXPECT_EQ(reader_.Tokenize("tiny", TextPrompt{text})->size(), text.size());
}

TEST_F(RequestReaderTest, DetokenizesUpToALimit) {
  const int32_t letter = modelfile::kTinyFirstByteToken + 'x';
  std::vector<int32_t> ids(kMaxDetokenizedBytes, letter);
  EXPECT_EQ(reader_.Detokenize("", ids, false)->size(), kMaxDetokenizedBytes);
  ids.push_back(letter);
  EXPECT_EQ(ErrorWords(reader_.Detokenize("", ids, false).status()), "INVALID_ARGUMENT token_ids");
}

TEST_F(RequestReaderTest, RefusesTokenIdsOutsideTheVocabulary) {
  EXPECT_EQ(Refusal(Ask(TokenPrompt{{model_.config.vocab_size}})), "INVALID_ARGUMENT token_ids");
  EXPECT_EQ(Refusal(Ask(TokenPrompt{{-1}})), "INVALID_ARGUMENT token_ids");
}

TEST_F(RequestReaderTest, RefusesSamplingValuesByName) {
  EXPECT_EQ(RefusalWith([](auto& r) { r.sampling.temperature = -1; }), "INVALID_ARGUMENT sampling.temperature");
  EXPECT_EQ(RefusalWith([](auto& r) { r.sampling.temperature = NAN; }), "INVALID_ARGUMENT sampling.temperature");
  EXPECT_EQ(RefusalWith([](auto& r) { r.sampling.top_p = 2; }), "INVALID_ARGUMENT sampling.top_p");
  EXPECT_EQ(RefusalWith([](auto& r) { r.sampling.max_tokens = 0; }), "INVALID_ARGUMENT sampling.max_tokens");
  EXPECT_EQ(RefusalWith([](auto& r) { r.sampling.logprobs = -1; }), "INVALID_ARGUMENT sampling.logprobs");
  EXPECT_EQ(RefusalWith([](auto& r) { r.sampling.logprobs = kMaxLogprobs + 1; }), "INVALID_ARGUMENT sampling.logprobs");
}

TEST_F(RequestReaderTest, TakesThePromptsLogProbabilitiesWithinTheirBounds) {
  GenerationRequest request = AskText("hello");
  EXPECT_EQ(Read(request).sampling.prompt_logprobs, -1);
  request.sampling.prompt_logprobs = 0;
  EXPECT_EQ(Read(request).sampling.prompt_logprobs, 0);
  const std::string field = " sampling.prompt_logprobs";
  EXPECT_EQ(RefusalWith([](auto& r) { r.sampling.prompt_logprobs = -1; }), "INVALID_ARGUMENT" + field);
  EXPECT_EQ(RefusalWith([](auto& r) { r.sampling.prompt_logprobs = kMaxLogprobs + 1; }), "INVALID_ARGUMENT" + field);
  const auto keeps = [](auto& r) {
    r.sampling.prompt_logprobs = 0;
    r.idempotency_key = "key";
  };
  EXPECT_EQ(RefusalWith(keeps), "UNIMPLEMENTED" + field);
}

TEST_F(RequestReaderTest, RefusesALongPromptsLogProbabilitiesByTheirMemory) {
  ServedModel model = TestModel();
  model.config.context_length = 1 << 20;
  const RequestReader reader(model, random_);
  const size_t most = kMaxPromptLogprobBytes / PromptLogprobBytes(1, kMaxLogprobs);
  GenerationRequest request = Ask(TokenPrompt{std::vector<int32_t>(most, 1)});
  request.sampling.prompt_logprobs = kMaxLogprobs;
  EXPECT_TRUE(reader.Read(request).ok());
  request.prompt = TokenPrompt{std::vector<int32_t>(most + 1, 1)};
  EXPECT_EQ(ErrorWords(reader.Read(request).status()), "INVALID_ARGUMENT sampling.prompt_logprobs");
  request.prompt = TokenPrompt{std::vector<int32_t>(most / 2, 1)};
  request.choices = 2;
  EXPECT_TRUE(reader.Read(request).ok());
  request.choices = 3;
  EXPECT_EQ(ErrorWords(reader.Read(request).status()), "INVALID_ARGUMENT sampling.prompt_logprobs");
  request.choices = 1;
  request.prompt = TokenPrompt{std::vector<int32_t>(most + 1, 1)};
  request.sampling.prompt_logprobs = 0;
  EXPECT_TRUE(reader.Read(request).ok());
}

TEST_F(RequestReaderTest, AnEchoIsTheTextAsItWasSentOrThatOfTheTokens) {
  GenerationRequest request = AskText("hi");
  EXPECT_FALSE(reader_.Read(request)->echo.has_value());
  request.echo = true;
  EXPECT_EQ(reader_.Read(request)->echo, "hi");
  const int32_t letter = modelfile::kTinyFirstByteToken + 'x';
  request.prompt = TokenPrompt{{letter, letter}};
  EXPECT_EQ(reader_.Read(request)->echo, "xx");
  request.prompt = TokenPrompt{{-1}};
  EXPECT_EQ(Refusal(request), "INVALID_ARGUMENT token_ids");
  request = AskChat("hi");
  request.echo = true;
  EXPECT_EQ(Refusal(request), "INVALID_ARGUMENT echo");
  const auto keeps = [](auto& r) { r.echo = r.resumable = true; };
  EXPECT_EQ(RefusalWith(keeps), "UNIMPLEMENTED echo");
}

TEST_F(RequestReaderTest, PutsBiasesInTheOrderOfTheirTokens) {
  GenerationRequest request = AskText("hello");
  request.sampling.logit_bias = {{.token = 9, .bias = 100}, {.token = 0, .bias = -1}, {.token = 4, .bias = 0.5f}};
  EXPECT_EQ(Read(request).sampling.logit_bias,
            (std::vector<TokenBias>{{.token = 0, .bias = -1}, {.token = 4, .bias = 0.5f}, {.token = 9, .bias = 100}}));
}

TEST_F(RequestReaderTest, RefusesBiasesAndNamesTheTokenAtFault) {
  const auto refusal = [this](const std::vector<TokenBias>& biases) {
    GenerationRequest request = AskText("hello");
    request.sampling.logit_bias = biases;
    EXPECT_EQ(Refusal(request), "INVALID_ARGUMENT sampling.logit_bias");
    return GetFieldError(reader_.Read(request).status())->description;
  };
  const int32_t beyond = model_.config.vocab_size;
  EXPECT_EQ(refusal({{beyond, 1}}), absl::StrCat("token ", beyond, " is not in [0, ", beyond, ")"));
  EXPECT_EQ(refusal({{5, 1}, {-3, 1}}), absl::StrCat("token -3 is not in [0, ", beyond, ")"));
  EXPECT_EQ(refusal({{5, 1}, {3, 2}, {5, 1}}), "token 5 is there more than once");
  EXPECT_EQ(refusal({{5, 101}}), "that of token 5 must be from -100 to 100, not 101");
  EXPECT_EQ(refusal({{5, NAN}}), "that of token 5 must be from -100 to 100, not nan");
  EXPECT_EQ(refusal(std::vector<TokenBias>(kMaxLogitBiases + 1)), "at most 1024 tokens, not 1025");
}

TEST_F(RequestReaderTest, PassesAGrammarThatCompilesOnToTheWorkers) {
  GenerationRequest request = AskText("hello");
  request.sampling.grammar = {.kind = GrammarKind::kRegex, .text = "[a-z]+"};
  EXPECT_EQ(Read(request).sampling.grammar, request.sampling.grammar);
}

TEST_F(RequestReaderTest, RefusesAGrammarByTheNameThatTheClientGivesIt) {
  const auto with = [this](OutputGrammar grammar, auto change) {
    return RefusalWith([&](auto& r) {
      r.sampling.grammar = std::move(grammar);
      change(r.sampling);
    });
  };
  const auto nothing = [](SamplingRequest&) {};
  EXPECT_EQ(with({.kind = GrammarKind::kRegex, .text = "(a"}, nothing), "INVALID_ARGUMENT sampling.grammar");
  EXPECT_EQ(with({.kind = GrammarKind::kRegex, .text = "(a"}, [](auto& s) { s.grammar_field = "response_format"; }),
            "INVALID_ARGUMENT response_format");
  EXPECT_EQ(with({.kind = GrammarKind::kRegex, .text = "(?=a)"}, nothing), "UNIMPLEMENTED sampling.grammar");
  EXPECT_EQ(with({.kind = GrammarKind::kRegex, .text = std::string(kMaxGrammarBytes + 1, 'a')}, nothing),
            "INVALID_ARGUMENT sampling.grammar");
  const OutputGrammar fine = {.kind = GrammarKind::kRegex, .text = "a"};
  EXPECT_EQ(with(fine, [](auto& s) { s.ignore_eos = true; }), "INVALID_ARGUMENT sampling.ignore_eos");
  EXPECT_EQ(with(fine, [](auto& s) { s.min_tokens = 1; }), "INVALID_ARGUMENT sampling.min_tokens");
}

TEST_F(RequestReaderTest, TakesAPriorityWithinItsRange) {
  GenerationRequest request = AskText("hello");
  for (const int32_t priority : {kMinPriority, kMaxPriority}) {
    request.priority = priority;
    EXPECT_EQ(Read(request).priority, priority);
  }
  EXPECT_EQ(RefusalWith([](auto& r) { r.priority = kMinPriority - 1; }), "INVALID_ARGUMENT priority");
  EXPECT_EQ(RefusalWith([](auto& r) { r.priority = kMaxPriority + 1; }), "INVALID_ARGUMENT priority");
}

TEST_F(RequestReaderTest, OnlyAnOutputThatNothingEndsEarlyIsCertain) {
  GenerationRequest request = AskText("hello");
  request.sampling.max_tokens = 7;
  EXPECT_EQ(Read(request).least_outputs, 1);
  request.sampling.ignore_eos = true;
  EXPECT_EQ(Read(request).least_outputs, 7);
  request.stop = {"x"};
  EXPECT_EQ(Read(request).least_outputs, 1);
  request.stop.clear();
  request.sampling.stop_token_ids = {1};
  EXPECT_EQ(Read(request).least_outputs, 1);
}

TEST_F(RequestReaderTest, TakesStopStringsUpToTheirLimits) {
  GenerationRequest request = AskText("hello");
  request.stop.assign(kMaxStopStrings, std::string(kMaxStopStringBytes, 'x'));
  Read(request);
  request.stop.emplace_back("one more");
  EXPECT_EQ(Refusal(request), "INVALID_ARGUMENT stop");
  request.stop = {std::string(kMaxStopStringBytes + 1, 'x')};
  EXPECT_EQ(Refusal(request), "INVALID_ARGUMENT stop");
  request.stop = {""};
  EXPECT_EQ(Refusal(request), "INVALID_ARGUMENT stop");
  request.stop = {"\xff"};
  EXPECT_EQ(Refusal(request), "INVALID_ARGUMENT stop");
}

TEST_F(RequestReaderTest, RefusesTextBeyondItsLimit) {
  EXPECT_EQ(Refusal(AskText(std::string(kMaxPromptBytes + 1, 'a'))), "INVALID_ARGUMENT text");
}

TEST_F(RequestReaderTest, RefusesMoreMessagesOfAChatThanTheirLimit) {
  ChatPrompt chat;
  chat.messages.assign(kMaxChatMessages, {.role = "user", .content = "hi"});
  EXPECT_NE(Refusal(Ask(chat)), "INVALID_ARGUMENT chat.messages") << "only the context may be too short for them";
  chat.messages.push_back(chat.messages.front());
  EXPECT_EQ(Refusal(Ask(chat)), "INVALID_ARGUMENT chat.messages");
}

TEST_F(RequestReaderTest, AnotherModelIsNotFound) {
  EXPECT_EQ(RefusalWith([](auto& r) { r.model = "another"; }), "NOT_FOUND");
  EXPECT_EQ(RefusalWith([](auto& r) { r.model = "tiny"; }), "OK");
}

TEST_F(RequestReaderTest, TokenizesAndDetokenizesForTheServedModelAlone) {
  const auto ids = reader_.Tokenize("tiny", TextPrompt{"hello"});
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(*reader_.Detokenize("", *ids, false), "hello");
  EXPECT_EQ(ErrorWords(reader_.Tokenize("another", TextPrompt{"hello"}).status()), "NOT_FOUND");
  EXPECT_EQ(ErrorWords(reader_.Detokenize("", {-1}, false).status()), "INVALID_ARGUMENT token_ids");
}

TEST_F(RequestReaderTest, GivesTheTextOfEachTokenUpToALimit) {
  const std::vector<int32_t> ids = {modelfile::kTinyFirstByteToken + 'b', modelfile::kTinyFirstByteToken + 0xC3};
  EXPECT_EQ(*reader_.TokenTexts("", ids), (std::vector<std::string>{"b", "\xC3"}));
  EXPECT_EQ(ErrorWords(reader_.TokenTexts("", {-1}).status()), "INVALID_ARGUMENT token_ids");
  EXPECT_EQ(ErrorWords(reader_.TokenTexts("another", ids).status()), "NOT_FOUND");
  const std::vector<int32_t> many(kMaxDetokenizedTokens + 1, ids.front());
  EXPECT_EQ(ErrorWords(reader_.TokenTexts("", many).status()), "INVALID_ARGUMENT return_tokens");
  EXPECT_TRUE(reader_.TokenTexts("", absl::MakeConstSpan(many).subspan(1)).ok());
}

TEST_F(RequestReaderTest, OutputEndsBeforeAStopStringThatSpansTokens) {
  auto output = JobOutput::Create(*model_.tokenizer, {"END"});
  ASSERT_TRUE(output.ok());
  const auto ids = model_.tokenizer->Encode("textENDmore");
  ASSERT_TRUE(ids.ok());
  std::string text;
  for (const int32_t id : *ids) text += *output->Push(id);
  EXPECT_EQ(text + output->Flush(), "text");
  EXPECT_TRUE(output->stopped());
}

}  // namespace
}  // namespace baton::router
