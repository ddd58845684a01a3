// Python's operators, subscripts and attributes on template values.
#ifndef BATON_TOKENIZER_JINJA_OPERATORS_H_
#define BATON_TOKENIZER_JINJA_OPERATORS_H_

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "tokenizer/jinja/value.h"

namespace baton::tokenizer::jinja {

// The operators + - * / // % ** ~. Integers are int64, and a result that does not fit is an error.
absl::StatusOr<Value> ApplyBinary(Budget* budget, std::string_view op, const Value& left, const Value& right);
// The unary operators + and -.
absl::StatusOr<Value> ApplySign(std::string_view op, const Value& operand);
// The comparisons == != < <= > >= in, not in.
absl::StatusOr<bool> ApplyCompare(Budget* budget, std::string_view op, const Value& left, const Value& right);
absl::StatusOr<bool> Contains(Budget* budget, const Value& container, const Value& item);

// object[key]. Undefined if the object has no such item.
absl::StatusOr<Value> GetItem(Budget* budget, const Value& object, const Value& key);
// object.name. Methods take precedence over items. An error if the object is undefined.
absl::StatusOr<Value> GetAttribute(Budget* budget, const Value& object, std::string_view name);

struct SliceBounds {
  std::optional<int64_t> begin, end, step;
};
absl::StatusOr<Value> GetSlice(Budget* budget, const Value& object, const SliceBounds& bounds);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_OPERATORS_H_
