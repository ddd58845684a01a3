#include "gateway/openai_request.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/limits.h"
#include "common/sampling_params.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/json_reading.h"
#include "gateway/output_format.h"
#include "gateway/sampling_fields.h"
#include "gateway/tools/openai_tools.h"
#include "gateway/tools/tool_prompt.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldViolation;

constexpr FieldRule kCommonFields[] = {
    {"model"},
    {"max_tokens"},
    {"temperature"},
    {"top_p"},
    {"seed"},
    {"stop"},
    {"frequency_penalty"},
    {"presence_penalty"},
    {"logit_bias"},
    {"logprobs"},
    {"n"},
    {"response_format"},
    {"stream"},
    {"stream_options"},
    // vLLM's.
    {"top_k"},
    {"min_p"},
    {"repetition_penalty"},
    {"ignore_eos"},
    {"min_tokens"},
    {"stop_token_ids"},
    {"return_token_ids"},
    {"request_id"},
    {"structured_outputs"},
    {"prompt_logprobs"},
    {"priority"},
    // Baton's own.
    {"return_phases"},
    {"user", FieldUse::kIgnored},
    {"best_of", FieldUse::kUnbuilt, "1"},
    {"use_beam_search", FieldUse::kUnbuilt, "false"},
    {"length_penalty", FieldUse::kUnbuilt, "1.0"},
    {"include_stop_str_in_output", FieldUse::kUnbuilt, "false"},
    {"skip_special_tokens", FieldUse::kUnbuilt, "true"},
    {"spaces_between_special_tokens", FieldUse::kUnbuilt, "true"},
    {"truncate_prompt_tokens", FieldUse::kUnbuilt},
    {"kv_transfer_params", FieldUse::kUnbuilt},
    {"cache_salt", FieldUse::kUnbuilt},
};

constexpr FieldRule kCompletionsFields[] = {
    {"prompt"},
    {"add_special_tokens"},
    {"echo"},
    {"suffix", FieldUse::kUnbuilt},
};

constexpr FieldRule kChatFields[] = {
    {"messages"},
    {"max_completion_tokens"},
    {"top_logprobs"},
    {"store", FieldUse::kIgnored},
    {"metadata", FieldUse::kIgnored},
    {"safety_identifier", FieldUse::kIgnored},
    {"prompt_cache_key", FieldUse::kIgnored},
    {"service_tier", FieldUse::kIgnored},
    {"tools"},
    {"tool_choice"},
    {"parallel_tool_calls"},
    {"chat_template_kwargs"},
    {"functions", FieldUse::kUnbuilt},
    {"function_call", FieldUse::kUnbuilt},
    {"reasoning_effort", FieldUse::kUnbuilt},
    {"verbosity", FieldUse::kUnbuilt},
    {"modalities", FieldUse::kUnbuilt, R"(["text"])"},
    {"audio", FieldUse::kUnbuilt},
    {"prediction", FieldUse::kUnbuilt},
    {"web_search_options", FieldUse::kUnbuilt},
    {"chat_template", FieldUse::kUnbuilt},
    {"add_generation_prompt", FieldUse::kUnbuilt, "true"},
    {"continue_final_message", FieldUse::kUnbuilt, "false"},
    {"echo", FieldUse::kUnbuilt, "false"},
};

// lm-eval says of every message that it is text. What answers have that Baton's have not comes back as null or empty.
constexpr FieldRule kMessageFields[] = {
    {"role"},
    {"content"},
    {"name"},
    {"type", FieldUse::kUnbuilt, R"("text")"},
    {"refusal", FieldUse::kUnbuilt},
    {"annotations", FieldUse::kUnbuilt, "[]"},
    {"audio", FieldUse::kUnbuilt},
    {"function_call", FieldUse::kUnbuilt},
    {"reasoning", FieldUse::kUnbuilt},
    {"reasoning_content", FieldUse::kUnbuilt},
};
constexpr FieldRule kAssistantFields[] = {{"tool_calls"}, {"tool_call_id", FieldUse::kUnbuilt}};
constexpr FieldRule kToolFields[] = {{"tool_calls", FieldUse::kUnbuilt, "[]"}, {"tool_call_id"}};
constexpr FieldRule kSpeakerFields[] = {{"tool_calls", FieldUse::kUnbuilt, "[]"}, {"tool_call_id", FieldUse::kUnbuilt}};

