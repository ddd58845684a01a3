// Writes the text and the calls of an answer as the output items of OpenAI's Responses API.
#ifndef BATON_GATEWAY_TOOLS_RESPONSES_OUTPUT_H_
#define BATON_GATEWAY_TOOLS_RESPONSES_OUTPUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/tools/tool_call_parser.h"

namespace baton::gateway {

// The events of one stream, which are numbered.
class ResponsesEvents {
 public:
  // `members`: those behind the type and the number, each with a comma before it.
  void Add(const char* type, const std::string& members);
  // Those that have come since it was asked last.
  std::string Take() { return std::exchange(events_, {}); }

 private:
  int64_t next_number_ = 0;
  std::string events_;
};

// Each text is a message with one part, each call an item of its own. There is one item at the least when the answer
// has ended. For one answer; used by one thread at a time.
class ResponsesOutput {
 public:
  // The ids of the items are made of `id`, which no other answer has. `events` outlives the output.
  ResponsesOutput(ToolReading reading, bool is_stream, std::string id, ResponsesEvents& events)
      : has_tools_(reading.form != CallForm::kNone),
        parser_(std::move(reading), is_stream),
        id_(std::move(id)),
        events_(events) {}

  // Without tools the first item is known.
  void Begin() {
    if (!has_tools_) OpenMessage();
  }
  // The next text. `logprobs`: the inside of a list, for its tokens; beside tools there are none.
  void Add(std::string_view text, const std::string& logprobs);
  // The answer has ended. `status` is that of the item that is open.
  void End(const char* status);

  // The inside of the list of items so far. `status` is that of the item that is open.
  std::string Items(const char* status) const;

 private:
  enum class Item : uint8_t { kNone, kMessage, kCall };

  void AddPieces(const AnswerPieces& pieces);
  void AddText(const std::string& text, const std::string& logprobs);
  void OpenMessage();
  void OpenCall(const AnswerPiece& piece);
  void Close(const char* status);
  void CloseMessage(const char* status);
  void CloseCall(const char* status);
  // The members of an event that name the item that is open, and the part of a message.
  std::string Place() const;
  std::string ItemId() const;
  std::string Part() const;
  std::string MessageItem(const char* status, const std::string& content) const;
  std::string CallItem(const char* status) const;
  std::string OpenItem(const char* status) const;

  const bool has_tools_;
  ToolCallParser parser_;
  const std::string id_;
  ResponsesEvents& events_;
  Item open_ = Item::kNone;
  // Of the item that is open, or was last.
  int index_ = -1;
  int messages_ = 0;
  // The items that have ended, as the inside of a list.
  std::string done_;
  // Of the message that is open. `logprobs_` is the inside of a list.
  std::string text_;
  std::string logprobs_;
  // Of the call that is open.
  int call_ = 0;
  std::string name_;
  std::string arguments_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_RESPONSES_OUTPUT_H_
