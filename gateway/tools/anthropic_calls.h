// Writes the text and the calls of an answer as Anthropic's blocks.
#ifndef BATON_GATEWAY_TOOLS_ANTHROPIC_CALLS_H_
#define BATON_GATEWAY_TOOLS_ANTHROPIC_CALLS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/tools/tool_call_parser.h"

namespace baton::gateway {

// A server-sent event; `type` is in `data` too.
std::string AnthropicEvent(const char* type, const std::string& data);

// For one answer. Used by one thread at a time. Each text and each call is a block; there is one at the least.
class AnthropicContent {
 public:
  // The ids of the calls begin with "toolu_" and `id`, which no other answer has.
  AnthropicContent(ToolReading reading, bool is_stream, std::string id)
      : has_tools_(reading.form != CallForm::kNone), parser_(std::move(reading), is_stream), id_(std::move(id)) {}

  // The first events of a stream. Without tools its block is known.
  std::string Begin() { return has_tools_ ? "" : OpenText(); }
  // The events for what has become certain with this text.
  std::string Delta(std::string_view text) { return Events(parser_.Add(text)); }
  // The last ones.
  std::string End();
  // The inside of the list of blocks of a whole answer. A call that was cut off has an empty input.
  std::string Blocks(std::string_view text);

  // There has been one.
  bool has_calls() const { return parser_.calls() > 0; }

 private:
  enum class Block : uint8_t { kNone, kText, kCall };

  std::string Events(const AnswerPieces& pieces);
  std::string OpenText() { return Open(Block::kText, R"({"type":"text","text":""})"); }
  std::string Open(Block kind, const std::string& block);
  std::string DeltaEvent(const char* members, const std::string& text) const;
  std::string Close();
  // The members of a call up to its input.
  std::string CallMembers(const AnswerPiece& piece) const;

  const bool has_tools_;
  ToolCallParser parser_;
  const std::string id_;
  Block open_ = Block::kNone;
  // Of the block that is open, or was last.
  int index_ = -1;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_ANTHROPIC_CALLS_H_
