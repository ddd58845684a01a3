#include "tokenizer/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/utf8.h"

namespace baton::tokenizer::jinja {
namespace {

int Order(double a, double b) { return a < b ? -1 : (a > b ? 1 : 0); }

absl::StatusOr<bool> ListsEqual(Budget* budget, const ListData& a, const ListData& b) {
  if (a.is_tuple != b.is_tuple || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const bool equal, Equal(budget, a.items[i], b.items[i]));
    if (!equal) return false;
  }
  return true;
}

absl::StatusOr<bool> DictsEqual(Budget* budget, const DictData& a, const DictData& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    BATON_ASSIGN_OR_RETURN(const Value* other, FindKey(budget, b, key));
    if (other == nullptr) return false;
    BATON_ASSIGN_OR_RETURN(const bool equal, Equal(budget, value, *other));
    if (!equal) return false;
  }
  return true;
}

bool NumbersEqual(const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) return a.AsInt() == b.AsInt();
  return a.AsDouble() == b.AsDouble();
}

absl::StatusOr<int> CompareLists(Budget* budget, const ListData& a, const ListData& b) {
  const size_t common = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < common; ++i) {
    BATON_ASSIGN_OR_RETURN(const bool equal, Equal(budget, a.items[i], b.items[i]));
    if (!equal) return Compare(budget, a.items[i], b.items[i]);
  }
  return Order(static_cast<double>(a.items.size()), static_cast<double>(b.items.size()));
}

bool IsHashable(const Value& key) {
  return !key.Is(Kind::kList) || key.AsList().is_tuple ? !key.Is(Kind::kDict) : false;
}

}  // namespace

Value Value::MakeUndefined(std::string_view name) {
  return Value(std::make_shared<const Undefined>(Undefined{std::string(name)}));
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kList:
      return AsList().depth;
    case Kind::kDict:
      return AsDict().depth;
    case Kind::kLoop:
      return AsLoop().items.depth() + 1;
    case Kind::kCallable:
      return AsCallable().receiver.depth() + 1;
    default:
      return 0;
  }
}

bool Value::Truthy() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return AsInt() != 0;
    case Kind::kFloat:
      return AsDouble() != 0;
    case Kind::kString:
      return !AsString().empty();
    case Kind::kList:
      return !AsList().items.empty();
    case Kind::kDict:
      return !AsDict().entries.empty();
    default:
      return true;
  }
}

std::string_view Value::TypeName() const {
  switch (kind()) {
    case Kind::kUndefined:
      return "undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return AsList().is_tuple ? "tuple" : "list";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kLoop:
      return "loop";
    case Kind::kCallable:
      return "function";
  }
  return "";
}

absl::StatusOr<Value> MakeString(Budget* budget, std::string text) {
  BATON_RETURN_IF_ERROR(budget->Allocate(text.size()));
  return Value::String(std::move(text));
}

absl::StatusOr<Value> MakeList(Budget* budget, std::vector<Value> items, bool is_tuple) {
  BATON_RETURN_IF_ERROR(budget->Allocate(items.size() * sizeof(Value)));
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  BATON_RETURN_IF_ERROR(budget->CheckValueDepth(depth + 1));
  return Value::List(std::make_shared<const ListData>(ListData{std::move(items), is_tuple, depth + 1}));
}

absl::StatusOr<Value> MakeDict(Budget* budget, Entries entries) {
  BATON_RETURN_IF_ERROR(budget->Allocate(entries.size() * 2 * sizeof(Value)));
  DictData dict;
  int depth = 0;
  for (auto& [key, value] : entries) {
    depth = std::max({depth, key.depth(), value.depth()});
    BATON_ASSIGN_OR_RETURN(const Value* found, FindKey(budget, dict, key));
    if (found == nullptr) {
      dict.entries.emplace_back(std::move(key), std::move(value));
    } else {
      const auto same = [found](const auto& entry) { return &entry.second == found; };
      std::find_if(dict.entries.begin(), dict.entries.end(), same)->second = std::move(value);
    }
  }
  BATON_RETURN_IF_ERROR(budget->CheckValueDepth(depth + 1));
  dict.depth = depth + 1;
  return Value::Dict(std::make_shared<const DictData>(std::move(dict)));
}

