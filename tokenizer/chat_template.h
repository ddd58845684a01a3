// Turns chat messages into a prompt with the model's own template: a subset of Jinja, rendered as transformers does.
#ifndef BATON_TOKENIZER_CHAT_TEMPLATE_H_
#define BATON_TOKENIZER_CHAT_TEMPLATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "nlohmann/json_fwd.hpp"
#include "tokenizer/jinja/budget.h"

namespace baton::tokenizer {

// A call of a tool, as the assistant made it.
struct ChatToolCall {
  std::string id;
  std::string name;
  // A JSON object.
  std::string arguments;
};

struct ChatMessage {
  std::string role;
  std::string content;
  // Of an assistant.
  std::vector<ChatToolCall> tool_calls = {};
  // Of the role "tool": which call the content answers.
  std::string tool_call_id = {};
  // Of the role "tool", that of the tool; of any other, what the client calls who speaks. Few templates read it.
  std::string name = {};
};

struct ChatInput {
  std::vector<ChatMessage> messages;
  bool add_generation_prompt = false;
  // A JSON list of tools, each as OpenAI describes it; empty: none.
  std::string tools = {};
  // A JSON object of further variables; empty: none. They go before those of the same name.
  std::string variables = {};
  // Written forms (Tokenizer::TokenText). The template sees empty ones as undefined.
  std::string bos_token = {};
  std::string eos_token = {};
};

// What a template sees of a chat, by the names and in the forms of transformers: an object. INVALID_ARGUMENT for tools,
// variables or arguments of calls that are no JSON of their kind.
absl::StatusOr<nlohmann::ordered_json> ChatVariables(const ChatInput& input);

// What a render may use and what it sees of the outside world.
struct RenderOptions {
  jinja::Limits limits;
  // Measures the time against its bound; must outlive the call.
  const Clock* clock = &MonotonicClock();
  // The template's strftime_now(format). If null, calling it is an error, so that a prompt depends on its input alone.
  std::function<absl::StatusOr<std::string>(std::string_view format)> strftime_now;
};

// Immutable and thread-safe after Parse.
class ChatTemplate {
 public:
  // INVALID_ARGUMENT for a template that Baton cannot read, RESOURCE_EXHAUSTED for one beyond the limits. Both errors
  // name the line.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source, const jinja::Limits& limits = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Whether the template names the variable.
  bool Reads(std::string_view variable) const;
  // Whether one of its texts, or of the strings in its code, has `text` in it.
  bool Writes(std::string_view text) const;

  // INVALID_ARGUMENT: the template refuses the chat or fails on it, a message is not valid UTF-8, or as ChatVariables.
  // RESOURCE_EXHAUSTED or DEADLINE_EXCEEDED: the render reached a limit.
  absl::StatusOr<std::string> RenderChat(const ChatInput& input, const RenderOptions& options = {}) const;

  // The same with any variables: the template sees the members of the object `variables` by name.
  absl::StatusOr<std::string> Render(const nlohmann::ordered_json& variables, const RenderOptions& options = {}) const;

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_CHAT_TEMPLATE_H_
