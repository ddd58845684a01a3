#include "gateway/openai_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/limits.h"
#include "common/sampling_params.h"
#include "common/status.h"
#include "gateway/json_reading.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldStatus;
using router::FieldViolation;

// An error message shows this much of a key of logit_bias.
constexpr size_t kMaxShownKeyBytes = 64;

enum class FieldUse : uint8_t {
  kRead,
  // It changes nothing of the answer.
  kIgnored,
  // Not built: refused, but for the values that ask for nothing.
  kUnbuilt,
};

struct FieldRule {
  const char* name;
  FieldUse use = FieldUse::kRead;
  // For kUnbuilt, as JSON: the value that asks for nothing. null always does.
  const char* nothing = "null";
};

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
    {"priority"},
    {"user", FieldUse::kIgnored},
    {"n", FieldUse::kUnbuilt, "1"},
    {"best_of", FieldUse::kUnbuilt, "1"},
    {"use_beam_search", FieldUse::kUnbuilt, "false"},
    {"length_penalty", FieldUse::kUnbuilt, "1.0"},
    {"include_stop_str_in_output", FieldUse::kUnbuilt, "false"},
    {"skip_special_tokens", FieldUse::kUnbuilt, "true"},
    {"spaces_between_special_tokens", FieldUse::kUnbuilt, "true"},
    {"prompt_logprobs", FieldUse::kUnbuilt},
    {"truncate_prompt_tokens", FieldUse::kUnbuilt},
    {"response_format", FieldUse::kUnbuilt, R"({"type":"text"})"},
    {"structured_outputs", FieldUse::kUnbuilt},
    {"kv_transfer_params", FieldUse::kUnbuilt},
    {"cache_salt", FieldUse::kUnbuilt},
};

constexpr FieldRule kCompletionsFields[] = {
    {"prompt"},
    {"add_special_tokens"},
    {"echo", FieldUse::kUnbuilt, "false"},
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
    {"tools", FieldUse::kUnbuilt, "[]"},
    {"tool_choice", FieldUse::kUnbuilt, R"("none")"},
    {"parallel_tool_calls", FieldUse::kUnbuilt, "true"},
    {"functions", FieldUse::kUnbuilt},
    {"function_call", FieldUse::kUnbuilt},
    {"reasoning_effort", FieldUse::kUnbuilt},
    {"verbosity", FieldUse::kUnbuilt},
    {"modalities", FieldUse::kUnbuilt, R"(["text"])"},
    {"audio", FieldUse::kUnbuilt},
    {"prediction", FieldUse::kUnbuilt},
    {"web_search_options", FieldUse::kUnbuilt},
    {"chat_template", FieldUse::kUnbuilt},
    {"chat_template_kwargs", FieldUse::kUnbuilt, "{}"},
    {"add_generation_prompt", FieldUse::kUnbuilt, "true"},
    {"continue_final_message", FieldUse::kUnbuilt, "false"},
    {"echo", FieldUse::kUnbuilt, "false"},
};

const FieldRule* FindRule(absl::Span<const FieldRule> rules, const std::string& name) {
  const auto* const found =
      std::find_if(rules.begin(), rules.end(), [&name](const FieldRule& rule) { return name == rule.name; });
  return found == rules.end() ? nullptr : found;
}

absl::Status CheckFields(const json& body, absl::Span<const FieldRule> own) {
  for (const auto& [name, value] : body.items()) {
    const FieldRule* rule = FindRule(kCommonFields, name);
    if (rule == nullptr) rule = FindRule(own, name);
    if (rule == nullptr) return FieldViolation(name.substr(0, 64), "this field is not known");
    if (rule->use != FieldUse::kUnbuilt || value.is_null() || value == json::parse(rule->nothing)) continue;
    return FieldStatus(absl::StatusCode::kUnimplemented, {.field = name, .description = "not supported yet"});
  }
  return absl::OkStatus();
}

// Reads the fields of one object. The first field that is wrong gives the status.
class FieldReader {
 public:
  explicit FieldReader(const json& object, std::string prefix = "") : object_(object), prefix_(std::move(prefix)) {}

