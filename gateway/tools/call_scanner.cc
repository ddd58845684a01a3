#include "gateway/tools/call_scanner.h"

#include "common/limits.h"

namespace baton::gateway {
namespace {

// The longest key that a call has.
constexpr size_t kMaxCallKeyBytes = sizeof("parameters") - 1;

}  // namespace

JsonScanner::Result CallScanner::Take(char c) {
  if (state_ == State::kInValue) return TakeValue(c);
  if (state_ == State::kInKey) {
    if (c == '"') return EndKey();
    key_.push_back(c);
    return key_.size() > kMaxCallKeyBytes ? JsonScanner::Result::kBad : JsonScanner::Result::kMore;
  }
  if (IsJsonSpace(c)) return JsonScanner::Result::kMore;
  switch (state_) {
    case State::kFirstKey:
    case State::kKey:
      key_.clear();
      return c == '"' ? To(State::kInKey) : JsonScanner::Result::kBad;
    case State::kColon:
      return c == ':' ? To(State::kBeginValue) : JsonScanner::Result::kBad;
    case State::kBeginValue:
      return BeginValue(c);
    default:
      if (c == ',') return To(State::kKey);
      return c == '}' ? End() : JsonScanner::Result::kBad;
  }
}

JsonScanner::Result CallScanner::EndKey() {
  bool* const is_there = key_ == "name"                                ? &has_name_
                         : key_ == "arguments" || key_ == "parameters" ? &has_arguments_
                         : key_ == "id"                                ? &has_id_
                         : key_ == "type"                              ? &has_type_
                                                                       : nullptr;
  if (is_there == nullptr || *is_there) return JsonScanner::Result::kBad;
  member_ = is_there == &has_name_ ? Member::kName : is_there == &has_arguments_ ? Member::kArguments : Member::kOther;
  // The name and the arguments are there once their values are.
  if (member_ == Member::kOther) *is_there = true;
  return To(State::kColon);
}

JsonScanner::Result CallScanner::BeginValue(char c) {
  if (c != (member_ == Member::kArguments ? '{' : '"')) return JsonScanner::Result::kBad;
  value_ = JsonScanner();
  state_ = State::kInValue;
  has_arguments_ |= member_ == Member::kArguments;
  if (member_ == Member::kArguments) arguments_.push_back(c);
  return value_.Take(c);
}

JsonScanner::Result CallScanner::TakeValue(char c) {
  const JsonScanner::Result result = value_.Take(c);
  if (result == JsonScanner::Result::kBad) return result;
  if (member_ == Member::kArguments) arguments_.push_back(c);
  if (result == JsonScanner::Result::kMore) {
    if (member_ != Member::kName) return result;
    name_.push_back(c);
    // No name has an escape.
    return c == '\\' || name_.size() > kMaxToolNameBytes ? JsonScanner::Result::kBad : result;
  }
  has_name_ |= member_ == Member::kName;
  return To(State::kNext);
}

JsonScanner::Result CallScanner::End() {
  if (!has_name_) return JsonScanner::Result::kBad;
  if (!has_arguments_) arguments_ = "{}";
  has_arguments_ = true;
  return JsonScanner::Result::kDone;
}

}  // namespace baton::gateway
