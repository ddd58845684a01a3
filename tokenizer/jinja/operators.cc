#include "tokenizer/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/utf8.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/text.h"

namespace baton::tokenizer::jinja {
namespace {

absl::Status OperandError(std::string_view op, const Value& left, const Value& right) {
  if (left.Is(Kind::kUndefined)) return UndefinedError(left);
  if (right.Is(Kind::kUndefined)) return UndefinedError(right);
  return TemplateError(absl::StrCat("unsupported operands for ", ToAbsl(op), ": '", ToAbsl(left.TypeName()), "' and '",
                                    ToAbsl(right.TypeName()), "'"));
}

absl::Status OverflowError() { return TemplateError("an integer is too large"); }

absl::StatusOr<Value> IntPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  // At most 63 multiplications do not overflow, unless the base is 0, 1 or -1.
  if (base == 0 || base == 1) return Value::Int(exponent == 0 ? 1 : base);
  if (base == -1) return Value::Int(exponent % 2 == 0 ? 1 : -1);
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) return OverflowError();
  }
  return Value::Int(result);
}

// Python rounds the quotient down, and the remainder has the divisor's sign.
absl::StatusOr<Value> IntDivide(std::string_view op, int64_t a, int64_t b) {
  if (b == 0) return TemplateError("division by zero");
  if (a == INT64_MIN && b == -1) return op == "%" ? Value::Int(0) : absl::StatusOr<Value>(OverflowError());
  const bool adjust = a % b != 0 && (a % b < 0) != (b < 0);
  return Value::Int(op == "%" ? a % b + (adjust ? b : 0) : a / b - adjust);
}

absl::StatusOr<Value> IntArithmetic(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+")
    return __builtin_add_overflow(a, b, &result) ? absl::StatusOr<Value>(OverflowError()) : Value::Int(result);
  if (op == "-")
    return __builtin_sub_overflow(a, b, &result) ? absl::StatusOr<Value>(OverflowError()) : Value::Int(result);
  if (op == "*")
    return __builtin_mul_overflow(a, b, &result) ? absl::StatusOr<Value>(OverflowError()) : Value::Int(result);
  if (op == "//" || op == "%") return IntDivide(op, a, b);
  return IntPower(a, b);
}

absl::StatusOr<Value> FloatArithmetic(std::string_view op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "**") return Value::Float(std::pow(a, b));
  if (b == 0) return TemplateError("division by zero");
  if (op == "/") return Value::Float(a / b);
  if (op == "//") return Value::Float(std::floor(a / b));
  const double remainder = std::fmod(a, b);
  return Value::Float(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
}

absl::StatusOr<Value> Repeat(Budget* budget, const Value& value, int64_t times) {
  const size_t count = times < 0 ? 0 : static_cast<size_t>(times);
  const size_t unit = value.Is(Kind::kString) ? value.AsString().size() : value.AsList().items.size() * sizeof(Value);
  size_t bytes = 0;
  if (__builtin_mul_overflow(unit, count, &bytes)) bytes = SIZE_MAX;
  BATON_RETURN_IF_ERROR(budget->Allocate(bytes));
  if (value.Is(Kind::kString)) {
    std::string text;
    if (unit > 0) {
      text.reserve(bytes);
      for (size_t i = 0; i < count; ++i) text += value.AsString();
    }
    return Value::String(std::move(text));
  }
  std::vector<Value> items;
  if (unit > 0) {
    for (size_t i = 0; i < count; ++i) {
      items.insert(items.end(), value.AsList().items.begin(), value.AsList().items.end());
    }
  }
  return MakeList(budget, std::move(items), value.AsList().is_tuple);
}

absl::StatusOr<Value> Concatenate(Budget* budget, const Value& left, const Value& right) {
  std::string text;
  BATON_RETURN_IF_ERROR(AppendText(budget, left, &text));
  BATON_RETURN_IF_ERROR(AppendText(budget, right, &text));
  return Value::String(std::move(text));
}

bool AreLists(const Value& a, const Value& b) {
  return a.Is(Kind::kList) && b.Is(Kind::kList) && a.AsList().is_tuple == b.AsList().is_tuple;
}

absl::StatusOr<Value> GetLoopAttribute(const LoopData& loop, std::string_view name) {
  const std::vector<Value>& items = loop.items.AsList().items;
  const auto length = static_cast<int64_t>(items.size());
  if (name == "index0") return Value::Int(loop.index0);
  if (name == "index") return Value::Int(loop.index0 + 1);
  if (name == "revindex0") return Value::Int(length - loop.index0 - 1);
  if (name == "revindex") return Value::Int(length - loop.index0);
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "last") return Value::Bool(loop.index0 + 1 == length);
  if (name == "length") return Value::Int(length);
  // Jinja counts the depth of recursive loops only, and the parser refuses these.
  if (name == "depth") return Value::Int(1);
  if (name == "depth0") return Value::Int(0);
  if (name == "previtem" && loop.index0 > 0) return items[loop.index0 - 1];
  if (name == "nextitem" && loop.index0 + 1 < length) return items[loop.index0 + 1];
  return Value::MakeUndefined(name);
}

