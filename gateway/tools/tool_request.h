// What a request says of its tools, in the words of no API.
#ifndef BATON_GATEWAY_TOOLS_TOOL_REQUEST_H_
#define BATON_GATEWAY_TOOLS_TOOL_REQUEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tokenizer/chat_template.h"

namespace baton::gateway {

struct Tool {
  std::string name;
  // Empty: none.
  std::string description;
  // The JSON Schema of its arguments, which are an object, with its members in the client's order.
  nlohmann::ordered_json parameters;
};

enum class ToolChoice : uint8_t {
  // The model sees no tools.
  kNone,
  // The model calls tools or does not.
  kAuto,
  // The answer is a call.
  kRequired,
  // The answer is a call of the tool that is named.
  kNamed,
};

struct ToolRequest {
  std::vector<Tool> tools;
  ToolChoice choice = ToolChoice::kNone;
  // For kNamed.
  std::string named;
  // The answer may have more than one call.
  bool takes_several = true;

  // Calls are looked for in the answer.
  bool is_in_force() const { return choice != ToolChoice::kNone; }
};

// Adds the tool that an API describes in `field`. INVALID_ARGUMENT, which names the field, for a name that is none or
// is there already, for parameters that are no schema, and beyond kMaxTools. Parameters that are null stand for none.
absl::Status AddTool(Tool tool, const std::string& field, ToolRequest& request);

// Checks the choice against the tools. Without tools, `field` may ask for none alone or leave it to the model.
absl::Status CheckToolChoice(const std::string& field, ToolRequest& request);

// A JSON object, as the text of a field: the arguments of a call. Nothing at all stands for an empty one.
absl::StatusOr<std::string> ReadArguments(std::string_view text, const std::string& field);

// The calls that a conversation has had, so that each result finds its tool.
class CallNames {
 public:
  void Add(const tokenizer::ChatToolCall& call) { names_[call.id] = call.name; }
  // The message with a result. INVALID_ARGUMENT for an id that no call has had.
  absl::StatusOr<tokenizer::ChatMessage> Result(const std::string& id, std::string content,
                                                const std::string& field) const;

 private:
  std::map<std::string, std::string> names_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_TOOL_REQUEST_H_
