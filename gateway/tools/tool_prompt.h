// Puts the tools of a request into its prompt and its sampling.
#ifndef BATON_GATEWAY_TOOLS_TOOL_PROMPT_H_
#define BATON_GATEWAY_TOOLS_TOOL_PROMPT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gateway/tools/tool_call_parser.h"
#include "gateway/tools/tool_request.h"
#include "gateway/tools/tool_style.h"
#include "nlohmann/json.hpp"
#include "router/generation.h"
#include "tokenizer/chat_template.h"

namespace baton::gateway {

// The tools, and the calls and results among the messages, in the words of the model.
void WriteTools(const ToolRequest& request, const ToolStyle& style, router::ChatPrompt& chat);

// Makes the answer a call where the choice says so: by a grammar, behind a begin of the answer that the model knows.
// How the answer is read. UNIMPLEMENTED, by the name of its field, for a format of the answer beside tools.
absl::StatusOr<ToolReading> ConstrainCalls(const ToolRequest& request, const ToolStyle& style, router::ChatPrompt& chat,
                                           router::SamplingRequest& sampling);

// Both, for a request whose prompt is a chat.
absl::StatusOr<ToolReading> ApplyTools(const ToolRequest& request, const ToolStyle& style,
                                       router::GenerationRequest& generation);

// A chat_template_kwargs: variables of the chat template, which it must read. INVALID_ARGUMENT names the field.
absl::Status ReadTemplateVariables(const nlohmann::json& variables, const tokenizer::ChatTemplate* chat_template,
                                   router::ChatPrompt& chat);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_TOOL_PROMPT_H_