  const absl::Status& status() const { return status_; }
  // Null when there is none; null stands for none.
  const json* Find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  std::optional<bool> Bool(const char* name) {
    const json* value = Find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_boolean()) return value->get<bool>();
    return Wrong<bool>(name, "must be true or false");
  }
  std::optional<float> Number(const char* name) {
    const json* value = Find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_number() && std::isfinite(value->get<float>())) return value->get<float>();
    return Wrong<float>(name, "must be a number");
  }
  std::optional<int32_t> Integer(const char* name) {
    const json* value = Find(name);
    if (value == nullptr) return std::nullopt;
    if (const auto integer = ToInt32(*value)) return integer;
    return Wrong<int32_t>(name, "must be a whole number of 32 bits");
  }
  std::optional<uint64_t> Unsigned(const char* name) {
    const json* value = Find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_number_unsigned()) return value->get<uint64_t>();
    return Wrong<uint64_t>(name, "must be a whole number that is not negative");
  }
  std::string String(const char* name) {
    const json* value = Find(name);
    if (value == nullptr) return {};
    if (value->is_string()) return value->get<std::string>();
    return Wrong<std::string>(name, "must be a string").value_or("");
  }
  // A list, or one string.
  std::vector<std::string> Strings(const char* name) {
    const json* value = Find(name);
    if (value == nullptr) return {};
    if (value->is_string()) return {value->get<std::string>()};
    std::vector<std::string> strings;
    if (value->is_array()) {
      for (const json& each : *value) {
        if (!each.is_string()) break;
        strings.push_back(each.get<std::string>());
      }
      if (strings.size() == value->size()) return strings;
    }
    Wrong<bool>(name, "must be a string or a list of strings");
    return {};
  }
  std::vector<int32_t> Integers(const char* name) {
    const json* value = Find(name);
    if (value == nullptr) return {};
    if (auto integers = ToInt32s(*value)) return *std::move(integers);
    Wrong<bool>(name, "must be a list of whole numbers");
    return {};
  }
  template <typename T>
  std::optional<T> Wrong(const std::string& name, std::string_view description) {
    if (status_.ok()) status_ = FieldViolation(prefix_ + name, description);
    return std::nullopt;
  }

 private:
  const json& object_;
  const std::string prefix_;
  absl::Status status_;
};

// {"50256": -100}: the keys of a JSON object are strings. Only one spelling of a number is an id, so that no two keys
// mean the same token.
std::vector<TokenBias> ReadLogitBias(FieldReader& fields) {
  const json* const value = fields.Find("logit_bias");
  if (value == nullptr) return {};
  const auto wrong = [&fields](std::string_view description) {
    fields.Wrong<bool>("logit_bias", description);
    return std::vector<TokenBias>();
  };
  if (!value->is_object()) return wrong("must be an object of token ids and numbers");
  std::vector<TokenBias> biases;
  biases.reserve(value->size());
  for (const auto& [key, bias] : value->items()) {
    TokenBias each;
    if (!absl::SimpleAtoi(key, &each.token) || absl::StrCat(each.token) != key) {
      return wrong(absl::StrCat("the key \"", key.substr(0, kMaxShownKeyBytes), "\" must be a token id"));
    }
    if (bias.is_number()) each.bias = bias.get<float>();
    if (!bias.is_number() || !std::isfinite(each.bias)) {
      return wrong(absl::StrCat("that of token ", key, " must be a number"));
    }
    biases.push_back(each);
  }
  return biases;
}

router::SamplingRequest ReadCommonSampling(FieldReader& fields) {
  router::SamplingRequest sampling;
  sampling.temperature = fields.Number("temperature");
  sampling.top_k = fields.Integer("top_k");
  // vLLM says "all" with -1, as OpenAI's clients know it.
  if (sampling.top_k == -1) sampling.top_k = 0;
  sampling.top_p = fields.Number("top_p");
  sampling.min_p = fields.Number("min_p");
  sampling.repetition_penalty = fields.Number("repetition_penalty");
  sampling.frequency_penalty = fields.Number("frequency_penalty");
  sampling.presence_penalty = fields.Number("presence_penalty");
  sampling.seed = fields.Unsigned("seed");
  sampling.max_tokens = fields.Integer("max_tokens");
  sampling.min_tokens = fields.Integer("min_tokens");
  sampling.ignore_eos = fields.Bool("ignore_eos").value_or(false);
  sampling.stop_token_ids = fields.Integers("stop_token_ids");
  sampling.logit_bias = ReadLogitBias(fields);
  return sampling;
}

absl::Status ReadStream(FieldReader& fields, OpenAiRequest& request) {
  request.stream = fields.Bool("stream").value_or(false);
  const json* const options = fields.Find("stream_options");
  if (options == nullptr) return absl::OkStatus();
  if (!options->is_object()) return FieldViolation("stream_options", "must be an object");
  if (!request.stream) return FieldViolation("stream_options", "only a stream has them");
  for (const auto& [name, value] : options->items()) {
    // OpenAI's clients turn a padding of the chunks off, which Baton has not.
    if (name == "include_usage" || (name == "include_obfuscation" && value == false)) continue;
    return FieldViolation(absl::StrCat("stream_options.", name.substr(0, 64)), "this field is not known");
  }
  FieldReader inner(*options, "stream_options.");
  request.include_usage = inner.Bool("include_usage").value_or(false);
  return inner.status();
}

