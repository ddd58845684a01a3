// Finds the calls of tools in an answer while it comes.
#ifndef BATON_GATEWAY_TOOLS_TOOL_CALL_PARSER_H_
#define BATON_GATEWAY_TOOLS_TOOL_CALL_PARSER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/tools/call_scanner.h"

namespace baton::gateway {

// Where calls are looked for.
enum class CallForm : uint8_t {
  kNone,
  // In <tool_call></tool_call>: one call, or a list of calls.
  kTags,
  // There too, and as the begin of the answer: a call, calls with a semicolon between them, or a list of calls.
  kBare,
  // The answer is one call, by its grammar. Its begin, which has the tag, is part of the prompt.
  kOneCall,
};

// How the calls of an answer are found.
struct ToolReading {
  CallForm form = CallForm::kNone;
  // The tools that there are. A call of another one is text.
  std::vector<std::string> names = {};
  // False: calls behind the first one are left out.
  bool takes_several = true;
};

// A piece of an answer.
struct AnswerPiece {
  enum class Kind : uint8_t {
    kText,
    // A call begins; the text is the name of its tool.
    kCall,
    // The next of the arguments of the call, whose pieces make up a JSON object.
    kArguments,
  };
  Kind kind = Kind::kText;
  std::string text;
  // Which of the calls, from 0.
  int call = 0;

  friend bool operator==(const AnswerPiece&, const AnswerPiece&) = default;
};
using AnswerPieces = std::vector<AnswerPiece>;

// What is no call of a tool that there is, is text, byte for byte. White space before and behind calls belongs to them.
//
// Of a stream, arguments come while they are written, once the name is known. A call that breaks off then has been
// sent: it ends there, and what follows is text. Otherwise a call comes when it is complete, so that a broken one is
// text. An answer that must be a call is sent as it comes in both cases.
class ToolCallParser {
 public:
  ToolCallParser(ToolReading reading, bool is_stream);

  // What has become certain with this text, in as few pieces as there can be.
  AnswerPieces Add(std::string_view text);
  // What is left when the answer has ended. Nothing comes behind it.
  AnswerPieces End();
  // How many have begun.
  int calls() const { return calls_; }

 private:
  enum class State : uint8_t {
    // Before the first character of an answer that may be a bare call.
    kBegin,
    kText,
    // Behind a tag: a call or a list comes.
    kOpen,
    kCall,
    // In a list, or behind a bare call: there may be another one.
    kBetween,
    // Behind a call or list in tags: the closing tag comes.
    kClose,
  };

  void Take(char c);
  void TakeText(char c);
  void TakeOpen(char c);
  void TakeCall(char c);
  void TakeBetween(char c);
  void TakeClose(char c);
  void Open(bool has_tag);
  // What was held is no call. The byte is looked at again.
  void Fail(char c);
  // What was held behind a call does not belong to it.
  void Leave(char c);
  void SendCall();
  void SendText(std::string_view text);
  void Send(AnswerPiece::Kind kind, std::string_view text);

  const ToolReading reading_;
  const bool sends_early_;
  State state_ = State::kText;
  // What has come and is not sent, as it would be sent were it text.
  std::string held_;
  // How many bytes of a tag have come.
  size_t matched_ = 0;
  bool has_tag_ = false;
  bool in_list_ = false;
  // No text has come since the last call, or none at all.
  bool follows_call_ = false;
  // A call that is left out.
  bool is_muted_ = false;
  CallScanner call_;
  bool has_sent_call_ = false;
  int calls_ = 0;
  AnswerPieces pieces_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_TOOL_CALL_PARSER_H_
