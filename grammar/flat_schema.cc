#include "grammar/flat_schema.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace baton::grammar {

JsonTypes TypeOf(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return kNullType;
    case JsonValue::Kind::kBool:
      return kBoolType;
    case JsonValue::Kind::kString:
      return kStringType;
    case JsonValue::Kind::kArray:
      return kArrayType;
    case JsonValue::Kind::kObject:
      return kObjectType;
    case JsonValue::Kind::kNumber:
      break;
  }
  const auto decimal = ToDecimal(value.text);
  // What is too long to be looked at has an exponent that makes it whole, or else too many digits for an integer.
  return decimal.ok() && !decimal->is_integer() ? kFractionType : kIntegerType;
}

void FlatSchema::Counts::NarrowTo(int64_t new_min, int64_t new_max) {
  min = std::max(min, new_min);
  if (new_max >= 0) max = max < 0 ? new_max : std::min(max, new_max);
}

void FlatSchema::KeepValues(const std::vector<const JsonValue*>& allowed) {
  if (!values.has_value()) {
    values = allowed;
    return;
  }
  std::erase_if(*values, [&allowed](const JsonValue* value) {
    return std::none_of(allowed.begin(), allowed.end(),
                        [value](const JsonValue* other) { return AreEqual(*value, *other); });
  });
}

std::vector<FlatSchema::Member> FlatSchema::Members() const {
  std::vector<Member> members;
  absl::flat_hash_map<std::string_view, size_t> index_of;
  const auto member_of = [&](const std::string& name) {
    const auto [it, is_new] = index_of.try_emplace(name, members.size());
    if (is_new) members.push_back({&name, {}, false});
    return it->second;
  };
  for (const ObjectPart& part : objects) {
    if (part.properties == nullptr) continue;
    for (const std::string& name : part.properties->keys) member_of(name);
  }
  for (const JsonValue* name : required) members[member_of(name->text)].is_required = true;
  for (const ObjectPart& part : objects) {
    std::vector<bool> is_declared(members.size(), false);
    for (size_t i = 0; part.properties != nullptr && i < part.properties->keys.size(); ++i) {
      const size_t index = member_of(part.properties->keys[i]);
      members[index].nodes.push_back(&part.properties->items[i]);
      is_declared[index] = true;
    }
    for (size_t i = 0; part.additional != nullptr && i < members.size(); ++i) {
      if (!is_declared[i]) members[i].nodes.push_back(part.additional);
    }
  }
  return members;
}

SchemaNodes FlatSchema::NodesOfOthers() const {
  SchemaNodes nodes;
  for (const ObjectPart& part : objects) {
    if (part.additional != nullptr) nodes.push_back(part.additional);
  }
  return nodes;
}

SchemaNodes FlatSchema::NodesOfItem(size_t index) const {
  SchemaNodes nodes;
  for (const ArrayPart& part : arrays) {
    const bool is_in_prefix = part.prefix != nullptr && index < part.prefix->items.size();
    const JsonValue* node = is_in_prefix ? &part.prefix->items[index] : part.items;
    if (node != nullptr) nodes.push_back(node);
  }
  return nodes;
}

size_t FlatSchema::LongestPrefix() const {
  size_t longest = 0;
  for (const ArrayPart& part : arrays) {
    if (part.prefix != nullptr) longest = std::max(longest, part.prefix->items.size());
  }
  return longest;
}

}  // namespace baton::grammar
