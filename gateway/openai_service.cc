#include "gateway/openai_service.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/status.h"
#include "common/version.h"
#include "gateway/field_reader.h"
#include "gateway/json_reading.h"
#include "gateway/json_writing.h"
#include "gateway/openai_embeddings.h"
#include "gateway/openai_response.h"
#include "gateway/responses_request.h"
#include "gateway/responses_writer.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;

constexpr ApiForm kOpenAiForm = {.make_error = OpenAiError};

constexpr FieldRule kTokenizeFields[] = {{"prompt"},
                                         {"model"},
                                         {"add_special_tokens"},
                                         {"messages", FieldUse::kUnbuilt},
                                         {"return_token_strs", FieldUse::kUnbuilt, "false"}};
constexpr FieldRule kDetokenizeFields[] = {{"tokens"}, {"model"}};

int64_t UnixSeconds() { return absl::ToUnixSeconds(absl::Now()); }

absl::StatusOr<std::vector<int32_t>> TokensOf(const json& body) {
  auto ids = ToInt32s(body.value("tokens", json()));
  const bool are_ids = ids.has_value() && std::all_of(ids->begin(), ids->end(), [](int32_t id) { return id >= 0; });
  if (!are_ids) return router::FieldViolation("tokens", "must be a list of ids");
  return *std::move(ids);
}

}  // namespace

OpenAiService::OpenAiService(GenerationCalls& calls, std::function<bool()> is_serving)
    : calls_(calls), is_serving_(std::move(is_serving)), started_unix_s_(UnixSeconds()) {}

void OpenAiService::AddRoutes(HttpServer& server) {
  const auto generate = [this](OpenAiEndpoint endpoint) {
    return [this, endpoint](const std::shared_ptr<HttpExchange>& exchange) {
      calls_.Generate(exchange, kOpenAiForm,
                      [this, endpoint](const std::string& body, const JobId& id) { return Read(endpoint, body, id); });
    };
  };
  server.AddRoute("POST", "/v1/completions", generate(OpenAiEndpoint::kCompletions));
  server.AddRoute("POST", "/v1/chat/completions", generate(OpenAiEndpoint::kChat));
  server.AddRoute("POST", "/v1/responses", [this](const std::shared_ptr<HttpExchange>& exchange) {
    calls_.Generate(exchange, kOpenAiForm,
                    [this](const std::string& body, const JobId& id) { return ReadResponses(body, id); });
  });
  server.AddRoute("POST", "/v1/embeddings", [this](const std::shared_ptr<HttpExchange>& exchange) {
    calls_.Generate(exchange, kOpenAiForm,
                    [this](const std::string& body, const JobId&) { return ReadEmbeddings(body); });
  });
  server.AddRoute("POST", "/tokenize", [this](const std::shared_ptr<HttpExchange>& exchange) {
    calls_.Compute(exchange, kOpenAiForm, [this](const std::string& body) { return Tokenize(body); });
  });
  server.AddRoute("POST", "/detokenize", [this](const std::shared_ptr<HttpExchange>& exchange) {
    calls_.Compute(exchange, kOpenAiForm, [this](const std::string& body) { return Detokenize(body); });
  });
  server.AddRoute("GET", "/v1/models",
                  [this](const std::shared_ptr<HttpExchange>& exchange) { exchange->Respond({.body = Models()}); });
  server.AddRoute("GET", "/tokenizer_info", [this](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->Respond({.body = TokenizerInfo()});
  });
  server.AddRoute("GET", "/version", [](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->Respond({.body = absl::StrCat(R"({"version":")", kVersion, R"("})")});
  });
  for (const char* path : {"/health", "/ping"}) {
    server.AddRoute("GET", path, [this](const std::shared_ptr<HttpExchange>& exchange) {
      exchange->Respond({.status = is_serving_() ? 200 : 503, .content_type = "text/plain"});
    });
  }
}

