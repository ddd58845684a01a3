#include "tokenizer/jinja/arguments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::tokenizer::jinja {

absl::StatusOr<BoundArguments> BoundArguments::Bind(std::string_view function, const Arguments& arguments,
                                                    const std::vector<std::string_view>& parameters) {
  BoundArguments bound;
  bound.function_ = std::string(function);
  bound.parameters_.assign(parameters.begin(), parameters.end());
  bound.values_.resize(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    return TemplateError(absl::StrCat(bound.function_, " takes at most ", parameters.size(), " arguments, not ",
                                      arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound.values_[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(parameters.begin(), parameters.end(), name);
    if (it == parameters.end()) return TemplateError(absl::StrCat(bound.function_, " has no parameter '", name, "'"));
    std::optional<Value>& slot = bound.values_[static_cast<size_t>(it - parameters.begin())];
    if (slot.has_value()) return TemplateError(absl::StrCat(bound.function_, " got '", name, "' twice"));
    slot = value;
  }
  return bound;
}

absl::Status BoundArguments::Error(size_t i, std::string_view what) const {
  return TemplateError(absl::StrCat("'", parameters_[i], "' of ", function_, " ", ToAbsl(what)));
}

absl::StatusOr<Value> BoundArguments::Required(size_t i) const {
  if (!Has(i)) return Error(i, "is missing");
  return *values_[i];
}

absl::StatusOr<std::string> BoundArguments::String(size_t i) const {
  BATON_ASSIGN_OR_RETURN(const Value value, Required(i));
  if (!value.Is(Kind::kString)) return Error(i, "must be a string");
  return value.AsString();
}

absl::StatusOr<std::string> BoundArguments::StringOr(size_t i, std::string_view otherwise) const {
  if (!Has(i) || values_[i]->Is(Kind::kNone)) return std::string(otherwise);
  return String(i);
}

absl::StatusOr<int64_t> BoundArguments::IntOr(size_t i, int64_t otherwise) const {
  if (!Has(i) || values_[i]->Is(Kind::kNone)) return otherwise;
  if (!values_[i]->IsIntegral()) return Error(i, "must be an integer");
  return values_[i]->AsInt();
}

}  // namespace baton::tokenizer::jinja
