#include "tokenizer/chat_template.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "nlohmann/json.hpp"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/lexer.h"
#include "tokenizer/jinja/parser.h"

namespace baton::tokenizer {

namespace {

using nlohmann::ordered_json;

absl::StatusOr<ordered_json> ParseMember(const std::string& text, ordered_json::value_t type, const char* what) {
  ordered_json parsed = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.type() == type) return parsed;
  return absl::InvalidArgumentError(absl::StrCat(what, " are no JSON of their kind"));
}

absl::StatusOr<ordered_json> MessageVariable(const ChatMessage& message) {
  ordered_json variable = {{"role", message.role}, {"content", message.content}};
  if (!message.tool_call_id.empty()) variable["tool_call_id"] = message.tool_call_id;
  if (!message.name.empty()) variable["name"] = message.name;
  for (const ChatToolCall& call : message.tool_calls) {
    ordered_json function = {{"name", call.name}};
    BATON_ASSIGN_OR_RETURN(function["arguments"],
                           ParseMember(call.arguments, ordered_json::value_t::object, "the arguments of a call"));
    variable["tool_calls"].push_back({{"id", call.id}, {"type", "function"}, {"function", std::move(function)}});
  }
  return variable;
}

}  // namespace

absl::StatusOr<ordered_json> ChatVariables(const ChatInput& input) {
  ordered_json variables;
  variables["messages"] = ordered_json::array();
  for (const ChatMessage& message : input.messages) {
    BATON_ASSIGN_OR_RETURN(ordered_json variable, MessageVariable(message));
    variables["messages"].push_back(std::move(variable));
  }
  variables["add_generation_prompt"] = input.add_generation_prompt;
  // transformers passes these variables even if a chat has none.
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  if (!input.tools.empty()) {
    BATON_ASSIGN_OR_RETURN(variables["tools"], ParseMember(input.tools, ordered_json::value_t::array, "the tools"));
  }
  if (!input.bos_token.empty()) variables["bos_token"] = input.bos_token;
  if (!input.eos_token.empty()) variables["eos_token"] = input.eos_token;
  if (!input.variables.empty()) {
    BATON_ASSIGN_OR_RETURN(const ordered_json more,
                           ParseMember(input.variables, ordered_json::value_t::object, "the variables"));
    for (const auto& [name, value] : more.items()) variables[name] = value;
  }
  return variables;
}

struct ChatTemplate::Program {
  jinja::Body body;
  absl::flat_hash_set<std::string> names;
  // All texts and strings, each behind a character that is in none.
  std::string texts;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source, const jinja::Limits& limits) {
  BATON_ASSIGN_OR_RETURN(jinja::Body body, jinja::ParseTemplate(source, limits));
  auto program = std::make_unique<Program>();
  program->body = std::move(body);
  BATON_ASSIGN_OR_RETURN(const std::vector<jinja::Token> tokens, jinja::Tokenize(source));
  bool is_member = false;
  for (const jinja::Token& token : tokens) {
    const bool is_text = token.kind == jinja::TokenKind::kText || token.kind == jinja::TokenKind::kString;
    if (is_text) program->texts.append(1, '\0').append(token.text);
    if (token.kind == jinja::TokenKind::kName && !is_member) program->names.insert(token.text);
    is_member = token.kind == jinja::TokenKind::kOperator && token.text == ".";
  }
  return ChatTemplate(std::move(program));
}

bool ChatTemplate::Reads(std::string_view variable) const { return program_->names.contains(ToAbsl(variable)); }

bool ChatTemplate::Writes(std::string_view text) const { return program_->texts.find(text) != std::string::npos; }

absl::StatusOr<std::string> ChatTemplate::RenderChat(const ChatInput& input, const RenderOptions& options) const {
  BATON_ASSIGN_OR_RETURN(const ordered_json variables, ChatVariables(input));
  return Render(variables, options);
}

absl::StatusOr<std::string> ChatTemplate::Render(const nlohmann::ordered_json& variables,
                                                 const RenderOptions& options) const {
  if (!variables.is_object()) return absl::InvalidArgumentError("the variables of a chat template must be an object");
  jinja::Budget budget(options.limits, *options.clock);
  jinja::Interpreter interpreter(&budget, options.strftime_now);
  for (const auto& [name, json] : variables.items()) {
    BATON_ASSIGN_OR_RETURN(jinja::Value value, jinja::FromJson(&budget, json));
    interpreter.SetVariable(name, std::move(value));
  }
  return interpreter.Render(program_->body);
}

}  // namespace baton::tokenizer