absl::StatusOr<ReadCall> OpenAiService::Read(OpenAiEndpoint endpoint, const std::string& body, const JobId& id) const {
  BATON_ASSIGN_OR_RETURN(OpenAiRequest read, ReadOpenAiRequest(endpoint, body, ChatModelOf(calls_.model())));
  const char* const prefix = endpoint == OpenAiEndpoint::kChat ? "chatcmpl-" : "cmpl-";
  std::unique_ptr<AnswerWriter> writer = std::make_unique<OpenAiWriter>(
      OpenAiAnswer{.endpoint = endpoint,
                   .choices = static_cast<int32_t>(read.generation.total_choices()),
                   .id = absl::StrCat(prefix, read.request_id.empty() ? id.ToHex() : read.request_id),
                   .own_id = id.ToHex(),
                   .model = calls_.model().name,
                   .created_unix_s = UnixSeconds(),
                   .include_usage = read.include_usage,
                   .continuous_usage = read.continuous_usage,
                   .return_token_ids = read.return_token_ids,
                   .return_phases = read.return_phases,
                   .tools = std::move(read.tools),
                   .is_stream = read.stream,
                   .prompt = read.prompt},
      *calls_.model().tokenizer);
  if (read.prompt.echo) writer = MakeEchoWriter(read.prompt, std::move(writer));
  return ReadCall{.generation = std::move(read.generation), .writer = std::move(writer), .is_stream = read.stream};
}

absl::StatusOr<ReadCall> OpenAiService::ReadResponses(const std::string& body, const JobId& id) const {
  BATON_ASSIGN_OR_RETURN(ResponsesRequest read, ReadResponsesRequest(body, ChatModelOf(calls_.model())));
  ReadCall call = {.generation = std::exchange(read.generation, {}), .writer = nullptr, .is_stream = read.stream};
  call.writer = std::make_unique<ResponsesWriter>(
      ResponsesAnswer{
          .id = id.ToHex(), .model = calls_.model().name, .created_unix_s = UnixSeconds(), .request = std::move(read)},
      *calls_.model().tokenizer);
  return call;
}

absl::StatusOr<ReadCall> OpenAiService::ReadEmbeddings(const std::string& body) const {
  BATON_ASSIGN_OR_RETURN(EmbeddingsRequest read, ReadEmbeddingsRequest(body, calls_.model().config.hidden_size));
  return ReadCall{.generation = std::move(read.generation),
                  .writer = std::make_unique<EmbeddingsWriter>(calls_.model().name, read.is_base64)};
}

absl::StatusOr<std::string> OpenAiService::Tokenize(const std::string& body) const {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  BATON_RETURN_IF_ERROR(CheckFields(object, kTokenizeFields));
  FieldReader fields(object);
  const std::string model = fields.String("model");
  const router::TextPrompt prompt = {.text = fields.String("prompt"),
                                     .add_special_tokens = fields.Bool("add_special_tokens").value_or(true)};
  if (fields.Find("prompt") == nullptr) fields.Wrong("prompt", "must be a string");
  BATON_RETURN_IF_ERROR(fields.status());
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, calls_.reader().Tokenize(model, prompt));
  return json({{"count", ids.size()}, {"max_model_len", calls_.model().config.context_length}, {"tokens", ids}}).dump();
}

absl::StatusOr<std::string> OpenAiService::Detokenize(const std::string& body) const {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  BATON_RETURN_IF_ERROR(CheckFields(object, kDetokenizeFields));
  FieldReader fields(object);
  const std::string model = fields.String("model");
  BATON_RETURN_IF_ERROR(fields.status());
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, TokensOf(object));
  BATON_ASSIGN_OR_RETURN(const std::string text, calls_.reader().Detokenize(model, ids, /*skip_special_tokens=*/false));
  return absl::StrCat(R"({"prompt":)", JsonString(text), "}");
}

std::string OpenAiService::TokenizerInfo() const {
  const tokenizer::Tokenizer& tokenizer = *calls_.model().tokenizer;
  const auto text = [&tokenizer](int32_t id) {
    return tokenizer.IsValidId(id) ? JsonString(tokenizer.TokenText(id)) : "null";
  };
  return absl::StrCat(R"({"bos_token":)", text(tokenizer.bos_id()), R"(,"eos_token":)", text(tokenizer.eos_id()),
                      R"(,"unk_token":)", text(tokenizer.unknown_id()), R"(,"pad_token":)",
                      text(tokenizer.padding_id()), R"(,"add_bos_token":)", tokenizer.adds_bos() ? "true" : "false",
                      R"(,"model_max_length":)", calls_.model().config.context_length, "}");
}

std::string OpenAiService::Models() const {
  return absl::StrCat(R"({"object":"list","data":[{"id":)", JsonString(calls_.model().name),
                      R"(,"object":"model","created":)", started_unix_s_, R"(,"owned_by":"baton","max_model_len":)",
                      calls_.model().config.context_length, "}]}");
}

}  // namespace baton::gateway
