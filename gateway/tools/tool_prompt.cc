#include "gateway/tools/tool_prompt.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/json_text.h"
#include "gateway/json_writing.h"
#include "gateway/tools/tool_schema.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::ordered_json;
using tokenizer::ChatMessage;

// As OpenAI describes a tool, which transformers hands on to templates.
std::string DescriptionOf(const Tool& tool) {
  ordered_json function = {{"name", tool.name}};
  if (!tool.description.empty()) function["description"] = tool.description;
  function["parameters"] = tool.parameters;
  return ordered_json({{"type", "function"}, {"function", std::move(function)}})
      .dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string DescriptionsOf(const ToolRequest& request, const char* separator) {
  std::string all;
  for (const Tool& tool : request.tools) absl::StrAppend(&all, all.empty() ? "" : separator, DescriptionOf(tool));
  return all;
}

std::string SystemText(const ToolRequest& request) {
  return absl::StrCat(
      "# Tools\n\nYou can call functions to answer the user. Each line within <tools></tools> describes one of them in "
      "JSON:\n<tools>\n",
      DescriptionsOf(request, "\n"),
      "\n</tools>\n\nTo call a function, write a JSON object with its name and its arguments within "
      "<tool_call></tool_call>, once for each call:\n<tool_call>\n"
      R"({"name": "the name", "arguments": {"a parameter": "its value"}})"
      "\n</tool_call>");
}

std::string CallsText(const std::vector<tokenizer::ChatToolCall>& calls) {
  std::string text;
  for (const tokenizer::ChatToolCall& call : calls) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", "<tool_call>\n{\"name\": ", JsonString(call.name),
                    ", \"arguments\": ", call.arguments, "}\n</tool_call>");
  }
  return text;
}

void AppendLine(std::string* text, const std::string& line) { absl::StrAppend(text, text->empty() ? "" : "\n", line); }

// Turns calls into texts of the assistant and results into texts of the user, each as the model would see them had its
// template written them. Results beside each other are one message.
std::vector<ChatMessage> WithoutTools(std::vector<ChatMessage> messages) {
  std::vector<ChatMessage> plain;
  bool follows_result = false;
  for (ChatMessage& message : messages) {
    const bool is_result = message.role == "tool";
    if (!message.tool_calls.empty()) AppendLine(&message.content, CallsText(message.tool_calls));
    if (is_result) message.content = absl::StrCat("<tool_response>\n", message.content, "\n</tool_response>");
    if (is_result && follows_result) {
      AppendLine(&plain.back().content, message.content);
    } else {
      plain.push_back({.role = is_result ? "user" : std::move(message.role),
                       .content = std::move(message.content),
                       .name = is_result ? "" : std::move(message.name)});
    }
    follows_result = is_result;
  }
  return plain;
}

}  // namespace

void WriteTools(const ToolRequest& request, const ToolStyle& style, router::ChatPrompt& chat) {
  if (style.template_writes) {
    if (request.is_in_force()) chat.tools = absl::StrCat("[", DescriptionsOf(request, ","), "]");
    return;
  }
  chat.messages = WithoutTools(std::move(chat.messages));
  if (!request.is_in_force()) return;
  if (chat.messages.empty() || chat.messages.front().role != "system") {
    chat.messages.insert(chat.messages.begin(), {.role = "system", .content = ""});
  }
  std::string& system = chat.messages.front().content;
  absl::StrAppend(&system, system.empty() ? "" : "\n\n", SystemText(request));
}

absl::StatusOr<ToolReading> ConstrainCalls(const ToolRequest& request, const ToolStyle& style, router::ChatPrompt& chat,
                                           router::SamplingRequest& sampling) {
  ToolReading reading = {.takes_several = request.takes_several};
  if (!request.is_in_force()) return reading;
  if (!sampling.grammar.empty()) {
    return router::FieldStatus(
        absl::StatusCode::kUnimplemented,
        {.field = sampling.grammar_field, .description = "not supported yet beside tools that may be called"});
  }
  for (const Tool& tool : request.tools) reading.names.push_back(tool.name);
  reading.form = style.has_tags ? CallForm::kTags : CallForm::kBare;
  if (request.choice == ToolChoice::kAuto) return reading;
  reading.form = CallForm::kOneCall;
  sampling.grammar = CallGrammar(request, style.arguments_key);
  sampling.grammar_field = "tools";
  if (style.has_tags) chat.answer_begin = "<tool_call>\n";
  return reading;
}

absl::StatusOr<ToolReading> ApplyTools(const ToolRequest& request, const ToolStyle& style,
                                       router::GenerationRequest& generation) {
  auto& chat = std::get<router::ChatPrompt>(generation.prompt);
  WriteTools(request, style, chat);
  return ConstrainCalls(request, style, chat, generation.sampling);
}

absl::Status ReadTemplateVariables(const nlohmann::json& variables, const tokenizer::ChatTemplate* chat_template,
                                   router::ChatPrompt& chat) {
  constexpr char kField[] = "chat_template_kwargs";
  if (!variables.is_object()) return router::FieldViolation(kField, "must be an object");
  static constexpr const char* kOwn[] = {"messages",  "tools",    "documents", "add_generation_prompt",
                                         "bos_token", "eos_token"};
  for (const auto& [name, value] : variables.items()) {
    const std::string field = absl::StrCat(kField, ".", name.substr(0, kMaxShownNameBytes));
    const bool is_own = std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn);
    if (is_own) return router::FieldViolation(field, "the request says it in another way");
    if (chat_template == nullptr || !chat_template->Reads(name)) {
      return router::FieldViolation(field, "the model's chat template does not read it");
    }
  }
  if (variables.empty()) return absl::OkStatus();
  chat.variables = variables.dump();
  return ParseOrdered(chat.variables, kField).status();
}

}  // namespace baton::gateway
