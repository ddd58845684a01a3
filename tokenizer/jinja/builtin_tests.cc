#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/text.h"

namespace baton::tokenizer::jinja {
namespace {

// Tests that need nothing but the value.
std::optional<bool> KindTest(std::string_view name, const Value& value) {
  if (name == "defined") return !value.Is(Kind::kUndefined);
  if (name == "undefined") return value.Is(Kind::kUndefined);
  if (name == "none") return value.Is(Kind::kNone);
  if (name == "string") return value.Is(Kind::kString);
  if (name == "mapping") return value.Is(Kind::kDict);
  if (name == "number") return value.IsNumber();
  if (name == "integer") return value.Is(Kind::kInt);
  if (name == "float") return value.Is(Kind::kFloat);
  if (name == "boolean") return value.Is(Kind::kBool);
  if (name == "true") return value.Is(Kind::kBool) && value.AsBool();
  if (name == "false") return value.Is(Kind::kBool) && !value.AsBool();
  if (name == "callable") return value.Is(Kind::kCallable);
  const bool sequence = value.Is(Kind::kString) || value.Is(Kind::kList) || value.Is(Kind::kDict);
  if (name == "sequence") return sequence || value.Is(Kind::kUndefined);
  if (name == "iterable") return sequence || value.Is(Kind::kUndefined) || value.Is(Kind::kLoop);
  return std::nullopt;
}

// Maps the names of comparisons to their operators.
std::string_view ComparisonOperator(std::string_view name) {
  if (name == "equalto" || name == "eq") return "==";
  if (name == "ne") return "!=";
  if (name == "lt" || name == "lessthan") return "<";
  if (name == "le") return "<=";
  if (name == "gt" || name == "greaterthan") return ">";
  if (name == "ge") return ">=";
  return name == "in" ? "in" : "";
}

absl::StatusOr<bool> DivisionTest(const Value& value, int64_t divisor, int64_t remainder) {
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  if (!value.IsIntegral()) return TemplateError("this test takes an integer");
  if (divisor == 0) return TemplateError("division by zero");
  if (divisor == -1) return true;
  return (value.AsInt() % divisor != 0) == (remainder != 0);
}

}  // namespace

absl::StatusOr<bool> ApplyTest(Budget* budget, std::string_view name, const Value& value, const Arguments& arguments) {
  if (const std::optional<bool> result = KindTest(name, value); result.has_value()) {
    BATON_RETURN_IF_ERROR(BoundArguments::Bind(name, arguments, {}).status());
    return *result;
  }
  if (name == "odd" || name == "even") {
    BATON_RETURN_IF_ERROR(BoundArguments::Bind(name, arguments, {}).status());
    return DivisionTest(value, 2, name == "odd");
  }
  if (name == "lower" || name == "upper") {
    if (!value.Is(Kind::kString)) return false;
    BATON_RETURN_IF_ERROR(budget->Scan(value.AsString().size()));
    return AllAre(value.AsString(), name == "lower" ? CharClass::kLower : CharClass::kUpper);
  }
  const std::string_view op = ComparisonOperator(name);
  if (op.empty() && name != "sameas" && name != "divisibleby") {
    return TemplateError(absl::StrCat("there is no test '", ToAbsl(name), "'"));
  }
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, arguments, {"other"}));
  BATON_ASSIGN_OR_RETURN(const Value other, bound.Required(0));
  if (name == "sameas") return value.SameObject(other);
  if (name == "divisibleby") {
    if (!other.IsIntegral()) return TemplateError("divisibleby takes an integer");
    return DivisionTest(value, other.AsInt(), 0);
  }
  return ApplyCompare(budget, op, value, other);
}

}  // namespace baton::tokenizer::jinja