absl::StatusOr<bool> Equal(Budget* budget, const Value& a, const Value& b) {
  BATON_RETURN_IF_ERROR(budget->Step());
  if (a.IsNumber() && b.IsNumber()) return NumbersEqual(a, b);
  if (a.kind() != b.kind()) return false;
  if (a.Is(Kind::kUndefined) || a.SameObject(b)) return true;
  switch (a.kind()) {
    case Kind::kString:
      BATON_RETURN_IF_ERROR(budget->Scan(std::min(a.AsString().size(), b.AsString().size())));
      return a.AsString() == b.AsString();
    case Kind::kList:
      return ListsEqual(budget, a.AsList(), b.AsList());
    case Kind::kDict:
      return DictsEqual(budget, a.AsDict(), b.AsDict());
    default:
      return false;
  }
}

absl::StatusOr<int> Compare(Budget* budget, const Value& a, const Value& b) {
  BATON_RETURN_IF_ERROR(budget->Step());
  if (a.IsIntegral() && b.IsIntegral()) return a.AsInt() < b.AsInt() ? -1 : static_cast<int>(a.AsInt() > b.AsInt());
  if (a.IsNumber() && b.IsNumber()) return Order(a.AsDouble(), b.AsDouble());
  if (a.Is(Kind::kString) && b.Is(Kind::kString)) {
    BATON_RETURN_IF_ERROR(budget->Scan(std::min(a.AsString().size(), b.AsString().size())));
    // Bytes of UTF-8 sort in the order of code points.
    return a.AsString().compare(b.AsString());
  }
  if (a.Is(Kind::kList) && b.Is(Kind::kList) && a.AsList().is_tuple == b.AsList().is_tuple) {
    return CompareLists(budget, a.AsList(), b.AsList());
  }
  if (a.Is(Kind::kUndefined)) return UndefinedError(a);
  if (b.Is(Kind::kUndefined)) return UndefinedError(b);
  return TemplateError(absl::StrCat("'", ToAbsl(a.TypeName()), "' and '", ToAbsl(b.TypeName()), "' have no order"));
}

absl::StatusOr<const Value*> FindKey(Budget* budget, const DictData& dict, const Value& key) {
  if (!IsHashable(key)) return TemplateError(absl::StrCat("a ", ToAbsl(key.TypeName()), " cannot be a dict's key"));
  for (const auto& [k, v] : dict.entries) {
    BATON_ASSIGN_OR_RETURN(const bool equal, Equal(budget, k, key));
    if (equal) return &v;
  }
  return static_cast<const Value*>(nullptr);
}

absl::StatusOr<Value> ToList(Budget* budget, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined:
      break;
    case Kind::kList:
      return value;
    case Kind::kDict:
      for (const auto& [k, v] : value.AsDict().entries) items.push_back(k);
      break;
    case Kind::kString: {
      const std::string& text = value.AsString();
      // Every character becomes a value, which takes far more memory than the text.
      BATON_RETURN_IF_ERROR(budget->Allocate(text.size() * sizeof(std::string)));
      for (size_t offset = 0; offset < text.size();) {
        const size_t begin = offset;
        (void)NextCodePoint(text, &offset);
        items.push_back(Value::String(text.substr(begin, offset - begin)));
      }
      break;
    }
    default:
      return TemplateError(absl::StrCat("'", ToAbsl(value.TypeName()), "' cannot be iterated"));
  }
  return MakeList(budget, std::move(items));
}

absl::Status TemplateError(std::string_view message) { return absl::InvalidArgumentError(ToAbsl(message)); }

absl::Status UndefinedError(const Value& value) {
  if (value.undefined_name().empty()) return TemplateError("the value is undefined");
  return TemplateError(absl::StrCat("'", value.undefined_name(), "' is undefined"));
}

}  // namespace baton::tokenizer::jinja
