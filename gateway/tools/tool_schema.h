// The grammar of an answer that must be a call.
#ifndef BATON_GATEWAY_TOOLS_TOOL_SCHEMA_H_
#define BATON_GATEWAY_TOOLS_TOOL_SCHEMA_H_

#include <string>

#include "common/output_grammar.h"
#include "gateway/tools/tool_request.h"

namespace baton::gateway {

// The JSON Schema of {"name": ..., "<arguments_key>": {...}} for each tool that the choice allows, which is kRequired
// or kNamed. References in the schemas of tools go on meaning what they mean there.
OutputGrammar CallGrammar(const ToolRequest& request, const std::string& arguments_key);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_TOOL_SCHEMA_H_
