#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/utf8.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/text.h"

namespace baton::tokenizer::jinja {
namespace {

constexpr std::string_view kStringMethods[] = {
    "strip",   "lstrip",  "rstrip",     "split",   "rsplit",  "splitlines",   "startswith",  "endswith", "upper",
    "lower",   "title",   "capitalize", "replace", "find",    "rfind",        "count",       "join",     "isdigit",
    "isalpha", "isalnum", "isspace",    "isupper", "islower", "removeprefix", "removesuffix"};
constexpr std::string_view kDictMethods[] = {"items", "keys", "values", "get"};
constexpr std::string_view kListMethods[] = {"index", "count"};
constexpr std::string_view kLoopMethods[] = {"cycle"};

template <size_t N>
bool IsIn(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

absl::StatusOr<Value> MakeStrings(Budget* budget, const std::vector<std::string_view>& parts) {
  BATON_RETURN_IF_ERROR(budget->Allocate(parts.size() * sizeof(std::string)));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    BATON_ASSIGN_OR_RETURN(Value item, MakeString(budget, std::string(part)));
    items.push_back(std::move(item));
  }
  return MakeList(budget, std::move(items));
}

// Searches backwards and searches for sets of characters compare every pair in the worst case.
absl::Status ChargePairs(Budget* budget, size_t text_bytes, size_t part_bytes) {
  size_t pairs = 0;
  if (__builtin_mul_overflow(text_bytes, part_bytes, &pairs)) pairs = SIZE_MAX / 2;
  return budget->Scan(pairs);
}

absl::StatusOr<Value> CallStrip(Budget* budget, const std::string& text, std::string_view name, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, args, {"chars"}));
  std::string_view rest = text;
  if (!bound.Has(0) || bound[0].Is(Kind::kNone)) {
    if (name != "rstrip") rest = StripLeft(rest);
    if (name != "lstrip") rest = StripRight(rest);
  } else {
    BATON_ASSIGN_OR_RETURN(const std::string chars, bound.String(0));
    BATON_RETURN_IF_ERROR(ChargePairs(budget, text.size(), chars.size()));
    if (name != "rstrip") rest = StripLeft(rest, chars);
    if (name != "lstrip") rest = StripRight(rest, chars);
  }
  return MakeString(budget, std::string(rest));
}

std::vector<std::string_view> SplitFromRight(std::string_view text, std::string_view separator, int64_t max_splits) {
  std::vector<std::string_view> parts;
  while (max_splits-- > 0) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

absl::StatusOr<Value> CallSplit(Budget* budget, const std::string& text, std::string_view name, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, args, {"sep", "maxsplit"}));
  BATON_ASSIGN_OR_RETURN(const int64_t max_splits, bound.IntOr(1, -1));
  BATON_RETURN_IF_ERROR(budget->Scan(text.size()));
  if (!bound.Has(0) || bound[0].Is(Kind::kNone)) {
    if (name == "rsplit" && max_splits >= 0) return TemplateError("rsplit needs a separator");
    BATON_RETURN_IF_ERROR(budget->Allocate(text.size() / 2 * sizeof(std::string_view)));
    return MakeStrings(budget, SplitSpaces(text, max_splits));
  }
  BATON_ASSIGN_OR_RETURN(const std::string separator, bound.String(0));
  if (separator.empty()) return TemplateError("split: the separator is empty");
  BATON_RETURN_IF_ERROR(budget->Allocate(text.size() / separator.size() * sizeof(std::string_view)));
  if (name == "split" || max_splits < 0) return MakeStrings(budget, Split(text, separator, max_splits));
  BATON_RETURN_IF_ERROR(ChargePairs(budget, text.size(), separator.size()));
  return MakeStrings(budget, SplitFromRight(text, separator, max_splits));
}

absl::StatusOr<Value> CallStartsOrEnds(Budget* budget, const std::string& text, std::string_view name,
                                       const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, args, {"part"}));
  BATON_ASSIGN_OR_RETURN(const Value part, bound.Required(0));
  std::vector<Value> parts = {part};
  if (part.Is(Kind::kList) && part.AsList().is_tuple) parts = part.AsList().items;
  for (const Value& candidate : parts) {
    if (!candidate.Is(Kind::kString)) return TemplateError(absl::StrCat(ToAbsl(name), " takes a string"));
    const std::string& s = candidate.AsString();
    BATON_RETURN_IF_ERROR(budget->Scan(s.size()));
    if (s.size() > text.size()) continue;
    if (text.compare(name == "startswith" ? 0 : text.size() - s.size(), s.size(), s) == 0) return Value::Bool(true);
  }
  return Value::Bool(false);
}

