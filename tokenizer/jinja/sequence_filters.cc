#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/text.h"

namespace baton::tokenizer::jinja {
namespace {

// Follows a path such as "a.b.0" through attributes and items. An empty path leads to the value itself.
absl::StatusOr<Value> FollowPath(Budget* budget, Value value, const Value& path) {
  if (path.IsIntegral()) return GetItem(budget, value, path);
  if (!path.Is(Kind::kString)) return TemplateError("an attribute must be named by a string");
  BATON_RETURN_IF_ERROR(budget->Allocate(path.AsString().size() * sizeof(std::string_view)));
  for (const std::string_view part : Split(path.AsString(), ".", -1)) {
    int64_t index = 0;
    const bool is_index = !part.empty() && part[0] != '-' && absl::SimpleAtoi(ToAbsl(part), &index);
    const Value key = is_index ? Value::Int(index) : Value::String(std::string(part));
    BATON_ASSIGN_OR_RETURN(value, GetItem(budget, value, key));
  }
  return value;
}

// What sort, min, max, unique, join and sum look at: an attribute or the item. They ignore case unless asked not to.
struct KeyStyle {
  std::optional<Value> attribute;
  bool case_sensitive = false;
};

absl::StatusOr<Value> KeyOf(Budget* budget, const Value& item, const KeyStyle& style) {
  Value key = item;
  if (style.attribute.has_value() && !style.attribute->Is(Kind::kNone)) {
    BATON_ASSIGN_OR_RETURN(key, FollowPath(budget, key, *style.attribute));
  }
  if (!style.case_sensitive && key.Is(Kind::kString)) {
    BATON_RETURN_IF_ERROR(budget->Allocate(key.AsString().size() * 3));
    return Value::String(Lower(key.AsString()));
  }
  return key;
}

std::optional<Value> Given(const BoundArguments& bound, size_t i) {
  return bound.Has(i) ? std::optional<Value>(bound[i]) : std::nullopt;
}

absl::StatusOr<Value> FilterSort(Budget* budget, const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::Bind("sort", args, {"reverse", "case_sensitive", "attribute"}));
  const bool reverse = bound.TruthyOr(0, false);
  const KeyStyle style{Given(bound, 2), bound.TruthyOr(1, false)};
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget, value));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : list.AsList().items) {
    BATON_ASSIGN_OR_RETURN(Value key, KeyOf(budget, item, style));
    keyed.emplace_back(std::move(key), item);
  }
  absl::Status status;
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    if (!status.ok()) return false;
    const absl::StatusOr<int> order = Compare(budget, a.first, b.first);
    if (!order.ok()) status = order.status();
    return order.ok() && (reverse ? *order > 0 : *order < 0);
  });
  BATON_RETURN_IF_ERROR(status);
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return MakeList(budget, std::move(items));
}

absl::StatusOr<Value> FilterExtreme(Budget* budget, const Value& value, const Arguments& args, bool max) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::Bind(max ? "max" : "min", args, {"case_sensitive", "attribute"}));
  const KeyStyle style{Given(bound, 1), bound.TruthyOr(0, false)};
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget, value));
  std::optional<std::pair<Value, Value>> best;
  for (const Value& item : list.AsList().items) {
    BATON_ASSIGN_OR_RETURN(Value key, KeyOf(budget, item, style));
    int order = 0;
    if (best.has_value()) {
      BATON_ASSIGN_OR_RETURN(order, Compare(budget, key, best->first));
    }
    if (!best.has_value() || (max ? order > 0 : order < 0)) best.emplace(std::move(key), item);
  }
  return best.has_value() ? best->second : Value::MakeUndefined("");
}

absl::StatusOr<Value> FilterUnique(Budget* budget, const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::Bind("unique", args, {"case_sensitive", "attribute"}));
  const KeyStyle style{Given(bound, 1), bound.TruthyOr(0, false)};
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget, value));
  std::vector<Value> keys;
  std::vector<Value> items;
  for (const Value& item : list.AsList().items) {
    BATON_ASSIGN_OR_RETURN(Value key, KeyOf(budget, item, style));
    bool found = false;
    for (size_t i = 0; i < keys.size() && !found; ++i) {
      BATON_ASSIGN_OR_RETURN(found, Equal(budget, keys[i], key));
    }
    if (found) continue;
    keys.push_back(std::move(key));
    items.push_back(item);
  }
  return MakeList(budget, std::move(items));
}

absl::StatusOr<Value> FilterSum(Budget* budget, const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind("sum", args, {"attribute", "start"}));
  const KeyStyle style{Given(bound, 0), /*case_sensitive=*/true};
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget, value));
  Value total = bound.Has(1) ? bound[1] : Value::Int(0);
  for (const Value& item : list.AsList().items) {
    BATON_ASSIGN_OR_RETURN(const Value key, KeyOf(budget, item, style));
    BATON_ASSIGN_OR_RETURN(total, ApplyBinary(budget, "+", total, key));
  }
  return total;
}

absl::StatusOr<Value> FilterJoin(Budget* budget, const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind("join", args, {"d", "attribute"}));
  BATON_ASSIGN_OR_RETURN(const std::string separator, bound.StringOr(0, ""));
  const KeyStyle style{Given(bound, 1), /*case_sensitive=*/true};
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget, value));
  std::string text;
  bool first = true;
  for (const Value& item : list.AsList().items) {
    BATON_ASSIGN_OR_RETURN(const Value key, KeyOf(budget, item, style));
    BATON_RETURN_IF_ERROR(budget->Allocate(separator.size()));
    if (!first) text += separator;
    first = false;
    BATON_RETURN_IF_ERROR(AppendText(budget, key, &text));
  }
  return Value::String(std::move(text));
}

