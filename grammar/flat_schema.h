// What several schemas ask for together, keyword by keyword.
#ifndef BATON_GRAMMAR_FLAT_SCHEMA_H_
#define BATON_GRAMMAR_FLAT_SCHEMA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grammar/json_value.h"
#include "grammar/number_range.h"

namespace baton::grammar {

// Schemas that a value must satisfy all: nodes of one SchemaSource. None: any value does.
using SchemaNodes = std::vector<const JsonValue*>;

// Sets of types, as bits. A number is either an integer or a fraction.
enum JsonTypes : uint8_t {
  kNullType = 1,
  kBoolType = 2,
  kIntegerType = 4,
  kFractionType = 8,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAllTypes = 127,
};
JsonTypes TypeOf(const JsonValue& value);

struct FlatSchema {
  // Of one of the schemas.
  struct ObjectPart {
    const JsonValue* properties;  // Null: none.
    const JsonValue* additional;  // Null: anything.
  };
  struct ArrayPart {
    const JsonValue* prefix;  // Null: none.
    const JsonValue* items;   // Null: anything.
  };
  struct Member {
    const std::string* name;
    SchemaNodes nodes;
    bool is_required = false;
  };
  // An anyOf or a oneOf.
  struct Choice {
    const JsonValue* node;  // Whose keyword it is.
    const JsonValue* branches;
    bool is_one_of;
  };
  // Counts of characters or items. max -1: any.
  struct Counts {
    int64_t min = 0;
    int64_t max = -1;
    void NarrowTo(int64_t new_min, int64_t new_max);
    bool is_empty() const { return max >= 0 && max < min; }
    bool is_any() const { return min == 0 && max < 0; }
  };

  uint8_t types = kAllTypes;
  std::optional<std::vector<const JsonValue*>> values;  // From enum and const.
  NumberBounds bounds;
  Counts length;
  std::vector<const JsonValue*> patterns;
  std::vector<const JsonValue*> formats;
  Counts items;
  std::vector<ArrayPart> arrays;
  std::vector<ObjectPart> objects;
  std::vector<const JsonValue*> required;  // In their order.
  std::vector<Choice> choices;
  // Whether a $ref was followed, so that a schema may contain itself.
  bool has_ref = false;
  // Whether there is more than choices.
  bool has_own_keywords = false;

  void KeepValues(const std::vector<const JsonValue*>& allowed);
  // The members that have names: those of `properties`, and then those that are only required.
  std::vector<Member> Members() const;
  // What the schemas ask of other members, and of an item.
  SchemaNodes NodesOfOthers() const;
  SchemaNodes NodesOfItem(size_t index) const;
  // The length of the longest prefixItems.
  size_t LongestPrefix() const;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_FLAT_SCHEMA_H_
