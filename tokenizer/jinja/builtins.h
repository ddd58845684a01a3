// The filters, tests and methods that templates may use.
#ifndef BATON_TOKENIZER_JINJA_BUILTINS_H_
#define BATON_TOKENIZER_JINJA_BUILTINS_H_

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "tokenizer/jinja/arguments.h"
#include "tokenizer/jinja/value.h"

namespace baton::tokenizer::jinja {

// Applies value | name(arguments). Sequence filters return lists where Jinja returns generators.
absl::StatusOr<Value> ApplyFilter(Budget* budget, std::string_view name, const Value& value,
                                  const Arguments& arguments);
// The filters on text and single values (text_filters.cc) and those on sequences (sequence_filters.cc). nullopt if the
// name is not among them.
absl::StatusOr<std::optional<Value>> ApplyTextFilter(Budget* budget, std::string_view name, const Value& value,
                                                     const Arguments& arguments);
absl::StatusOr<std::optional<Value>> ApplySequenceFilter(Budget* budget, std::string_view name, const Value& value,
                                                         const Arguments& arguments);

// Tests `value is name(arguments)`.
absl::StatusOr<bool> ApplyTest(Budget* budget, std::string_view name, const Value& value, const Arguments& arguments);

bool HasMethod(const Value& receiver, std::string_view name);
// Requires HasMethod.
absl::StatusOr<Value> CallMethod(Budget* budget, const Value& receiver, std::string_view name,
                                 const Arguments& arguments);

// The entries of a dict as tuples (key, value).
absl::StatusOr<Value> DictItems(Budget* budget, const DictData& dict);
// How many characters a string, items a list or keys a dict has; 0 for undefined.
absl::StatusOr<int64_t> Length(Budget* budget, const Value& value);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_BUILTINS_H_
