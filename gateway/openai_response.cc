#include "gateway/openai_response.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gateway/api_error.h"
#include "gateway/json_writing.h"
#include "gateway/openai_logprobs.h"

namespace baton::gateway {
namespace {

const char* OpenAiTypeOf(int http_status) {
  switch (http_status) {
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 499:
      return "cancelled_error";
    case 503:
      return "service_unavailable_error";
    case 504:
      return "timeout_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "internal_error";
  }
}

std::string ErrorBody(const ApiError& error) {
  // By these words OpenAI's clients know a key that nobody has, and a chat that they have to shorten; every other code
  // is the HTTP status.
  const std::string code = error.http_status == 401 ? R"("invalid_api_key")"
                           : error.is_too_long      ? R"("context_length_exceeded")"
                                                    : absl::StrCat(error.http_status);
  return absl::StrCat(R"({"error":{"message":)", JsonString(error.message), R"(,"type":")",
                      OpenAiTypeOf(error.http_status), R"(","param":)",
                      error.param.has_value() ? JsonString(*error.param) : "null", R"(,"code":)", code, "}}");
}

const char* FinishName(FinishReason reason) { return reason == FinishReason::kStop ? "\"stop\"" : "\"length\""; }

std::string UsageCounts(int32_t prompt_tokens, int32_t output_tokens) {
  return absl::StrCat(R"("prompt_tokens":)", prompt_tokens, R"(,"completion_tokens":)", output_tokens,
                      R"(,"total_tokens":)", prompt_tokens + output_tokens);
}

std::string UsageOf(const router::GenerationUsage& usage) {
  return absl::StrCat("{", UsageCounts(usage.prompt_tokens, usage.output_tokens),
                      R"(,"prompt_tokens_details":{"cached_tokens":)", usage.cached_prompt_tokens, "}}");
}

std::string DataEvent(const std::string& data) { return absl::StrCat("data: ", data, "\n\n"); }

// Every byte of UTF-8 that does not continue a character begins one.
int64_t CharactersOf(const std::string& bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
}

std::string Members(const OpenAiAnswer& answer, const char* object) {
  return absl::StrCat(R"({"id":)", JsonString(answer.id), R"(,"object":")", object, R"(","created":)",
                      answer.created_unix_s, R"(,"model":)", JsonString(answer.model));
}

const char* ChunkObject(OpenAiEndpoint endpoint) {
  return endpoint == OpenAiEndpoint::kChat ? "chat.completion.chunk" : "text_completion";
}

}  // namespace

OpenAiWriter::OpenAiWriter(OpenAiAnswer answer, const tokenizer::Tokenizer& tokenizer)
    : answer_(std::move(answer)),
      tokenizer_(tokenizer),
      chunk_begin_(Members(answer_, ChunkObject(answer_.endpoint))),
      choices_(static_cast<size_t>(answer_.choices)) {
  if (answer_.tools.form == CallForm::kNone) return;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const std::string& id = answer_.own_id;
    choices_[i].calls.emplace(answer_.tools, answer_.is_stream, i == 0 ? id : absl::StrCat(id, "_", i));
  }
}

std::string OpenAiWriter::UsageSoFar() const {
  if (!answer_.include_usage) return {};
  // OpenAI says in every chunk but the last one that it has no usage.
  if (!answer_.continuous_usage) return R"(,"usage":null)";
  // What came from the prefix cache is known at the end.
  return absl::StrCat(R"(,"usage":{)", UsageCounts(prompt_tokens_, output_tokens_), "}");
}

std::string OpenAiWriter::Event(int32_t index, const std::string& choice, const std::string& members) const {
  return DataEvent(
      absl::StrCat(chunk_begin_, R"(,"choices":[{"index":)", index, ",", choice, "}]", UsageSoFar(), members, "}"));
}

std::string OpenAiWriter::Begin(int32_t index, const std::string& members) {
  if (answer_.endpoint == OpenAiEndpoint::kCompletions || std::exchange(At(index).has_begun, true)) return {};
  return Event(index, R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null)", members);
}

std::string OpenAiWriter::Chunk(const router::GenerationDelta& delta) {
  std::string events = Begin(delta.choice, PromptTokenIds(delta));
  if (!delta.tokens.empty() || !delta.text.empty()) events += Output(delta);
  if (delta.end.has_value()) events += EndChoice(delta.choice, delta.end->reason);
  return events;
}