// A name that any log can hold.
std::string ReadRequestId(FieldReader& fields) {
  std::string id = fields.String("request_id");
  const bool is_name =
      id.size() <= kMaxRequestIdBytes && std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!is_name || (id.empty() && fields.Find("request_id") != nullptr)) {
    fields.Wrong("request_id", absl::StrCat("must have 1 to ", kMaxRequestIdBytes, " visible characters of ASCII"));
  }
  return id;
}

absl::Status ReadStream(FieldReader& fields, OpenAiRequest& request) {
  request.stream = fields.Bool("stream").value_or(false);
  const json* const options = fields.Find("stream_options");
  if (options == nullptr) return absl::OkStatus();
  if (!options->is_object()) return FieldViolation("stream_options", "must be an object");
  if (!request.stream) return FieldViolation("stream_options", "only a stream has them");
  // OpenAI's clients turn a padding of the chunks off, which Baton has not.
  static constexpr FieldRule kStreamFields[] = {
      {"include_usage"}, {"continuous_usage_stats"}, {"include_obfuscation", FieldUse::kUnbuilt, "false"}};
  constexpr char kPrefix[] = "stream_options.";
  BATON_RETURN_IF_ERROR(CheckFields(*options, kStreamFields, {}, kPrefix));
  FieldReader inner(*options, kPrefix);
  request.continuous_usage = inner.Bool("continuous_usage_stats").value_or(false);
  request.include_usage = inner.Bool("include_usage").value_or(request.continuous_usage);
  if (request.continuous_usage && !request.include_usage) {
    inner.Wrong("continuous_usage_stats", R"(needs "include_usage": true)");
  }
  return inner.status();
}

absl::Status ReadCompletionsFields(FieldReader& fields, router::GenerationRequest& generation) {
  generation.sampling.logprobs = fields.Integer("logprobs");
  if (!generation.sampling.max_tokens.has_value()) generation.sampling.max_tokens = kCompletionsMaxTokens;
  const bool adds = fields.Bool("add_special_tokens").value_or(true);
  const json* const prompt = fields.Find("prompt");
  if (prompt == nullptr) return FieldViolation("prompt", "must be given");
  BATON_RETURN_IF_ERROR(ReadPrompts(*prompt, "prompt", adds, generation));
  if (generation.total_choices() <= kMaxChoices) return absl::OkStatus();
  return FieldViolation("n", absl::StrCat("at most ", kMaxChoices, " of all prompts together"));
}

absl::Status CheckMessage(const json& message, const std::string& field) {
  if (!message.is_object()) return FieldViolation(field, "must be an object");
  const json role = message.value("role", json());
  if (!role.is_string()) return FieldViolation(field + ".role", "must be a string");
  const absl::Span<const FieldRule> own = role == "assistant" ? absl::MakeConstSpan(kAssistantFields)
                                          : role == "tool"    ? kToolFields
                                                              : kSpeakerFields;
  return CheckFields(message, kMessageFields, own, field + ".");
}

absl::Status ReadMessage(const json& message, const std::string& field, CallNames& names,
                         std::vector<tokenizer::ChatMessage>& chat) {
  BATON_RETURN_IF_ERROR(CheckMessage(message, field));
  FieldReader fields(message, field + ".");
  const std::string role = fields.String("role");
  const std::string name = fields.String("name");
  const std::string call_id = fields.String("tool_call_id");
  BATON_RETURN_IF_ERROR(fields.status());
  std::vector<tokenizer::ChatToolCall> calls;
  if (const json* const given = fields.Find("tool_calls")) {
    BATON_ASSIGN_OR_RETURN(calls, ReadOpenAiCalls(*given, field + ".tool_calls"));
  }
  const json* const content = fields.Find("content");
  auto text = content != nullptr ? ReadTextContent(*content)
              : calls.empty()    ? std::nullopt
                                 : std::optional<std::string>("");
  if (!text.has_value()) return FieldViolation(field + ".content", "must be a string or a list of parts of text");
  if (role == "tool") {
    BATON_ASSIGN_OR_RETURN(tokenizer::ChatMessage result,
                           names.Result(call_id, *std::move(text), field + ".tool_call_id"));
    if (!name.empty()) result.name = name;
    chat.push_back(std::move(result));
    return absl::OkStatus();
  }
  for (const tokenizer::ChatToolCall& call : calls) names.Add(call);
  // "developer" is the newer name of the same role, which no template knows.
  chat.push_back({.role = role == "developer" ? "system" : role,
                  .content = *std::move(text),
                  .tool_calls = std::move(calls),
                  .name = name});
  return absl::OkStatus();
}

