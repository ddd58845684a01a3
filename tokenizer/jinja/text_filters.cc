#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/text.h"

namespace baton::tokenizer::jinja {
namespace {

absl::StatusOr<Value> FilterDefault(const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::Bind("default", args, {"default_value", "boolean"}));
  const bool missing = value.Is(Kind::kUndefined) || (bound.TruthyOr(1, false) && !value.Truthy());
  if (!missing) return value;
  return bound.Has(0) ? bound[0] : Value::String("");
}

// Python's int(text) in base 10, with white space around it and one sign.
bool ParseInt(std::string_view text, int64_t* out) {
  text = Strip(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseFloat(std::string_view text, double* out) { return absl::SimpleAtod(ToAbsl(Strip(text)), out); }

bool FloatToInt(double d, int64_t* out) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (!(d > -kTwoTo63 && d < kTwoTo63)) return false;  // NaN too
  *out = static_cast<int64_t>(d);
  return true;
}

absl::StatusOr<Value> FilterInt(const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind("int", args, {"default"}));
  int64_t result = 0;
  double d = 0;
  const bool ok = value.IsIntegral()        ? (result = value.AsInt(), true)
                  : value.Is(Kind::kFloat)  ? FloatToInt(value.AsDouble(), &result)
                  : value.Is(Kind::kString) ? ParseInt(value.AsString(), &result) ||
                                                  (ParseFloat(value.AsString(), &d) && FloatToInt(d, &result))
                                            : false;
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  if (ok) return Value::Int(result);
  return bound.Has(0) ? bound[0] : Value::Int(0);
}

absl::StatusOr<Value> FilterFloat(const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind("float", args, {"default"}));
  double result = 0;
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  if (value.IsNumber()) return Value::Float(value.AsDouble());
  if (value.Is(Kind::kString) && ParseFloat(value.AsString(), &result)) return Value::Float(result);
  return bound.Has(0) ? bound[0] : Value::Float(0.0);
}

absl::StatusOr<Value> FilterRound(const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind("round", args, {"precision", "method"}));
  BATON_ASSIGN_OR_RETURN(const int64_t precision, bound.IntOr(0, 0));
  BATON_ASSIGN_OR_RETURN(const std::string method, bound.StringOr(1, "common"));
  if (!value.IsNumber()) return TemplateError("round takes a number");
  constexpr int64_t kMaxPrecision = 15;  // decimal digits that a double holds
  if (precision < 0 || precision > kMaxPrecision) return TemplateError("round: the precision must be 0 to 15");
  if (method != "common" && method != "floor" && method != "ceil") return TemplateError("round: unknown method");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.AsDouble() * scale;
  // Python rounds halves to even, which is the default mode of nearbyint.
  const double rounded = method == "common"  ? std::nearbyint(scaled)
                         : method == "floor" ? std::floor(scaled)
                                             : std::ceil(scaled);
  return Value::Float(rounded / scale);
}

absl::StatusOr<Value> FilterAbs(const Value& value) {
  if (value.Is(Kind::kFloat)) return Value::Float(std::fabs(value.AsDouble()));
  if (!value.IsIntegral() || value.AsInt() == std::numeric_limits<int64_t>::min()) {
    return TemplateError("abs takes a number");
  }
  return Value::Int(std::abs(value.AsInt()));
}

absl::StatusOr<Value> FilterToJson(Budget* budget, const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::Bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  std::string spaces;
  JsonStyle style;
  style.ensure_ascii = bound.TruthyOr(0, false);
  style.sort_keys = bound.TruthyOr(3, false);
  if (bound.Has(1) && !bound[1].Is(Kind::kNone)) {
    style.has_indent = true;
    style.item_separator = ",";
    constexpr int64_t kMaxIndent = 64;
    if (bound[1].Is(Kind::kString) && bound[1].AsString().size() <= kMaxIndent) {
      style.indent = bound[1].AsString();
    } else if (bound[1].IsIntegral() && bound[1].AsInt() <= kMaxIndent) {
      spaces.append(static_cast<size_t>(std::max<int64_t>(0, bound[1].AsInt())), ' ');
      style.indent = spaces;
    } else {
      return TemplateError("tojson: the indent must be at most 64 spaces");
    }
  }
  if (bound.Has(2) && !bound[2].Is(Kind::kNone)) {
    if (!bound[2].Is(Kind::kList) || bound[2].AsList().items.size() != 2 ||
        !bound[2].AsList().items[0].Is(Kind::kString) || !bound[2].AsList().items[1].Is(Kind::kString)) {
      return TemplateError("tojson: separators must be two strings");
    }
    style.item_separator = bound[2].AsList().items[0].AsString();
    style.key_separator = bound[2].AsList().items[1].AsString();
  }
  std::string text;
  BATON_RETURN_IF_ERROR(AppendJson(budget, value, style, &text));
  return MakeString(budget, std::move(text));
}

