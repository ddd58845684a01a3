#include "gateway/tools/tool_call_parser.h"

#include <algorithm>

#include "common/limits.h"

namespace baton::gateway {
namespace {

constexpr std::string_view kOpenTag = "<tool_call>";
constexpr std::string_view kCloseTag = "</tool_call>";

}  // namespace

ToolCallParser::ToolCallParser(ToolReading reading, bool is_stream)
    : reading_(std::move(reading)), sends_early_(is_stream || reading_.form == CallForm::kOneCall) {
  if (reading_.form == CallForm::kBare || reading_.form == CallForm::kOneCall) state_ = State::kBegin;
}

AnswerPieces ToolCallParser::Add(std::string_view text) {
  if (reading_.form == CallForm::kNone) {
    SendText(text);
  } else {
    for (const char c : text) Take(c);
  }
  return std::exchange(pieces_, {});
}

AnswerPieces ToolCallParser::End() {
  const bool is_behind_call = state_ == State::kBetween || state_ == State::kClose;
  if (!is_behind_call) SendText(held_);
  held_.clear();
  return std::exchange(pieces_, {});
}

void ToolCallParser::Take(char c) {
  if (held_.size() >= kMaxHeldToolCallBytes) return Fail(c);
  switch (state_) {
    case State::kBegin:
      if (c == '{' || c == '[') {
        Open(/*has_tag=*/false);
        return TakeOpen(c);
      }
      if (IsJsonSpace(c)) return held_.push_back(c);
      state_ = State::kText;
      return TakeText(c);
    case State::kText:
      return TakeText(c);
    case State::kOpen:
      return TakeOpen(c);
    case State::kCall:
      return TakeCall(c);
    case State::kBetween:
      return TakeBetween(c);
    case State::kClose:
      return TakeClose(c);
  }
}

void ToolCallParser::TakeText(char c) {
  if (c == kOpenTag[matched_]) {
    held_.push_back(c);
    if (++matched_ == kOpenTag.size()) Open(/*has_tag=*/true);
    return;
  }
  if (matched_ > 0) {
    // The tag has one character like its first, so no other begin of it is held.
    matched_ = 0;
    SendText(std::exchange(held_, {}));
    return TakeText(c);
  }
  if (IsJsonSpace(c)) {
    if (!follows_call_) held_.push_back(c);
    return;
  }
  held_.push_back(c);
  SendText(std::exchange(held_, {}));
}

void ToolCallParser::Open(bool has_tag) {
  state_ = State::kOpen;
  matched_ = 0;
  has_tag_ = has_tag;
  in_list_ = false;
}

void ToolCallParser::TakeOpen(char c) {
  if (c == '{') {
    held_.push_back(c);
    state_ = State::kCall;
    call_ = CallScanner();
    has_sent_call_ = false;
    is_muted_ = !reading_.takes_several && calls_ > 0;
  } else if (c == '[' && !in_list_ && reading_.form != CallForm::kOneCall) {
    held_.push_back(c);
    in_list_ = true;
  } else if (IsJsonSpace(c)) {
    held_.push_back(c);
  } else {
    Fail(c);
  }
}

void ToolCallParser::TakeCall(char c) {
  const bool had_name = call_.has_name();
  const JsonScanner::Result result = call_.Take(c);
  const bool is_named = call_.has_name() && !had_name;
  const bool is_unknown =
      is_named && std::find(reading_.names.begin(), reading_.names.end(), call_.name()) == reading_.names.end();
  if (result == JsonScanner::Result::kBad || is_unknown || (calls_ == kMaxToolCalls && is_named)) return Fail(c);
  if (!has_sent_call_) held_.push_back(c);
  const bool is_done = result == JsonScanner::Result::kDone;
  if (is_done || (sends_early_ && call_.has_name() && call_.has_arguments())) SendCall();
  if (!is_done) return;
  follows_call_ = true;
  state_ = in_list_ || !has_tag_ ? State::kBetween : State::kClose;
}

void ToolCallParser::SendCall() {
  if (!std::exchange(has_sent_call_, true)) {
    held_.clear();
    if (!is_muted_) {
      ++calls_;
      Send(AnswerPiece::Kind::kCall, call_.name());
    }
  }
  const std::string arguments = call_.TakeArguments();
  if (!is_muted_ && !arguments.empty()) Send(AnswerPiece::Kind::kArguments, arguments);
}

void ToolCallParser::TakeBetween(char c) {
  const bool is_next = c == (in_list_ ? ',' : ';') && held_.find(c) == std::string::npos;
  if (is_next || IsJsonSpace(c)) return held_.push_back(c);
  if (c == '{' && held_.find(in_list_ ? ',' : ';') != std::string::npos) return TakeOpen(c);
  if (c == ']' && in_list_ && held_.find(',') == std::string::npos) {
    held_.clear();
    in_list_ = false;
    state_ = has_tag_ ? State::kClose : State::kText;
    return;
  }
  Leave(c);
}

void ToolCallParser::TakeClose(char c) {
  if (c == kCloseTag[matched_]) {
    held_.push_back(c);
    if (++matched_ < kCloseTag.size()) return;
    matched_ = 0;
    held_.clear();
    state_ = State::kText;
    return;
  }
  if (matched_ == 0 && IsJsonSpace(c)) return;
  Leave(c);
}

void ToolCallParser::Fail(char c) {
  state_ = State::kText;
  matched_ = 0;
  SendText(std::exchange(held_, {}));
  // Of a call that has been sent nothing is held.
  follows_call_ = false;
  TakeText(c);
}

void ToolCallParser::Leave(char c) {
  state_ = State::kText;
  matched_ = 0;
  // White space, a comma or a part of the closing tag, which may begin another call.
  for (const char held : std::exchange(held_, {})) TakeText(held);
  TakeText(c);
}

void ToolCallParser::SendText(std::string_view text) {
  if (text.empty()) return;
  follows_call_ = false;
  Send(AnswerPiece::Kind::kText, text);
}

void ToolCallParser::Send(AnswerPiece::Kind kind, std::string_view text) {
  const bool goes_on = !pieces_.empty() && pieces_.back().kind == kind && kind != AnswerPiece::Kind::kCall;
  if (goes_on) {
    pieces_.back().text += text;
  } else {
    pieces_.push_back({.kind = kind, .text = std::string(text), .call = std::max(calls_ - 1, 0)});
  }
}

}  // namespace baton::gateway