absl::StatusOr<Value> FilterMap(Budget* budget, const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget, value));
  std::vector<Value> items;
  if (!args.positional.empty()) {
    if (!args.positional[0].Is(Kind::kString)) return TemplateError("map takes the name of a filter");
    const Arguments rest{{args.positional.begin() + 1, args.positional.end()}, args.named};
    for (const Value& item : list.AsList().items) {
      BATON_ASSIGN_OR_RETURN(Value mapped, ApplyFilter(budget, args.positional[0].AsString(), item, rest));
      items.push_back(std::move(mapped));
    }
    return MakeList(budget, std::move(items));
  }
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind("map", args, {"attribute", "default"}));
  BATON_ASSIGN_OR_RETURN(const Value path, bound.Required(0));
  for (const Value& item : list.AsList().items) {
    BATON_ASSIGN_OR_RETURN(Value mapped, FollowPath(budget, item, path));
    if (mapped.Is(Kind::kUndefined) && bound.Has(1)) mapped = bound[1];
    items.push_back(std::move(mapped));
  }
  return MakeList(budget, std::move(items));
}

// select, reject, selectattr and rejectattr keep the items for which a test, or their truth, holds or fails.
absl::StatusOr<Value> FilterSelect(Budget* budget, const Value& value, const Arguments& args, std::string_view name) {
  const bool by_attribute = name == "selectattr" || name == "rejectattr";
  const bool keep = name == "select" || name == "selectattr";
  const size_t test_at = by_attribute ? 1 : 0;
  if (args.positional.size() < test_at) return TemplateError(absl::StrCat(ToAbsl(name), " takes an attribute"));
  std::string test;
  Arguments rest;
  if (args.positional.size() > test_at) {
    if (!args.positional[test_at].Is(Kind::kString)) return TemplateError("the name of a test must be a string");
    test = args.positional[test_at].AsString();
    rest = {{args.positional.begin() + static_cast<std::ptrdiff_t>(test_at) + 1, args.positional.end()}, args.named};
  }
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget, value));
  std::vector<Value> items;
  for (const Value& item : list.AsList().items) {
    Value subject = item;
    if (by_attribute) {
      BATON_ASSIGN_OR_RETURN(subject, FollowPath(budget, subject, args.positional[0]));
    }
    bool holds = subject.Truthy();
    if (!test.empty()) {
      BATON_ASSIGN_OR_RETURN(holds, ApplyTest(budget, test, subject, rest));
    }
    if (holds == keep) items.push_back(item);
  }
  return MakeList(budget, std::move(items));
}

absl::StatusOr<Value> FilterReverse(Budget* budget, const Value& value) {
  if (value.Is(Kind::kString)) return GetSlice(budget, value, {.begin = {}, .end = {}, .step = -1});
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget, value));
  return MakeList(budget, {list.AsList().items.rbegin(), list.AsList().items.rend()});
}

absl::StatusOr<Value> FilterEnd(Budget* budget, const Value& value, bool last) {
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget, value));
  const std::vector<Value>& items = list.AsList().items;
  if (items.empty()) return Value::MakeUndefined("");
  return last ? items.back() : items.front();
}

absl::StatusOr<Value> FilterDictSort(Budget* budget, const Value& value, const Arguments& args) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::Bind("dictsort", args, {"case_sensitive", "by", "reverse"}));
  BATON_ASSIGN_OR_RETURN(const std::string by, bound.StringOr(1, "key"));
  if (!value.Is(Kind::kDict) || (by != "key" && by != "value"))
    return TemplateError("dictsort sorts dicts by key or value");
  BATON_ASSIGN_OR_RETURN(const Value items, DictItems(budget, value.AsDict()));
  Arguments sort;
  sort.named.emplace_back("attribute", Value::Int(by == "key" ? 0 : 1));
  sort.named.emplace_back("case_sensitive", Value::Bool(bound.TruthyOr(0, false)));
  sort.named.emplace_back("reverse", Value::Bool(bound.TruthyOr(2, false)));
  return FilterSort(budget, items, sort);
}

}  // namespace

absl::StatusOr<std::optional<Value>> ApplySequenceFilter(Budget* budget, std::string_view name, const Value& value,
                                                         const Arguments& args) {
  if (name == "length" || name == "count") {
    BATON_ASSIGN_OR_RETURN(const int64_t length, Length(budget, value));
    return Value::Int(length);
  }
  if (name == "join") return FilterJoin(budget, value, args);
  if (name == "first" || name == "last") return FilterEnd(budget, value, name == "last");
  if (name == "list") return ToList(budget, value);
  if (name == "items") {
    if (value.Is(Kind::kDict)) return DictItems(budget, value.AsDict());
    if (value.Is(Kind::kUndefined)) return MakeList(budget, {});
    return TemplateError("items takes a dict");
  }
  if (name == "map") return FilterMap(budget, value, args);
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr") {
    return FilterSelect(budget, value, args, name);
  }
  if (name == "reverse") return FilterReverse(budget, value);
  if (name == "sort") return FilterSort(budget, value, args);
  if (name == "dictsort") return FilterDictSort(budget, value, args);
  if (name == "unique") return FilterUnique(budget, value, args);
  if (name == "sum") return FilterSum(budget, value, args);
  if (name == "min" || name == "max") return FilterExtreme(budget, value, args, name == "max");
  return std::optional<Value>();
}

}  // namespace baton::tokenizer::jinja