// Clamps the slice bounds as Python does and returns the picked indices in order.
std::vector<size_t> SliceIndices(int64_t length, const SliceBounds& bounds, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? length : length - 1;
  const auto clamp = [&](std::optional<int64_t> bound, int64_t otherwise) {
    if (!bound.has_value()) return otherwise;
    return std::clamp(*bound < 0 ? *bound + length : *bound, low, high);
  };
  const int64_t begin = clamp(bounds.begin, step > 0 ? low : high);
  const int64_t end = clamp(bounds.end, step > 0 ? high : low);
  std::vector<size_t> indices;
  // A step beyond the length takes one item; clamping it keeps the sum below from overflowing.
  const int64_t stride = std::clamp(step, -length - 1, length + 1);
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += stride) indices.push_back(static_cast<size_t>(i));
  return indices;
}

}  // namespace

absl::StatusOr<Value> ApplyBinary(Budget* budget, std::string_view op, const Value& left, const Value& right) {
  if (op == "~") return Concatenate(budget, left, right);
  if (left.IsNumber() && right.IsNumber()) {
    const bool negative_power = op == "**" && right.IsIntegral() && right.AsInt() < 0;
    if (left.IsIntegral() && right.IsIntegral() && op != "/" && !negative_power) {
      return IntArithmetic(op, left.AsInt(), right.AsInt());
    }
    return FloatArithmetic(op, left.AsDouble(), right.AsDouble());
  }
  if (op == "+" && left.Is(Kind::kString) && right.Is(Kind::kString)) return Concatenate(budget, left, right);
  if (op == "+" && AreLists(left, right)) {
    BATON_RETURN_IF_ERROR(budget->Allocate((left.AsList().items.size() + right.AsList().items.size()) * sizeof(Value)));
    std::vector<Value> items = left.AsList().items;
    items.insert(items.end(), right.AsList().items.begin(), right.AsList().items.end());
    return MakeList(budget, std::move(items), left.AsList().is_tuple);
  }
  if (op == "*") {
    const auto repeats = [](const Value& v) { return v.Is(Kind::kString) || v.Is(Kind::kList); };
    if (repeats(left) && right.IsIntegral()) return Repeat(budget, left, right.AsInt());
    if (left.IsIntegral() && repeats(right)) return Repeat(budget, right, left.AsInt());
  }
  return OperandError(op, left, right);
}

absl::StatusOr<Value> ApplySign(std::string_view op, const Value& operand) {
  if (operand.Is(Kind::kFloat)) return Value::Float(op == "-" ? -operand.AsDouble() : operand.AsDouble());
  if (operand.IsIntegral()) {
    if (op == "+") return Value::Int(operand.AsInt());
    if (operand.AsInt() == INT64_MIN) return OverflowError();
    return Value::Int(-operand.AsInt());
  }
  if (operand.Is(Kind::kUndefined)) return UndefinedError(operand);
  return TemplateError(absl::StrCat("unsupported operand for ", ToAbsl(op), ": '", ToAbsl(operand.TypeName()), "'"));
}

absl::StatusOr<bool> Contains(Budget* budget, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (item.Is(Kind::kUndefined)) return UndefinedError(item);
      if (!item.Is(Kind::kString)) return TemplateError("'in' a string takes a string");
      BATON_RETURN_IF_ERROR(budget->Scan(container.AsString().size() + item.AsString().size()));
      return Find(container.AsString(), item.AsString()) != std::string_view::npos;
    case Kind::kList:
      for (const Value& candidate : container.AsList().items) {
        BATON_ASSIGN_OR_RETURN(const bool equal, Equal(budget, candidate, item));
        if (equal) return true;
      }
      return false;
    case Kind::kDict: {
      BATON_ASSIGN_OR_RETURN(const Value* found, FindKey(budget, container.AsDict(), item));
      return found != nullptr;
    }
    default:
      return TemplateError(absl::StrCat("'in' does not work on '", ToAbsl(container.TypeName()), "'"));
  }
}