absl::StatusOr<Value> FilterIndent(Budget* budget, const std::string& text, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind("indent", args, {"width", "first", "blank"}));
  std::string indent;
  if (bound.Has(0) && bound[0].Is(Kind::kString)) {
    indent = bound[0].AsString();
  } else {
    BATON_ASSIGN_OR_RETURN(const int64_t width, bound.IntOr(0, 4));
    BATON_RETURN_IF_ERROR(budget->Allocate(static_cast<size_t>(std::max<int64_t>(width, 0))));
    indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  BATON_RETURN_IF_ERROR(budget->Allocate(text.size() * sizeof(std::string_view)));
  // Like Jinja, adds a line end first, so that the last line counts even if it is empty.
  const std::string padded = text + "\n";
  std::string out;
  bool first = true;
  for (const std::string_view line : SplitLines(padded, /*keep_ends=*/false)) {
    BATON_RETURN_IF_ERROR(budget->Allocate(indent.size() + line.size() + 1));
    if (!first) out.push_back('\n');
    const bool wanted = first ? bound.TruthyOr(1, false) : (!line.empty() || bound.TruthyOr(2, false));
    if (wanted) out += indent;
    out += line;
    first = false;
  }
  return Value::String(std::move(out));
}

absl::StatusOr<Value> FilterEscape(Budget* budget, const std::string& text) {
  BATON_RETURN_IF_ERROR(budget->Allocate(text.size() * 5));
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out.push_back(c);
    }
  }
  return Value::String(std::move(out));
}

// Applies a string method under the name of a filter to the text of any value.
absl::StatusOr<std::optional<Value>> AsMethod(Budget* budget, std::string_view method, const Value& value,
                                              const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(std::string text, ToText(budget, value));
  return CallMethod(budget, Value::String(std::move(text)), method, args);
}

}  // namespace

absl::StatusOr<std::optional<Value>> ApplyTextFilter(Budget* budget, std::string_view name, const Value& value,
                                                     const Arguments& args) {
  if (name == "default" || name == "d") return FilterDefault(value, args);
  if (name == "int") return FilterInt(value, args);
  if (name == "float") return FilterFloat(value, args);
  if (name == "round") return FilterRound(value, args);
  if (name == "abs") return FilterAbs(value);
  if (name == "tojson") return FilterToJson(budget, value, args);
  if (name == "trim") return AsMethod(budget, "strip", value, args);
  if (name == "upper" || name == "lower" || name == "capitalize" || name == "title" || name == "replace") {
    return AsMethod(budget, name, value, args);
  }
  if (name == "string" || name == "safe") {
    if (value.Is(Kind::kString)) return value;
    BATON_ASSIGN_OR_RETURN(std::string text, ToText(budget, value));
    return Value::String(std::move(text));
  }
  if (name == "indent" || name == "escape" || name == "e") {
    BATON_ASSIGN_OR_RETURN(const std::string text, ToText(budget, value));
    return name == "indent" ? FilterIndent(budget, text, args) : FilterEscape(budget, text);
  }
  return std::optional<Value>();
}

absl::StatusOr<Value> ApplyFilter(Budget* budget, std::string_view name, const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(std::optional<Value> result, ApplyTextFilter(budget, name, value, args));
  if (!result.has_value()) {
    BATON_ASSIGN_OR_RETURN(result, ApplySequenceFilter(budget, name, value, args));
  }
  if (!result.has_value()) return TemplateError(absl::StrCat("there is no filter '", ToAbsl(name), "'"));
  return *std::move(result);
}

}  // namespace baton::tokenizer::jinja
