#include "tokenizer/jinja/format.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "common/utf8.h"
#include "nlohmann/json.hpp"

namespace baton::tokenizer::jinja {
namespace {

// repr(float): the shortest digits that read back the same, with an exponent below 1e-4 and from 1e16 on.
std::string FloatRepr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  const double magnitude = std::fabs(d);
  const bool exponent = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), d,
                                    exponent ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer, result.ptr);
  if (!exponent && text.find('.') == std::string::npos) text += ".0";
  return text;
}

// str.isprintable of one character.
bool IsPrintable(uint32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

void AppendStringRepr(std::string_view text, std::string* out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out->push_back(quote);
  for (size_t offset = 0; offset < text.size();) {
    const size_t begin = offset;
    const uint32_t c = NextCodePoint(text, &offset);
    if (c == '\n') {
      out->append("\\n");
    } else if (c == '\r') {
      out->append("\\r");
    } else if (c == '\t') {
      out->append("\\t");
    } else if (c == '\\' || c == static_cast<uint32_t>(quote)) {
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
    } else if (IsPrintable(c)) {
      out->append(text.substr(begin, offset - begin));
    } else if (c < 0x100) {
      absl::StrAppendFormat(out, "\\x%02x", c);
    } else if (c < 0x10000) {
      absl::StrAppendFormat(out, "\\u%04x", c);
    } else {
      absl::StrAppendFormat(out, "\\U%08x", c);
    }
  }
  out->push_back(quote);
}

absl::Status AppendListRepr(Budget* budget, const ListData& list, std::string* out) {
  out->push_back(list.is_tuple ? '(' : '[');
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out->append(", ");
    BATON_RETURN_IF_ERROR(AppendRepr(budget, list.items[i], out));
  }
  if (list.is_tuple && list.items.size() == 1) out->push_back(',');
  out->push_back(list.is_tuple ? ')' : ']');
  return absl::OkStatus();
}

absl::Status AppendDictRepr(Budget* budget, const DictData& dict, std::string* out) {
  out->push_back('{');
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out->append(", ");
    first = false;
    BATON_RETURN_IF_ERROR(AppendRepr(budget, key, out));
    out->append(": ");
    BATON_RETURN_IF_ERROR(AppendRepr(budget, value, out));
  }
  out->push_back('}');
  return absl::OkStatus();
}

void AppendJsonString(std::string_view text, bool ensure_ascii, std::string* out) {
  out->push_back('"');
  for (size_t offset = 0; offset < text.size();) {
    const size_t begin = offset;
    const uint32_t c = NextCodePoint(text, &offset);
    static constexpr std::string_view kShort = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kShortNames = "\"\\nrtfb";
    const size_t at = c < 0x80 ? kShort.find(static_cast<char>(c)) : std::string_view::npos;
    if (at != std::string_view::npos) {
      out->push_back('\\');
      out->push_back(kShortNames[at]);
    } else if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
      absl::StrAppendFormat(out, "\\u%04x", c);
    } else if (ensure_ascii && c >= 0x10000) {
      const uint32_t v = c - 0x10000;
      absl::StrAppendFormat(out, "\\u%04x\\u%04x", 0xD800 + (v >> 10), 0xDC00 + (v & 0x3FF));
    } else {
      out->append(text.substr(begin, offset - begin));
    }
  }
  out->push_back('"');
}

class JsonWriter {
 public:
  JsonWriter(Budget* budget, const JsonStyle& style, std::string* out) : budget_(budget), style_(style), out_(out) {}

  absl::Status Write(const Value& value) {
    BATON_RETURN_IF_ERROR(budget_->Step());
    switch (value.kind()) {
      case Kind::kNone:
        out_->append("null");
        return absl::OkStatus();
      case Kind::kBool:
        out_->append(value.AsBool() ? "true" : "false");
        return absl::OkStatus();
      case Kind::kInt:
        absl::StrAppend(out_, value.AsInt());
        return absl::OkStatus();
      case Kind::kFloat:
        out_->append(Number(value.AsDouble()));
        return absl::OkStatus();
      case Kind::kString:
        BATON_RETURN_IF_ERROR(budget_->Allocate(value.AsString().size()));
        AppendJsonString(value.AsString(), style_.ensure_ascii, out_);
        return absl::OkStatus();
      case Kind::kList:
        return WriteList(value.AsList());
      case Kind::kDict:
        return WriteDict(value.AsDict());
      default:
        return TemplateError(absl::StrCat("'", ToAbsl(value.TypeName()), "' cannot be written as JSON"));
    }
  }

