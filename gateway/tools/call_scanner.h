// Follows the JSON object of one call byte by byte: {"name": ..., "arguments": {...}}.
#ifndef BATON_GATEWAY_TOOLS_CALL_SCANNER_H_
#define BATON_GATEWAY_TOOLS_CALL_SCANNER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "gateway/tools/json_scanner.h"

namespace baton::gateway {

// The members come in any order. "parameters" stands for "arguments"; "id" and "type" may be there as texts and say
// nothing. There are no others, and each comes once. A call without arguments has {}.
class CallScanner {
 public:
  // Behind the brace that opens the object. kBad: it is no call, and no further byte may come.
  JsonScanner::Result Take(char c);

  // The name is complete. It may still be that of no tool.
  bool has_name() const { return has_name_; }
  const std::string& name() const { return name_; }
  // The arguments have begun.
  bool has_arguments() const { return has_arguments_; }
  // Those that have come since it was asked last.
  std::string TakeArguments() { return std::exchange(arguments_, {}); }

 private:
  enum class State : uint8_t { kFirstKey, kKey, kInKey, kColon, kBeginValue, kInValue, kNext };
  enum class Member : uint8_t { kName, kArguments, kOther };

  JsonScanner::Result To(State state) {
    state_ = state;
    return JsonScanner::Result::kMore;
  }
  JsonScanner::Result EndKey();
  JsonScanner::Result BeginValue(char c);
  JsonScanner::Result TakeValue(char c);
  JsonScanner::Result End();

  State state_ = State::kFirstKey;
  Member member_ = Member::kOther;
  std::string key_;
  JsonScanner value_;
  std::string name_;
  std::string arguments_;
  bool has_name_ = false;
  bool has_arguments_ = false;
  bool has_id_ = false;
  bool has_type_ = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_CALL_SCANNER_H_
