// The arguments of a call, as Python binds them.
#ifndef BATON_TOKENIZER_JINJA_ARGUMENTS_H_
#define BATON_TOKENIZER_JINJA_ARGUMENTS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tokenizer/jinja/value.h"

namespace baton::tokenizer::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments by the names of the parameters, in their order.
class BoundArguments {
 public:
  // An error for too many arguments, an unknown name, or a parameter given twice. The message names `function`.
  static absl::StatusOr<BoundArguments> Bind(std::string_view function, const Arguments& arguments,
                                             const std::vector<std::string_view>& parameters);

  bool Has(size_t i) const { return values_[i].has_value(); }
  // Requires Has(i).
  const Value& operator[](size_t i) const { return *values_[i]; }

  absl::StatusOr<Value> Required(size_t i) const;
  absl::StatusOr<std::string> String(size_t i) const;
  absl::StatusOr<std::string> StringOr(size_t i, std::string_view otherwise) const;
  absl::StatusOr<int64_t> IntOr(size_t i, int64_t otherwise) const;
  bool TruthyOr(size_t i, bool otherwise) const { return Has(i) ? values_[i]->Truthy() : otherwise; }

 private:
  BoundArguments() = default;
  absl::Status Error(size_t i, std::string_view what) const;

  std::string function_;
  std::vector<std::string> parameters_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_ARGUMENTS_H_