absl::StatusOr<Value> CallRemove(Budget* budget, const std::string& text, std::string_view name,
                                 const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, args, {"part"}));
  BATON_ASSIGN_OR_RETURN(const std::string part, bound.String(0));
  const bool at_front = name == "removeprefix";
  if (part.size() > text.size() || text.compare(at_front ? 0 : text.size() - part.size(), part.size(), part) != 0) {
    return MakeString(budget, text);
  }
  return MakeString(budget, at_front ? text.substr(part.size()) : text.substr(0, text.size() - part.size()));
}

absl::StatusOr<Value> CallFind(Budget* budget, const std::string& text, std::string_view name, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, args, {"part"}));
  BATON_ASSIGN_OR_RETURN(const std::string part, bound.String(0));
  BATON_RETURN_IF_ERROR(budget->Scan(text.size() + part.size()));
  if (name == "count") return Value::Int(static_cast<int64_t>(CountParts(text, part)));
  if (name == "rfind") BATON_RETURN_IF_ERROR(ChargePairs(budget, text.size(), part.size()));
  const size_t at = name == "rfind" ? text.rfind(part) : Find(text, part);
  if (at == std::string::npos) return Value::Int(-1);
  return Value::Int(static_cast<int64_t>(CountCodePoints(std::string_view(text).substr(0, at))));
}

absl::StatusOr<Value> CallReplace(Budget* budget, const std::string& text, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind("replace", args, {"old", "new", "count"}));
  BATON_ASSIGN_OR_RETURN(const std::string from, bound.String(0));
  BATON_ASSIGN_OR_RETURN(const std::string to, bound.String(1));
  BATON_ASSIGN_OR_RETURN(const int64_t max_count, bound.IntOr(2, -1));
  BATON_RETURN_IF_ERROR(budget->Scan(text.size() + from.size()));
  size_t added = 0;
  if (__builtin_mul_overflow(CountParts(text, from), to.size(), &added)) added = SIZE_MAX / 2;
  BATON_RETURN_IF_ERROR(budget->Allocate(text.size() + added));
  return Value::String(Replace(text, from, to, max_count));
}

absl::StatusOr<Value> CallJoin(Budget* budget, const std::string& separator, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind("join", args, {"items"}));
  BATON_ASSIGN_OR_RETURN(const Value iterable, bound.Required(0));
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget, iterable));
  std::string text;
  bool first = true;
  for (const Value& item : list.AsList().items) {
    if (!item.Is(Kind::kString)) return TemplateError("join takes strings");
    BATON_RETURN_IF_ERROR(budget->Allocate(item.AsString().size() + separator.size()));
    if (!first) text += separator;
    first = false;
    text += item.AsString();
  }
  return Value::String(std::move(text));
}

// The methods without arguments.
absl::StatusOr<Value> CallPlain(Budget* budget, const std::string& text, std::string_view name, const Arguments& args) {
  BATON_RETURN_IF_ERROR(BoundArguments::Bind(name, args, {}).status());
  // A change of case may need more bytes: at most three for one.
  BATON_RETURN_IF_ERROR(budget->Allocate(text.size() * 3));
  if (name == "upper") return Value::String(Upper(text));
  if (name == "lower") return Value::String(Lower(text));
  if (name == "title") return Value::String(Title(text));
  if (name == "capitalize") return Value::String(Capitalize(text));
  if (name == "isdigit") return Value::Bool(AllAre(text, CharClass::kDigit));
  if (name == "isalpha") return Value::Bool(AllAre(text, CharClass::kAlpha));
  if (name == "isalnum") return Value::Bool(AllAre(text, CharClass::kAlnum));
  if (name == "isspace") return Value::Bool(AllAre(text, CharClass::kSpace));
  if (name == "isupper") return Value::Bool(AllAre(text, CharClass::kUpper));
  return Value::Bool(AllAre(text, CharClass::kLower));
}

