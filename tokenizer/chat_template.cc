#include "tokenizer/chat_template.h"

#include <utility>

#include "common/status.h"
#include "nlohmann/json.hpp"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/parser.h"

namespace baton::tokenizer {

struct ChatTemplate::Program {
  jinja::Body body;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source, const jinja::Limits& limits) {
  BATON_ASSIGN_OR_RETURN(jinja::Body body, jinja::ParseTemplate(source, limits));
  auto program = std::make_unique<Program>();
  program->body = std::move(body);
  return ChatTemplate(std::move(program));
}

absl::StatusOr<std::string> ChatTemplate::RenderChat(const ChatInput& input, const RenderOptions& options) const {
  nlohmann::ordered_json variables;
  variables["messages"] = nlohmann::ordered_json::array();
  for (const ChatMessage& message : input.messages) {
    variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  variables["add_generation_prompt"] = input.add_generation_prompt;
  // transformers passes these variables even if a chat has none.
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  if (!input.bos_token.empty()) variables["bos_token"] = input.bos_token;
  if (!input.eos_token.empty()) variables["eos_token"] = input.eos_token;
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
