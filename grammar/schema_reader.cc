#include "grammar/schema_reader.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/status.h"
#include "grammar/grammar_limits.h"

namespace baton::grammar {
namespace {

// The longest chain of schemas that do nothing but refer to the next one.
constexpr int kMaxRefChain = 64;

// Keywords that say something about a schema, or hold schemas for others to refer to.
constexpr std::string_view kSilentKeywords[] = {
    "$anchor",  "$comment",      "$defs",        "$dynamicAnchor", "contentEncoding", "contentMediaType",
    "default",  "definitions",   "deprecated",   "description",    "discriminator",   "example",
    "examples", "contentSchema", "externalDocs", "readOnly",       "title",           "writeOnly",
};

bool IsSilent(std::string_view keyword) {
  return absl::StartsWith(ToAbsl(keyword), "x-") ||
         std::find(std::begin(kSilentKeywords), std::end(kSilentKeywords), keyword) != std::end(kSilentKeywords);
}

// Whether a schema asks for nothing beside these keywords.
bool HasNothingBeside(const JsonValue& node, std::string_view keyword) {
  return node.is_object() && std::all_of(node.keys.begin(), node.keys.end(),
                                         [keyword](const std::string& key) { return key == keyword || IsSilent(key); });
}

uint8_t TypesOfName(std::string_view name) {
  if (name == "null") return kNullType;
  if (name == "boolean") return kBoolType;
  if (name == "integer") return kIntegerType;
  if (name == "number") return kIntegerType | kFractionType;
  if (name == "string") return kStringType;
  if (name == "array") return kArrayType;
  if (name == "object") return kObjectType;
  return 0;
}

}  // namespace

const absl::flat_hash_map<std::string_view, SchemaReader::Handler>& SchemaReader::Handlers() {
  static const auto* const kHandlers = new absl::flat_hash_map<std::string_view, Handler>({
      {"$id", &SchemaReader::CheckId},
      {"$ref", &SchemaReader::ReadRef},
      {"$schema", &SchemaReader::CheckSchemaUri},
      {"additionalItems", &SchemaReader::Ignore},
      {"additionalProperties", &SchemaReader::Ignore},
      {"allOf", &SchemaReader::ReadAllOf},
      {"anyOf", &SchemaReader::ReadAnyOf},
      {"const", &SchemaReader::ReadConst},
      {"enum", &SchemaReader::ReadEnum},
      {"exclusiveMaximum", &SchemaReader::ReadExclusiveMaximum},
      {"exclusiveMinimum", &SchemaReader::ReadExclusiveMinimum},
      {"format", &SchemaReader::ReadFormat},
      {"items", &SchemaReader::Ignore},
      {"maxItems", &SchemaReader::ReadMaxItems},
      {"maxLength", &SchemaReader::ReadMaxLength},
      {"maximum", &SchemaReader::ReadMaximum},
      {"minItems", &SchemaReader::ReadMinItems},
      {"minLength", &SchemaReader::ReadMinLength},
      {"minProperties", &SchemaReader::RefuseUnlessEmpty},
      {"minimum", &SchemaReader::ReadMinimum},
      {"multipleOf", &SchemaReader::ReadMultipleOf},
      {"nullable", &SchemaReader::Ignore},
      {"oneOf", &SchemaReader::ReadOneOf},
      {"pattern", &SchemaReader::ReadPattern},
      {"patternProperties", &SchemaReader::RefuseUnlessEmpty},
      {"prefixItems", &SchemaReader::CheckArray},
      {"properties", &SchemaReader::CheckObject},
      {"required", &SchemaReader::ReadRequired},
      {"type", &SchemaReader::ReadType},
      {"unevaluatedItems", &SchemaReader::RefuseUnlessTrue},
      {"unevaluatedProperties", &SchemaReader::RefuseUnlessTrue},
      {"uniqueItems", &SchemaReader::RefuseUnlessEmpty},
  });
  return *kHandlers;
}

absl::StatusOr<bool> SchemaReader::Simplify(SchemaTerm* term) {
  bool has_ref = false;
  SchemaNodes simple;
  BATON_RETURN_IF_ERROR(budget_.Check());
  for (const JsonValue* node : term->nodes) {
    for (int hops = 0; HasNothingBeside(*node, "$ref"); ++hops) {
      const JsonValue* ref = node->Find("$ref");
      if (ref == nullptr || !ref->is_string()) break;
      if (hops == kMaxRefChain) return source_.Malformed(*node, "$ref", "refers to itself");
      BATON_ASSIGN_OR_RETURN(node, source_.Resolve(ref->text));
      has_ref = true;
      budget_.Spend(1);
    }
    const bool is_trivial = (node->is_bool() && node->boolean) || HasNothingBeside(*node, "");
    const bool is_twice = std::find(simple.begin(), simple.end(), node) != simple.end();
    if (!is_trivial && !is_twice) simple.push_back(node);
    budget_.Spend(1 + static_cast<int64_t>(simple.size() / 8));
  }
  term->nodes = std::move(simple);
  return has_ref;
}

absl::StatusOr<FlatSchema> SchemaReader::Flatten(const SchemaTerm& term) {
  FlatSchema schema;
  term_ = &term;
  todo_.clear();
  seen_.clear();
  for (const JsonValue* node : term.nodes) Visit(node);
  for (size_t i = 0; i < todo_.size(); ++i) {
    BATON_RETURN_IF_ERROR(ReadNode(*todo_[i], &schema));
    BATON_RETURN_IF_ERROR(budget_.Check());
  }
  return schema;
}

void SchemaReader::Visit(const JsonValue* node) {
  if (seen_.insert(node).second) todo_.push_back(node);
}

absl::Status SchemaReader::ReadNode(const JsonValue& node, FlatSchema* schema) {
  if (node.is_bool()) {
    if (!node.boolean) {
      schema->types = 0;
      schema->has_own_keywords = true;
    }
    return absl::OkStatus();
  }
  if (!node.is_object()) return source_.Malformed(node, "schema", "must be an object or a boolean");
  for (size_t i = 0; i < node.keys.size(); ++i) {
    budget_.Spend(2);
    keyword_ = node.keys[i];
    if (IsSilent(keyword_)) continue;
    const auto it = Handlers().find(keyword_);
    if (it == Handlers().end()) return source_.Unsupported(node, keyword_);
    BATON_RETURN_IF_ERROR((this->*it->second)(node, node.items[i], schema));
    const bool is_own = keyword_ != "allOf" && keyword_ != "anyOf" && keyword_ != "oneOf" && keyword_ != "$ref" &&
                        keyword_ != "$schema" && keyword_ != "$id";
    schema->has_own_keywords |= is_own;
  }
  JoinStructures(node, schema);
  return absl::OkStatus();
}

// Keywords that are read together with their neighbours.
void SchemaReader::JoinStructures(const JsonValue& node, FlatSchema* schema) {
  const JsonValue* properties = node.Find("properties");
  const JsonValue* additional = node.Find("additionalProperties");
  if (properties != nullptr || additional != nullptr) schema->objects.push_back({properties, additional});
  const JsonValue* prefix = node.Find("prefixItems");
  const JsonValue* items = node.Find("items");
  if (prefix == nullptr && items != nullptr && items->is_array()) {  // As in draft 7.
    prefix = items;
    items = node.Find("additionalItems");
  }
  if (prefix != nullptr || items != nullptr) schema->arrays.push_back({prefix, items});
}

absl::Status SchemaReader::ReadType(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  uint8_t types = 0;
  const auto add = [&types](const JsonValue& name) {
    const uint8_t more = name.is_string() ? TypesOfName(name.text) : 0;
    types |= more;
    return more != 0;
  };
  const bool is_good = value.is_array() ? std::all_of(value.items.begin(), value.items.end(), add) : add(value);
  if (!is_good) return source_.Malformed(node, "type", "must name types of JSON");
  const JsonValue* nullable = node.Find("nullable");
  if (nullable != nullptr && nullable->is_bool() && nullable->boolean) types |= kNullType;
  schema->types &= types;
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadEnum(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  if (!value.is_array()) return source_.Malformed(node, keyword_, "must be an array");
  std::vector<const JsonValue*> allowed;
  for (const JsonValue& item : value.items) {
    if (item.is_number()) BATON_RETURN_IF_ERROR(ToDecimal(item.text).status());
    allowed.push_back(&item);
  }
  if (schema->values.has_value()) budget_.Spend(static_cast<int64_t>(allowed.size() * schema->values->size()) * 4);
  BATON_RETURN_IF_ERROR(budget_.Check());
  schema->KeepValues(allowed);
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadConst(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  if (value.is_number()) BATON_RETURN_IF_ERROR(ToDecimal(value.text).status());
  schema->KeepValues({&value});
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadRef(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  if (!value.is_string()) return source_.Malformed(node, keyword_, "must be a string");
  const JsonValue* dialect = source_.root().Find("$schema");
  const bool is_old = dialect != nullptr && absl::StrContains(dialect->text, "/draft-0");
  if (is_old && !HasNothingBeside(node, "$ref")) {
    return source_.Unsupported(node, keyword_, "beside other keywords under this $schema");
  }
  BATON_ASSIGN_OR_RETURN(const JsonValue* target, source_.Resolve(value.text));
  schema->has_ref = true;
  Visit(target);
  return absl::OkStatus();
}

absl::Status SchemaReader::CheckBranches(const JsonValue& node, const JsonValue& value) {
  if (value.is_array() && !value.items.empty()) return absl::OkStatus();
  return source_.Malformed(node, keyword_, "must be an array that is not empty");
}

absl::Status SchemaReader::ReadAllOf(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  BATON_RETURN_IF_ERROR(CheckBranches(node, value));
  for (const JsonValue& branch : value.items) Visit(&branch);
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadAnyOf(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  BATON_RETURN_IF_ERROR(CheckBranches(node, value));
  const auto& decided = term_->decided;
  const bool is_decided = std::find(decided.begin(), decided.end(), &value) != decided.end();
  if (!is_decided) schema->choices.push_back({&node, &value, keyword_ == "oneOf"});
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadOneOf(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  return ReadAnyOf(node, value, schema);
}

absl::StatusOr<NumberBounds::Bound> SchemaReader::ReadBound(const JsonValue& node, const JsonValue& value,
                                                            bool is_exclusive) {
  if (!value.is_number()) return source_.Malformed(node, keyword_, "must be a number");
  NumberBounds::Bound bound;
  BATON_ASSIGN_OR_RETURN(bound.value, ToDecimal(value.text));
  bound.is_exclusive = is_exclusive;
  return bound;
}

absl::Status SchemaReader::ReadMinimum(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  NumberBounds bounds;
  BATON_ASSIGN_OR_RETURN(bounds.lower, ReadBound(node, value, keyword_ == "exclusiveMinimum"));
  schema->bounds.Narrow(bounds);
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadMaximum(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  NumberBounds bounds;
  BATON_ASSIGN_OR_RETURN(bounds.upper, ReadBound(node, value, keyword_ == "exclusiveMaximum"));
  schema->bounds.Narrow(bounds);
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadExclusiveMinimum(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  return ReadMinimum(node, value, schema);
}

absl::Status SchemaReader::ReadExclusiveMaximum(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  return ReadMaximum(node, value, schema);
}

absl::Status SchemaReader::ReadMultipleOf(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  if (!value.is_number()) return source_.Malformed(node, keyword_, "must be a number");
  BATON_ASSIGN_OR_RETURN(const Decimal divisor, ToDecimal(value.text));
  if (divisor.ToText() != "1") return source_.Unsupported(node, keyword_, "but for 1");
  schema->types &= static_cast<uint8_t>(~kFractionType);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SchemaReader::ReadCount(const JsonValue& node, const JsonValue& value) {
  if (!value.is_number()) return source_.Malformed(node, keyword_, "must be a number");
  BATON_ASSIGN_OR_RETURN(const Decimal count, ToDecimal(value.text));
  if (count.is_negative || !count.is_integer()) {
    return source_.Malformed(node, keyword_, "must be a whole number that is not negative");
  }
  int64_t number = 0;
  if (!absl::SimpleAtoi(count.integer, &number) || number > kMaxRepeats) {
    return source_.TooLarge(node, keyword_, absl::StrCat("is larger than ", kMaxRepeats));
  }
  return number;
}

absl::Status SchemaReader::ReadMinLength(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  BATON_ASSIGN_OR_RETURN(const int64_t count, ReadCount(node, value));
  schema->length.NarrowTo(count, -1);
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadMaxLength(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  BATON_ASSIGN_OR_RETURN(const int64_t count, ReadCount(node, value));
  schema->length.NarrowTo(0, count);
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadMinItems(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  BATON_ASSIGN_OR_RETURN(const int64_t count, ReadCount(node, value));
  schema->items.NarrowTo(count, -1);
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadMaxItems(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  BATON_ASSIGN_OR_RETURN(const int64_t count, ReadCount(node, value));
  schema->items.NarrowTo(0, count);
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadPattern(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  if (!value.is_string()) return source_.Malformed(node, keyword_, "must be a string");
  schema->patterns.push_back(&value);
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadFormat(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  if (!value.is_string()) return source_.Malformed(node, keyword_, "must be a string");
  schema->formats.push_back(&value);
  return absl::OkStatus();
}

absl::Status SchemaReader::ReadRequired(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  if (!value.is_array()) return source_.Malformed(node, keyword_, "must be an array of strings");
  for (const JsonValue& name : value.items) {
    if (!name.is_string()) return source_.Malformed(node, keyword_, "must be an array of strings");
    schema->required.push_back(&name);
  }
  return absl::OkStatus();
}

absl::Status SchemaReader::CheckObject(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  return value.is_object() ? absl::OkStatus() : source_.Malformed(node, keyword_, "must be an object");
}

absl::Status SchemaReader::CheckArray(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  return value.is_array() ? absl::OkStatus() : source_.Malformed(node, keyword_, "must be an array");
}

absl::Status SchemaReader::CheckSchemaUri(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  if (value.is_string() && absl::StrContains(value.text, "json-schema.org/draft")) return absl::OkStatus();
  return source_.Unsupported(node, keyword_, "but for drafts of json-schema.org");
}

absl::Status SchemaReader::CheckId(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  return &node == &source_.root() ? absl::OkStatus() : source_.Unsupported(node, keyword_, "inside of a schema");
}

absl::Status SchemaReader::RefuseUnlessEmpty(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  const bool is_empty = (value.is_bool() && !value.boolean) || (value.is_object() && value.items.empty()) ||
                        (value.is_number() && value.text == "0");
  return is_empty ? absl::OkStatus() : source_.Unsupported(node, keyword_);
}

absl::Status SchemaReader::RefuseUnlessTrue(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  return value.is_bool() && value.boolean ? absl::OkStatus() : source_.Unsupported(node, keyword_);
}

absl::Status SchemaReader::Ignore(const JsonValue& node, const JsonValue& value, FlatSchema* schema) {
  return absl::OkStatus();
}

}  // namespace baton::grammar