absl::StatusOr<bool> ApplyCompare(Budget* budget, std::string_view op, const Value& left, const Value& right) {
  if (op == "in" || op == "not in") {
    BATON_ASSIGN_OR_RETURN(const bool found, Contains(budget, right, left));
    return found == (op == "in");
  }
  if (op == "==" || op == "!=") {
    BATON_ASSIGN_OR_RETURN(const bool equal, Equal(budget, left, right));
    return equal == (op == "==");
  }
  // NaN is neither less, nor equal, nor greater.
  if (left.IsNumber() && right.IsNumber() && (std::isnan(left.AsDouble()) || std::isnan(right.AsDouble())))
    return false;
  BATON_ASSIGN_OR_RETURN(const int order, Compare(budget, left, right));
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

absl::StatusOr<Value> GetItem(Budget* budget, const Value& object, const Value& key) {
  if (object.Is(Kind::kUndefined)) return UndefinedError(object);
  if (object.Is(Kind::kDict)) {
    BATON_ASSIGN_OR_RETURN(const Value* found, FindKey(budget, object.AsDict(), key));
    if (found != nullptr) return *found;
  } else if ((object.Is(Kind::kList) || object.Is(Kind::kString)) && key.IsIntegral()) {
    const bool is_list = object.Is(Kind::kList);
    if (!is_list) BATON_RETURN_IF_ERROR(budget->Scan(object.AsString().size()));
    const size_t count = is_list ? object.AsList().items.size() : CountCodePoints(object.AsString());
    const auto length = static_cast<int64_t>(count);
    const int64_t index = key.AsInt() < 0 ? key.AsInt() + length : key.AsInt();
    if (index < 0 || index >= length) return Value::MakeUndefined("");
    if (is_list) return object.AsList().items[index];
    const std::string& text = object.AsString();
    const size_t begin = ByteOffset(text, static_cast<size_t>(index));
    size_t end = begin;
    (void)NextCodePoint(text, &end);
    return MakeString(budget, text.substr(begin, end - begin));
  }
  if (key.Is(Kind::kString)) {
    // A name that is not an item may be an attribute.
    if (object.Is(Kind::kDict) && !HasMethod(object, key.AsString())) return Value::MakeUndefined(key.AsString());
    return GetAttribute(budget, object, key.AsString());
  }
  return Value::MakeUndefined("");
}

absl::StatusOr<Value> GetAttribute(Budget* budget, const Value& object, std::string_view name) {
  BATON_RETURN_IF_ERROR(budget->Step());
  if (object.Is(Kind::kUndefined)) return UndefinedError(object);
  if (HasMethod(object, name)) {
    return Value::Callable(std::make_shared<const CallableData>(
        CallableData{CallableData::What::kMethod, std::string(name), object, nullptr}));
  }
  if (object.Is(Kind::kLoop)) return GetLoopAttribute(object.AsLoop(), name);
  if (object.Is(Kind::kNamespace)) {
    for (const auto& [key, value] : object.AsNamespace()->attributes) {
      BATON_RETURN_IF_ERROR(budget->Step());
      if (key == name) return value;
    }
  }
  if (object.Is(Kind::kDict)) {
    BATON_ASSIGN_OR_RETURN(const Value* found, FindKey(budget, object.AsDict(), Value::String(std::string(name))));
    if (found != nullptr) return *found;
  }
  return Value::MakeUndefined(name);
}

absl::StatusOr<Value> GetSlice(Budget* budget, const Value& object, const SliceBounds& bounds) {
  if (object.Is(Kind::kUndefined)) return UndefinedError(object);
  // Jinja treats a failed lookup as an absent item.
  if (!object.Is(Kind::kString) && !object.Is(Kind::kList)) return Value::MakeUndefined("");
  const int64_t step = bounds.step.value_or(1);
  if (step == 0) return TemplateError("the step of a slice is zero");
  if (object.Is(Kind::kString)) {
    const std::string& text = object.AsString();
    BATON_RETURN_IF_ERROR(budget->Allocate(text.size() * 2 * sizeof(size_t)));
    std::vector<size_t> offsets;  // where each character begins, and the end
    for (size_t offset = 0; offset < text.size(); (void)NextCodePoint(text, &offset)) offsets.push_back(offset);
    offsets.push_back(text.size());
    std::string out;
    for (const size_t i : SliceIndices(static_cast<int64_t>(offsets.size()) - 1, bounds, step)) {
      out.append(text, offsets[i], offsets[i + 1] - offsets[i]);
    }
    return MakeString(budget, std::move(out));
  }
  const ListData& list = object.AsList();
  BATON_RETURN_IF_ERROR(budget->Allocate(list.items.size() * sizeof(size_t)));
  std::vector<Value> items;
  for (const size_t i : SliceIndices(static_cast<int64_t>(list.items.size()), bounds, step)) {
    items.push_back(list.items[i]);
  }
  return MakeList(budget, std::move(items), list.is_tuple);
}

}  // namespace baton::tokenizer::jinja