std::string OpenAiWriter::Output(const router::GenerationDelta& delta) {
  output_tokens_ += static_cast<int32_t>(std::count_if(
      delta.tokens.begin(), delta.tokens.end(), [](const OutputToken& token) { return token.index != kEchoedIndex; }));
  std::optional<OpenAiCalls>& calls = At(delta.choice).calls;
  const bool is_chat = answer_.endpoint == OpenAiEndpoint::kChat;
  const std::string members = calls.has_value()
                                  ? calls->Delta(delta.text)
                                  : absl::StrCat(is_chat ? R"("content":)" : R"("text":)", JsonString(delta.text));
  // What may become a call waits, unless the chunk says something else.
  if (members.empty() && !delta.has_logprobs && !answer_.return_token_ids) return {};
  return Event(delta.choice, absl::StrCat(is_chat ? absl::StrCat(R"("delta":{)", members, "}") : members,
                                          R"(,"logprobs":)", Logprobs(delta), R"(,"finish_reason":null)",
                                          TokenIds(delta), is_chat ? "" : PromptTokenIds(delta)));
}

const char* OpenAiWriter::FinishOf(int32_t index, FinishReason reason) {
  const std::optional<OpenAiCalls>& calls = At(index).calls;
  const bool has_calls = calls.has_value() && calls->has_calls();
  return has_calls && reason == FinishReason::kStop ? R"("tool_calls")" : FinishName(reason);
}

std::string OpenAiWriter::EndChoice(int32_t index, FinishReason reason, const std::string& members) {
  const bool is_chat = answer_.endpoint == OpenAiEndpoint::kChat;
  std::string events = Begin(index);
  std::optional<OpenAiCalls>& calls = At(index).calls;
  if (const std::string rest = calls.has_value() ? calls->LastDelta() : ""; !rest.empty()) {
    events += Event(index, absl::StrCat(R"("delta":{)", rest, R"(},"logprobs":null,"finish_reason":null)"));
  }
  return events + Event(index,
                        absl::StrCat(is_chat ? R"("delta":{})" : R"("text":"")", R"(,"logprobs":null,"finish_reason":)",
                                     FinishOf(index, reason)),
                        members);
}

std::string OpenAiWriter::End(const router::GenerationFinished& finished) {
  std::string events;
  output_tokens_ = finished.usage.output_tokens;
  if (finished.choices.empty()) events = EndChoice(0, finished.reason, Phases(finished.timing));
  std::string members;
  if (answer_.include_usage) members = absl::StrCat(R"(,"usage":)", UsageOf(finished.usage));
  // Several choices have said their ends before the times were known.
  if (!finished.choices.empty()) members += Phases(finished.timing);
  if (!members.empty()) events += DataEvent(absl::StrCat(chunk_begin_, R"(,"choices":[])", members, "}"));
  return events + DataEvent("[DONE]");
}

std::string OpenAiWriter::End(const absl::Status& status) {
  return DataEvent(ErrorBody(DescribeError(status))) + DataEvent("[DONE]");
}

std::string OpenAiWriter::WholeChoice(const router::GenerationDelta& output, FinishReason reason) {
  const bool is_chat = answer_.endpoint == OpenAiEndpoint::kChat;
  std::optional<OpenAiCalls>& calls = At(output.choice).calls;
  const std::string content = calls.has_value()
                                  ? calls->Message(output.text)
                                  : absl::StrCat(is_chat ? R"("content":)" : R"("text":)", JsonString(output.text));
  return absl::StrCat(
      R"({"index":)", output.choice, ",",
      is_chat ? absl::StrCat(R"("message":{"role":"assistant",)", content, R"(,"refusal":null})") : content,
      R"(,"logprobs":)", Logprobs(output), R"(,"finish_reason":)", FinishOf(output.choice, reason), TokenIds(output),
      is_chat ? "" : absl::StrCat(PromptTokenIds(output), PromptLogprobsMember(tokenizer_, output, answer_.prompt)),
      "}");
}

