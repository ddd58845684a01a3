#include "gateway/tools/tool_style.h"

namespace baton::gateway {

ChatModel ChatModelOf(const router::ServedModel& model) {
  return {.context_length = model.config.context_length,
          .chat_template = model.chat_template.has_value() ? &*model.chat_template : nullptr};
}

ToolStyle ToolStyleOf(const tokenizer::ChatTemplate* chat_template) {
  ToolStyle style;
  if (chat_template == nullptr || !chat_template->Reads("tools")) return style;
  style.template_writes = true;
  style.has_tags = chat_template->Writes("<tool_call>");
  const bool says_parameters = chat_template->Writes(R"("parameters": )") && !chat_template->Writes(R"("arguments")");
  if (!style.has_tags && says_parameters) style.arguments_key = "parameters";
  return style;
}

}  // namespace baton::gateway
