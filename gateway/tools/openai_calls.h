// Writes the text and the calls of an answer as OpenAI's chats have them.
#ifndef BATON_GATEWAY_TOOLS_OPENAI_CALLS_H_
#define BATON_GATEWAY_TOOLS_OPENAI_CALLS_H_

#include <string>
#include <string_view>
#include <utility>

#include "gateway/tools/tool_call_parser.h"

namespace baton::gateway {

// For one answer. Used by one thread at a time.
class OpenAiCalls {
 public:
  // The ids of the calls begin with "call_" and `id`, which no other answer has.
  OpenAiCalls(ToolReading reading, bool is_stream, std::string id)
      : parser_(std::move(reading), is_stream), id_(std::move(id)) {}

  // The members of a delta for what has become certain with this text; empty when nothing has.
  std::string Delta(std::string_view text) { return DeltaMembers(parser_.Add(text)); }
  // Those of the delta with what is left when the answer has ended.
  std::string LastDelta() { return DeltaMembers(parser_.End()); }
  // The members of a message with the whole answer.
  std::string Message(std::string_view text);

  // There has been one.
  bool has_calls() const { return parser_.calls() > 0; }

 private:
  std::string DeltaMembers(const AnswerPieces& pieces) const;
  // The inside of a list of calls. Of a delta each has its index, and says who it is when it begins.
  std::string Calls(const AnswerPieces& pieces, bool is_delta) const;

  ToolCallParser parser_;
  const std::string id_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_OPENAI_CALLS_H_
