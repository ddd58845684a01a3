// How a family of models is told of tools and writes its calls.
#ifndef BATON_GATEWAY_TOOLS_TOOL_STYLE_H_
#define BATON_GATEWAY_TOOLS_TOOL_STYLE_H_

#include <cstdint>

#include "router/served_model.h"
#include "tokenizer/chat_template.h"

namespace baton::gateway {

// What the reader of a chat has to know of the served model.
struct ChatModel {
  // Bounds an answer where the request does not.
  int32_t context_length = 0;
  // Null: the model has none. It outlives the reading.
  const tokenizer::ChatTemplate* chat_template = nullptr;
};

ChatModel ChatModelOf(const router::ServedModel& model);

// docs/tools.md has the table of families.
struct ToolStyle {
  // The chat template writes tools, calls and results. Otherwise Baton does, in text: in the form of Hermes and Qwen.
  bool template_writes = false;
  // A call stands in <tool_call> tags. Otherwise it is the whole answer, as Llama's is.
  bool has_tags = true;
  // The member of a call that has its arguments.
  const char* arguments_key = "arguments";
};

// Null: the model has no template.
ToolStyle ToolStyleOf(const tokenizer::ChatTemplate* chat_template);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_TOOL_STYLE_H_
