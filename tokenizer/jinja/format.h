// Turns values into text, as Python's str, repr and json.dumps do, and JSON into values.
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
// repr(value), which str uses inside lists.
absl::Status AppendRepr(Budget* budget, const Value& value, std::string* out);

// The views must outlive the call.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  // The text is one line if this is empty and has_indent is false.
  bool has_indent = false;
  std::string_view indent;
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
};
// json.dumps(value). An error for values that JSON cannot express.
absl::Status AppendJson(Budget* budget, const Value& value, const JsonStyle& style, std::string* out);

// Reads the caller's variables. INVALID_ARGUMENT unless strings are valid UTF-8 and integers fit in int64.
absl::StatusOr<Value> FromJson(Budget* budget, const nlohmann::ordered_json& json);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_FORMAT_H_
