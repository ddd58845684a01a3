#include "gateway/responses_request.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/json_reading.h"
#include "gateway/json_text.h"
#include "gateway/output_format.h"
#include "gateway/sampling_fields.h"
#include "gateway/tools/openai_tools.h"
#include "gateway/tools/tool_prompt.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldViolation;

constexpr FieldRule kResponsesFields[] = {
    {"model"},
    {"input"},
    {"instructions"},
    {"max_output_tokens"},
    {"temperature"},
    {"top_p"},
    {"top_logprobs"},
    {"include"},
    {"text"},
    {"metadata"},
    {"stream"},
    // As vLLM takes them.
    {"seed"},
    {"top_k"},
    {"min_p"},
    {"priority"},
    // No answer is kept, whatever these say.
    {"store", FieldUse::kIgnored},
    {"prompt_cache_key", FieldUse::kIgnored},
    {"prompt_cache_retention", FieldUse::kIgnored},
    {"safety_identifier", FieldUse::kIgnored},
    {"service_tier", FieldUse::kIgnored},
    {"user", FieldUse::kIgnored},
    {"parallel_tool_calls"},
    {"tool_choice"},
    {"tools"},
    {"max_tool_calls", FieldUse::kUnbuilt},
    {"background", FieldUse::kUnbuilt, "false"},
    {"context_management", FieldUse::kUnbuilt},
    {"conversation", FieldUse::kUnbuilt},
    {"moderation", FieldUse::kUnbuilt},
    {"previous_response_id", FieldUse::kUnbuilt},
    {"prompt", FieldUse::kUnbuilt},
    {"reasoning", FieldUse::kUnbuilt, "{}"},
    {"stream_options", FieldUse::kUnbuilt, R"({"include_obfuscation":false})"},
    {"truncation", FieldUse::kUnbuilt, R"("disabled")"},
};

// An answer of before comes back as it was given.
constexpr FieldRule kItemFields[] = {{"role"},
                                     {"content"},
                                     {"type"},
                                     {"id", FieldUse::kIgnored},
                                     {"status", FieldUse::kIgnored},
                                     {"phase", FieldUse::kUnbuilt}};

const TextParts& InputText() {
  static const TextParts* const kParts =
      new TextParts{.types = {"input_text", "output_text"}, .ignored = {"annotations", "logprobs"}};
  return *kParts;
}

absl::Status ReadMessageItem(const json& item, const std::string& field, std::vector<tokenizer::ChatMessage>& chat) {
  BATON_RETURN_IF_ERROR(CheckFields(item, kItemFields, {}, field + "."));
  const json role = item.value("role", json());
  if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
    return FieldViolation(field + ".role", R"(must be "user", "assistant", "system" or "developer")");
  }
  auto text = ReadTextContent(item.value("content", json()), InputText());
  if (!text.has_value()) return FieldViolation(field + ".content", "must be a string or a list of parts of text");
  chat.push_back({.role = role == "developer" ? "system" : role.get<std::string>(), .content = *std::move(text)});
  return absl::OkStatus();
}

absl::StatusOr<tokenizer::ChatMessage> ReadCallOutput(const json& item, const std::string& field,
                                                      const CallNames& names) {
  static constexpr FieldRule kFields[] = {{"type"},
                                          {"call_id"},
                                          {"output"},
                                          {"id", FieldUse::kIgnored},
                                          {"status", FieldUse::kIgnored},
                                          {"name", FieldUse::kIgnored},
                                          {"caller", FieldUse::kUnbuilt, R"({"type":"direct"})"},
                                          {"namespace", FieldUse::kUnbuilt}};
  BATON_RETURN_IF_ERROR(CheckFields(item, kFields, {}, field + "."));
  FieldReader fields(item, field + ".");
  const std::string id = fields.String("call_id");
  BATON_RETURN_IF_ERROR(fields.status());
  auto text = ReadTextContent(item.value("output", json()), InputText());
  if (!text.has_value()) return FieldViolation(field + ".output", "must be a string or a list of parts of text");
  return names.Result(id, *std::move(text), field + ".call_id");
}

absl::Status ReadItem(const json& item, const std::string& field, CallNames& names,
                      std::vector<tokenizer::ChatMessage>& chat) {
  if (!item.is_object()) return FieldViolation(field, "must be an object");
  const json type = item.value("type", json("message"));
  if (type == "message") return ReadMessageItem(item, field, chat);
  if (type == "function_call") {
    BATON_ASSIGN_OR_RETURN(tokenizer::ChatToolCall call, ReadFunctionCallItem(item, field));
    names.Add(call);
    // What an assistant says and calls in one turn is one message.
    if (chat.empty() || chat.back().role != "assistant") chat.push_back({.role = "assistant", .content = ""});
    chat.back().tool_calls.push_back(std::move(call));
    return absl::OkStatus();
  }
  if (type == "function_call_output") {
    BATON_ASSIGN_OR_RETURN(tokenizer::ChatMessage result, ReadCallOutput(item, field, names));
    chat.push_back(std::move(result));
    return absl::OkStatus();
  }
  return router::FieldStatus(
      absl::StatusCode::kUnimplemented,
      {.field = field + ".type", .description = "only messages, function calls and their outputs are supported yet"});
}