absl::StatusOr<router::ChatPrompt> ReadChatPrompt(FieldReader& fields, const ChatModel& model) {
  router::ChatPrompt chat;
  CallNames names;
  const auto read = [&names](const json& message, const std::string& field,
                             std::vector<tokenizer::ChatMessage>& messages) {
    return ReadMessage(message, field, names, messages);
  };
  BATON_ASSIGN_OR_RETURN(chat.messages, ReadMessageList(fields.Find("messages"), read));
  if (const json* const variables = fields.Find("chat_template_kwargs")) {
    BATON_RETURN_IF_ERROR(ReadTemplateVariables(*variables, model.chat_template, chat));
  }
  return chat;
}

absl::Status ReadChatFields(FieldReader& fields, const json& object, std::string_view body, const ChatModel& model,
                            OpenAiRequest& request) {
  router::SamplingRequest& sampling = request.generation.sampling;
  if (const auto most = fields.Integer("max_completion_tokens")) sampling.max_tokens = most;
  // The model ends by itself, or with its context.
  if (!sampling.max_tokens.has_value()) sampling.max_tokens = std::min(model.context_length, kMaxOutputTokens);
  const bool wants_logprobs = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Integer("top_logprobs");
  if (top.has_value() && !wants_logprobs) return FieldViolation("top_logprobs", "needs \"logprobs\": true");
  if (wants_logprobs) sampling.logprobs = top.value_or(0);
  request.generation.prompt_field = "messages";
  BATON_ASSIGN_OR_RETURN(request.generation.prompt, ReadChatPrompt(fields, model));
  BATON_ASSIGN_OR_RETURN(const ToolRequest tools, ReadOpenAiTools(OpenAiToolForm::kChat, object, body));
  BATON_ASSIGN_OR_RETURN(request.tools, ApplyTools(tools, ToolStyleOf(model.chat_template), request.generation));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenAiRequest> ReadOpenAiRequest(OpenAiEndpoint endpoint, std::string_view body,
                                                const ChatModel& model) {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  const bool is_chat = endpoint == OpenAiEndpoint::kChat;
  BATON_RETURN_IF_ERROR(
      CheckFields(object, kCommonFields, is_chat ? absl::MakeConstSpan(kChatFields) : kCompletionsFields));
  FieldReader fields(object);
  OpenAiRequest request;
  request.generation.model = fields.String("model");
  request.generation.sampling = ReadSamplingFields(fields);
  BATON_RETURN_IF_ERROR(ReadOpenAiFormat(object, body, request.generation.sampling));
  request.generation.stop = fields.Strings("stop");
  request.generation.choices = fields.Integer("n").value_or(1);
  if (request.generation.choices < 1 || request.generation.choices > kMaxChoices) {
    return FieldViolation("n", absl::StrCat("must be in [1, ", kMaxChoices, "]"));
  }
  request.generation.priority = ReadPriority(fields);
  request.request_id = ReadRequestId(fields);
  request.return_token_ids = fields.Bool("return_token_ids").value_or(false);
  request.generation.want_prompt_tokens = request.return_token_ids;
  request.return_phases = fields.Bool("return_phases").value_or(false);
  BATON_RETURN_IF_ERROR(ReadStream(fields, request));
  BATON_RETURN_IF_ERROR(ReadPromptLogprobs(fields, request.stream, request.generation, request.prompt));
  BATON_RETURN_IF_ERROR(is_chat ? ReadChatFields(fields, object, body, model, request)
                                : ReadCompletionsFields(fields, request.generation));
  if (!is_chat) ReadEcho(fields, request.generation, request.prompt);
  BATON_RETURN_IF_ERROR(fields.status());
  return request;
}

}  // namespace baton::gateway