std::string OpenAiWriter::Whole(absl::Span<const router::GenerationDelta> outputs,
                                const router::GenerationFinished& finished) {
  const bool is_chat = answer_.endpoint == OpenAiEndpoint::kChat;
  std::string choices;
  for (const router::GenerationDelta& output : outputs) {
    const FinishReason reason = output.end.has_value() ? output.end->reason : finished.reason;
    absl::StrAppend(&choices, choices.empty() ? "" : ",", WholeChoice(output, reason));
  }
  return absl::StrCat(Members(answer_, is_chat ? "chat.completion" : "text_completion"), R"(,"choices":[)", choices,
                      R"(],"usage":)", UsageOf(finished.usage),
                      is_chat ? absl::StrCat(PromptTokenIds(outputs.front()),
                                             PromptLogprobsMember(tokenizer_, outputs.front(), answer_.prompt))
                              : "",
                      Phases(finished.timing), "}");
}

std::string OpenAiWriter::TokenIds(const router::GenerationDelta& delta) const {
  if (!answer_.return_token_ids) return {};
  std::string ids;
  for (const OutputToken& token : delta.tokens) {
    if (token.index != kEchoedIndex) absl::StrAppend(&ids, ids.empty() ? "" : ",", token.token);
  }
  return absl::StrCat(R"(,"token_ids":[)", ids, "]");
}

std::string OpenAiWriter::PromptTokenIds(const router::GenerationDelta& delta) const {
  if (!answer_.return_token_ids || delta.prompt == nullptr) return {};
  return absl::StrCat(R"(,"prompt_token_ids":[)", absl::StrJoin(delta.prompt->tokens, ","), "]");
}

std::string OpenAiWriter::Phases(const router::GenerationTiming& timing) const {
  if (!answer_.return_phases) return {};
  const auto member = [](const char* name, int64_t ns) {
    return absl::StrFormat(R"("%s_ms":%.3f,)", name, static_cast<double>(ns) / kNsPerMs);
  };
  const router::PhaseTimes& phases = timing.phases;
  return absl::StrCat(R"(,"phases":{)", member("queue", phases.queue_ns), member("admission", phases.admission_ns),
                      member("prefill", phases.prefill_ns), member("transfer", phases.transfer_ns),
                      member("decode", phases.decode_ns), member("network", timing.network_ns),
                      absl::StrFormat(R"("total_ms":%.3f})", static_cast<double>(timing.total_ns) / kNsPerMs));
}

std::string OpenAiWriter::Logprobs(const router::GenerationDelta& delta) {
  if (!delta.has_logprobs) return "null";
  if (answer_.endpoint == OpenAiEndpoint::kCompletions) return CompletionLogprobs(delta);
  return absl::StrCat(R"({"content":)", LogprobEntries(tokenizer_, delta.tokens), R"(,"refusal":null})");
}

std::string OpenAiWriter::CompletionLogprobs(const router::GenerationDelta& delta) {
  int64_t& text_offset = At(delta.choice).text_offset;
  std::string texts;
  std::string logprobs;
  std::string tops;
  std::string offsets;
  for (const OutputToken& token : delta.tokens) {
    const char* const comma = texts.empty() ? "" : ",";
    absl::StrAppend(&texts, comma, TokenTextOf(tokenizer_, token.token));
    absl::StrAppend(&logprobs, comma, LogprobText(token.logprob));
    absl::StrAppend(&offsets, comma, text_offset);
    text_offset += CharactersOf(tokenizer_.TokenBytes(token.token));
    std::string top;
    for (const TopLogprob& each : token.top) {
      absl::StrAppend(&top, top.empty() ? "" : ",", TokenTextOf(tokenizer_, each.token), ":",
                      LogprobText(each.logprob));
    }
    absl::StrAppend(&tops, comma, std::isnan(token.logprob) ? "null" : absl::StrCat("{", top, "}"));
  }
  return absl::StrCat(R"({"tokens":[)", texts, R"(],"token_logprobs":[)", logprobs, R"(],"top_logprobs":[)", tops,
                      R"(],"text_offset":[)", offsets, "]}");
}

HttpResponse OpenAiError(const absl::Status& status) {
  const ApiError error = DescribeError(status);
  return {.status = error.http_status, .body = ErrorBody(error), .headers = ErrorHeaders(status)};
}

HttpResponse OpenAiRefusal(int http_status, const std::string& message) {
  return {.status = http_status,
          .body = ErrorBody({.http_status = http_status, .message = message, .param = std::nullopt})};
}

}  // namespace baton::gateway