absl::StatusOr<Value> CallStringMethod(Budget* budget, const std::string& text, std::string_view name,
                                       const Arguments& args) {
  if (name == "strip" || name == "lstrip" || name == "rstrip") return CallStrip(budget, text, name, args);
  if (name == "split" || name == "rsplit") return CallSplit(budget, text, name, args);
  if (name == "startswith" || name == "endswith") return CallStartsOrEnds(budget, text, name, args);
  if (name == "removeprefix" || name == "removesuffix") return CallRemove(budget, text, name, args);
  if (name == "find" || name == "rfind" || name == "count") return CallFind(budget, text, name, args);
  if (name == "replace") return CallReplace(budget, text, args);
  if (name == "join") return CallJoin(budget, text, args);
  if (name != "splitlines") return CallPlain(budget, text, name, args);
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, args, {"keepends"}));
  BATON_RETURN_IF_ERROR(budget->Allocate(text.size() * sizeof(std::string_view)));
  return MakeStrings(budget, SplitLines(text, bound.TruthyOr(0, false)));
}

absl::StatusOr<Value> CallDictMethod(Budget* budget, const DictData& dict, std::string_view name,
                                     const Arguments& args) {
  if (name == "get") {
    BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, args, {"key", "default"}));
    BATON_ASSIGN_OR_RETURN(const Value key, bound.Required(0));
    BATON_ASSIGN_OR_RETURN(const Value* found, FindKey(budget, dict, key));
    if (found != nullptr) return *found;
    return bound.Has(1) ? bound[1] : Value::MakeNone();
  }
  BATON_RETURN_IF_ERROR(BoundArguments::Bind(name, args, {}).status());
  if (name == "items") return DictItems(budget, dict);
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) items.push_back(name == "keys" ? key : value);
  return MakeList(budget, std::move(items));
}

absl::StatusOr<Value> CallListMethod(Budget* budget, const ListData& list, std::string_view name,
                                     const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, args, {"item"}));
  BATON_ASSIGN_OR_RETURN(const Value wanted, bound.Required(0));
  int64_t count = 0;
  for (size_t i = 0; i < list.items.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const bool equal, Equal(budget, list.items[i], wanted));
    if (equal && name == "index") return Value::Int(static_cast<int64_t>(i));
    count += equal;
  }
  if (name == "index") return TemplateError("index: the list has no such item");
  return Value::Int(count);
}

}  // namespace

bool HasMethod(const Value& receiver, std::string_view name) {
  switch (receiver.kind()) {
    case Kind::kString:
      return IsIn(kStringMethods, name);
    case Kind::kDict:
      return IsIn(kDictMethods, name);
    case Kind::kList:
      return IsIn(kListMethods, name);
    case Kind::kLoop:
      return IsIn(kLoopMethods, name);
    default:
      return false;
  }
}

absl::StatusOr<Value> CallMethod(Budget* budget, const Value& receiver, std::string_view name,
                                 const Arguments& arguments) {
  switch (receiver.kind()) {
    case Kind::kString:
      return CallStringMethod(budget, receiver.AsString(), name, arguments);
    case Kind::kDict:
      return CallDictMethod(budget, receiver.AsDict(), name, arguments);
    case Kind::kList:
      return CallListMethod(budget, receiver.AsList(), name, arguments);
    default:  // loop.cycle
      if (arguments.positional.empty()) return TemplateError("cycle takes at least one item");
      return arguments.positional[static_cast<size_t>(receiver.AsLoop().index0) % arguments.positional.size()];
  }
}

absl::StatusOr<Value> DictItems(Budget* budget, const DictData& dict) {
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    BATON_ASSIGN_OR_RETURN(Value pair, MakeList(budget, {key, value}, /*is_tuple=*/true));
    items.push_back(std::move(pair));
  }
  return MakeList(budget, std::move(items));
}

absl::StatusOr<int64_t> Length(Budget* budget, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      BATON_RETURN_IF_ERROR(budget->Scan(value.AsString().size()));
      return static_cast<int64_t>(CountCodePoints(value.AsString()));
    case Kind::kList:
      return static_cast<int64_t>(value.AsList().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.AsDict().entries.size());
    default:
      return TemplateError(absl::StrCat("'", ToAbsl(value.TypeName()), "' has no length"));
  }
}

}  // namespace baton::tokenizer::jinja