 private:
  static std::string Number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(d);
  }

  // Between items with an indent the separator is followed by a line end, and Python drops its space.
  void Separate(bool first) {
    if (!first) out_->append(style_.item_separator);
    if (!style_.has_indent) return;
    out_->push_back('\n');
    for (int i = 0; i < nesting_; ++i) out_->append(style_.indent);
  }

  absl::Status WriteList(const ListData& list) {
    if (list.items.empty()) {
      out_->append("[]");
      return absl::OkStatus();
    }
    out_->push_back('[');
    ++nesting_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      BATON_RETURN_IF_ERROR(budget_->Allocate(style_.indent.size() * nesting_ + style_.item_separator.size()));
      Separate(i == 0);
      BATON_RETURN_IF_ERROR(Write(list.items[i]));
    }
    --nesting_;
    Separate(/*first=*/true);
    out_->push_back(']');
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> KeyText(const Value& key) {
    if (key.Is(Kind::kString)) {
      BATON_RETURN_IF_ERROR(budget_->Allocate(key.AsString().size()));
      return key.AsString();
    }
    if (key.Is(Kind::kList) || key.Is(Kind::kUndefined)) return TemplateError("this key cannot be written as JSON");
    std::string text;
    BATON_RETURN_IF_ERROR(JsonWriter(budget_, style_, &text).Write(key));
    return text;
  }

  absl::Status WriteDict(const DictData& dict) {
    if (dict.entries.empty()) {
      out_->append("{}");
      return absl::OkStatus();
    }
    std::vector<std::pair<std::string, const Value*>> entries;
    for (const auto& [key, value] : dict.entries) {
      BATON_ASSIGN_OR_RETURN(std::string text, KeyText(key));
      entries.emplace_back(std::move(text), &value);
    }
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.first < b.first; });
    }
    out_->push_back('{');
    ++nesting_;
    for (size_t i = 0; i < entries.size(); ++i) {
      BATON_RETURN_IF_ERROR(budget_->Allocate(style_.indent.size() * nesting_ + style_.item_separator.size()));
      Separate(i == 0);
      AppendJsonString(entries[i].first, style_.ensure_ascii, out_);
      out_->append(style_.key_separator);
      BATON_RETURN_IF_ERROR(Write(*entries[i].second));
    }
    --nesting_;
    Separate(/*first=*/true);
    out_->push_back('}');
    return absl::OkStatus();
  }

  Budget* budget_;
  const JsonStyle& style_;
  std::string* out_;
  int nesting_ = 0;
};

}  // namespace

absl::Status AppendText(Budget* budget, const Value& value, std::string* out) {
  if (value.Is(Kind::kUndefined)) return absl::OkStatus();
  if (!value.Is(Kind::kString)) return AppendRepr(budget, value, out);
  BATON_RETURN_IF_ERROR(budget->Allocate(value.AsString().size()));
  out->append(value.AsString());
  return absl::OkStatus();
}

absl::StatusOr<std::string> ToText(Budget* budget, const Value& value) {
  std::string text;
  BATON_RETURN_IF_ERROR(AppendText(budget, value, &text));
  return text;
}

absl::Status AppendRepr(Budget* budget, const Value& value, std::string* out) {
  BATON_RETURN_IF_ERROR(budget->Step());
  switch (value.kind()) {
    case Kind::kUndefined:
      out->append("Undefined");
      return absl::OkStatus();
    case Kind::kNone:
      out->append("None");
      return absl::OkStatus();
    case Kind::kBool:
      out->append(value.AsBool() ? "True" : "False");
      return absl::OkStatus();
    case Kind::kInt:
      absl::StrAppend(out, value.AsInt());
      return absl::OkStatus();
    case Kind::kFloat:
      out->append(FloatRepr(value.AsDouble()));
      return absl::OkStatus();
    case Kind::kString:
      BATON_RETURN_IF_ERROR(budget->Allocate(value.AsString().size()));
      AppendStringRepr(value.AsString(), out);
      return absl::OkStatus();
    case Kind::kList:
      return AppendListRepr(budget, value.AsList(), out);
    case Kind::kDict:
      return AppendDictRepr(budget, value.AsDict(), out);
    default:
      return TemplateError(absl::StrCat("a ", ToAbsl(value.TypeName()), " cannot be printed"));
  }
}

absl::Status AppendJson(Budget* budget, const Value& value, const JsonStyle& style, std::string* out) {
  return JsonWriter(budget, style, out).Write(value);
}

absl::StatusOr<Value> FromJson(Budget* budget, const nlohmann::ordered_json& json) {
  const Budget::Nested nested(budget);
  BATON_RETURN_IF_ERROR(nested.status());
  BATON_RETURN_IF_ERROR(budget->Step());
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      return Value::MakeNone();
    case nlohmann::json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return Value::Int(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return TemplateError("an integer is too large");
      return Value::Int(json.get<int64_t>());
    case nlohmann::json::value_t::number_float:
      return Value::Float(json.get<double>());
    case nlohmann::json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!IsValidUtf8(text)) return TemplateError("a string is not valid UTF-8");
      return MakeString(budget, text);
    }
    case nlohmann::json::value_t::array: {
      std::vector<Value> items;
      for (const auto& item : json) {
        BATON_ASSIGN_OR_RETURN(Value value, FromJson(budget, item));
        items.push_back(std::move(value));
      }
      return MakeList(budget, std::move(items));
    }
    case nlohmann::json::value_t::object: {
      Entries entries;
      for (const auto& [key, item] : json.items()) {
        if (!IsValidUtf8(key)) return TemplateError("a key is not valid UTF-8");
        BATON_ASSIGN_OR_RETURN(Value value, FromJson(budget, item));
        entries.emplace_back(Value::String(key), std::move(value));
      }
      return MakeDict(budget, std::move(entries));
    }
    default:
      return TemplateError("a value is of no type that templates know");
  }
}

}  // namespace baton::tokenizer::jinja