absl::StatusOr<router::ChatPrompt> ReadInput(FieldReader& fields) {
  router::ChatPrompt chat;
  if (std::string instructions = fields.String("instructions"); !instructions.empty()) {
    chat.messages.push_back({.role = "system", .content = std::move(instructions)});
  }
  const json* const input = fields.Find("input");
  if (input != nullptr && input->is_string()) {
    chat.messages.push_back({.role = "user", .content = input->get<std::string>()});
    return chat;
  }
  CallNames names;
  const auto read = [&names](const json& item, const std::string& field,
                             std::vector<tokenizer::ChatMessage>& messages) {
    return ReadItem(item, field, names, messages);
  };
  BATON_ASSIGN_OR_RETURN(std::vector<tokenizer::ChatMessage> messages, ReadMessageList(input, read, "input"));
  std::move(messages.begin(), messages.end(), std::back_inserter(chat.messages));
  return chat;
}

// What the answer shall have beside its text.
absl::Status ReadInclude(FieldReader& fields, router::SamplingRequest& sampling) {
  const std::vector<std::string> include = fields.Strings("include");
  const bool wants_logprobs =
      std::find(include.begin(), include.end(), "message.output_text.logprobs") != include.end();
  if (include.size() > (wants_logprobs ? 1 : 0)) {
    return router::FieldStatus(
        absl::StatusCode::kUnimplemented,
        {.field = "include", .description = "only message.output_text.logprobs is supported yet"});
  }
  const auto top = fields.Integer("top_logprobs");
  if (top.has_value() && *top != 0 && !wants_logprobs) {
    return FieldViolation("top_logprobs", R"(needs "include": ["message.output_text.logprobs"])");
  }
  if (wants_logprobs) sampling.logprobs = top.value_or(0);
  return absl::OkStatus();
}

absl::Status ReadTools(const FieldReader& fields, const json& object, std::string_view body, const ChatModel& model,
                       ResponsesRequest& request) {
  BATON_ASSIGN_OR_RETURN(const ToolRequest tools, ReadOpenAiTools(OpenAiToolForm::kResponses, object, body));
  BATON_ASSIGN_OR_RETURN(request.reading, ApplyTools(tools, ToolStyleOf(model.chat_template), request.generation));
  if (tools.is_in_force() && request.generation.sampling.logprobs.has_value()) {
    // Which of a token's bytes are text is not known when it comes.
    return router::FieldStatus(
        absl::StatusCode::kUnimplemented,
        {.field = "include", .description = "log-probabilities are not supported yet beside tools"});
  }
  if (fields.Find("tools") != nullptr) request.tools = CompactJson(JsonMember(body, "tools"));
  return absl::OkStatus();
}

// The member as the answer repeats it.
std::string Repeated(const FieldReader& fields, const char* name, const std::string& otherwise) {
  const json* const found = fields.Find(name);
  return found == nullptr ? otherwise : found->dump();
}

}  // namespace

absl::StatusOr<ResponsesRequest> ReadResponsesRequest(std::string_view body, const ChatModel& model) {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  BATON_RETURN_IF_ERROR(CheckFields(object, kResponsesFields));
  FieldReader fields(object);
  ResponsesRequest request;
  request.generation.model = fields.String("model");
  request.stream = fields.Bool("stream").value_or(false);
  request.generation.priority = ReadPriority(fields);
  router::SamplingRequest& sampling = request.generation.sampling;
  sampling.temperature = fields.Number("temperature");
  sampling.top_p = fields.Number("top_p");
  sampling.top_k = fields.Integer("top_k");
  sampling.min_p = fields.Number("min_p");
  sampling.seed = fields.Unsigned("seed");
  sampling.max_tokens = fields.Integer("max_output_tokens");
  // The model ends by itself, or with its context.
  if (!sampling.max_tokens.has_value()) sampling.max_tokens = std::min(model.context_length, kMaxOutputTokens);
  BATON_RETURN_IF_ERROR(ReadInclude(fields, sampling));
  BATON_RETURN_IF_ERROR(ReadResponsesFormat(object, body, sampling));
  const json* const metadata = fields.Find("metadata");
  if (metadata != nullptr && !metadata->is_object()) return FieldViolation("metadata", "must be an object");
  request.generation.prompt_field = "input";
  BATON_ASSIGN_OR_RETURN(request.generation.prompt, ReadInput(fields));
  BATON_RETURN_IF_ERROR(fields.status());
  BATON_RETURN_IF_ERROR(ReadTools(fields, object, body, model, request));
  request.instructions = Repeated(fields, "instructions", request.instructions);
  request.max_output_tokens = Repeated(fields, "max_output_tokens", request.max_output_tokens);
  request.metadata = Repeated(fields, "metadata", request.metadata);
  request.parallel_tool_calls = Repeated(fields, "parallel_tool_calls", request.parallel_tool_calls);
  request.temperature = Repeated(fields, "temperature", request.temperature);
  request.text = Repeated(fields, "text", request.text);
  request.tool_choice = Repeated(fields, "tool_choice", request.tool_choice);
  request.top_p = Repeated(fields, "top_p", request.top_p);
  return request;
}

}  // namespace baton::gateway
