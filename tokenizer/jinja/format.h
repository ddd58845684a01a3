// Values as text: Python's str, repr and json.dumps; and values from JSON.
#ifndef BATON_TOKENIZER_JINJA_FORMAT_H_
#define BATON_TOKENIZER_JINJA_FORMAT_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"
#include "tokenizer/jinja/value.h"

namespace baton::tokenizer::jinja {

// str(value): strings as they are, undefined as nothing. Appends to `out`. An error for namespaces, loops, functions.
absl::Status AppendText(Budget* budget, const Value& value, std::string* out);
absl::StatusOr<std::string> ToText(Budget* budget, const Value& value);
// repr(value), as str does inside of lists.
absl::Status AppendRepr(Budget* budget, const Value& value, std::string* out);

// The views must outlive the call.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  // Empty and has_indent false: one line.
  bool has_indent = false;
  std::string_view indent;
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
};
// json.dumps. An error for what JSON cannot say.
absl::Status AppendJson(Budget* budget, const Value& value, const JsonStyle& style, std::string* out);

// The caller's variables; strings must be valid UTF-8 and integers fit in int64 (else INVALID_ARGUMENT).
absl::StatusOr<Value> FromJson(Budget* budget, const nlohmann::ordered_json& json);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_FORMAT_H_