absl::Status ReadCompletionsFields(FieldReader& fields, router::GenerationRequest& generation) {
  generation.sampling.logprobs = fields.Integer("logprobs");
  if (!generation.sampling.max_tokens.has_value()) generation.sampling.max_tokens = kCompletionsMaxTokens;
  const bool adds = fields.Bool("add_special_tokens").value_or(true);
  const json* prompt = fields.Find("prompt");
  if (prompt == nullptr) return FieldViolation("prompt", "must be given");
  // A list of one prompt is that prompt.
  if (prompt->is_array() && prompt->size() == 1 && !prompt->front().is_number()) prompt = &prompt->front();
  if (prompt->is_string()) {
    generation.prompt = router::TextPrompt{.text = prompt->get<std::string>(), .add_special_tokens = adds};
    return absl::OkStatus();
  }
  if (auto ids = ToInt32s(*prompt)) {
    generation.prompt = router::TokenPrompt{.ids = *std::move(ids)};
    return absl::OkStatus();
  }
  const bool are_several = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  return are_several ? FieldStatus(absl::StatusCode::kUnimplemented,
                                   {.field = "prompt", .description = "one prompt a request is supported"})
                     : FieldViolation("prompt", "must be a string or a list of token ids");
}

// A string, or parts that all are text.
std::optional<std::string> ReadContent(const json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  for (const json& part : content) {
    if (!part.is_object() || part.size() != 2 || part.value("type", json()) != "text") return std::nullopt;
    const auto found = part.find("text");
    if (found == part.end() || !found->is_string()) return std::nullopt;
    text += found->get_ref<const std::string&>();
  }
  return text;
}

absl::StatusOr<tokenizer::ChatMessage> ReadMessage(const json& message, const std::string& field) {
  if (!message.is_object()) return FieldViolation(field, "must be an object");
  for (const auto& [name, value] : message.items()) {
    if (name == "role" || name == "content" || value.is_null()) continue;
    return FieldStatus(absl::StatusCode::kUnimplemented,
                       {.field = absl::StrCat(field, ".", name.substr(0, 64)), .description = "not supported yet"});
  }
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return FieldViolation(field + ".role", "must be a string");
  const auto content = message.find("content");
  auto text = content == message.end() ? std::nullopt : ReadContent(*content);
  if (!text.has_value()) return FieldViolation(field + ".content", "must be a string or a list of parts of text");
  // The newer name of the same role, which no template knows.
  std::string name = *role == "developer" ? "system" : role->get<std::string>();
  return tokenizer::ChatMessage{.role = std::move(name), .content = *std::move(text)};
}

absl::Status ReadChatFields(FieldReader& fields, int32_t context_length, router::GenerationRequest& generation) {
  router::SamplingRequest& sampling = generation.sampling;
  if (const auto most = fields.Integer("max_completion_tokens")) sampling.max_tokens = most;
  // The model ends by itself, or with its context.
  if (!sampling.max_tokens.has_value()) sampling.max_tokens = std::min(context_length, kMaxOutputTokens);
  const bool wants_logprobs = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Integer("top_logprobs");
  if (top.has_value() && !wants_logprobs) return FieldViolation("top_logprobs", "needs \"logprobs\": true");
  if (wants_logprobs) sampling.logprobs = top.value_or(0);
  const json* const messages = fields.Find("messages");
  if (messages == nullptr || !messages->is_array()) return FieldViolation("messages", "must be a list of messages");
  if (messages->size() > kMaxChatMessages) {
    return FieldViolation("messages", absl::StrCat("at most ", kMaxChatMessages, " messages, not ", messages->size()));
  }
  router::ChatPrompt chat;
  for (const json& message : *messages) {
    BATON_ASSIGN_OR_RETURN(tokenizer::ChatMessage read,
                           ReadMessage(message, absl::StrCat("messages[", chat.messages.size(), "]")));
    chat.messages.push_back(std::move(read));
  }
  generation.prompt = std::move(chat);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenAiRequest> ReadOpenAiRequest(OpenAiEndpoint endpoint, std::string_view body,
                                                int32_t context_length) {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  const bool is_chat = endpoint == OpenAiEndpoint::kChat;
  BATON_RETURN_IF_ERROR(CheckFields(object, is_chat ? absl::MakeConstSpan(kChatFields) : kCompletionsFields));
  FieldReader fields(object);
  OpenAiRequest request;
  request.generation.model = fields.String("model");
  request.generation.sampling = ReadCommonSampling(fields);
  request.generation.stop = fields.Strings("stop");
  request.generation.priority = fields.Integer("priority").value_or(0);
  request.return_token_ids = fields.Bool("return_token_ids").value_or(false);
  BATON_RETURN_IF_ERROR(ReadStream(fields, request));
  BATON_RETURN_IF_ERROR(is_chat ? ReadChatFields(fields, context_length, request.generation)
                                : ReadCompletionsFields(fields, request.generation));
  BATON_RETURN_IF_ERROR(fields.status());
  return request;
}

}  // namespace baton::gateway
