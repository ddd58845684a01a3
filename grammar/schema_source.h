// The text of a JSON Schema, its references and its complaints.
#ifndef BATON_GRAMMAR_SCHEMA_SOURCE_H_
#define BATON_GRAMMAR_SCHEMA_SOURCE_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grammar/json_value.h"

namespace baton::grammar {

// Nodes are values of the text, and live as long as it does. One thread.
class SchemaSource {
 public:
  explicit SchemaSource(JsonValue root) : root_(std::move(root)) {}
  SchemaSource(const SchemaSource&) = delete;
  SchemaSource& operator=(const SchemaSource&) = delete;

  const JsonValue& root() const { return root_; }

  // What a $ref refers to: "#" or "#/...". UNIMPLEMENTED for what is outside of the text or has a name of its own.
  absl::StatusOr<const JsonValue*> Resolve(const std::string& ref);

  // INVALID_ARGUMENT and UNIMPLEMENTED about a keyword of a node, naming both.
  absl::Status Malformed(const JsonValue& node, std::string_view keyword, std::string_view why) const;
  absl::Status Unsupported(const JsonValue& node, std::string_view keyword, std::string_view why = "") const;
  absl::Status TooLarge(const JsonValue& node, std::string_view keyword, std::string_view why) const;

 private:
  absl::StatusOr<const JsonValue*> Follow(const std::string& ref) const;
  // "#/properties/name".
  std::string PathOf(const JsonValue& node) const;
  std::string Where(const JsonValue& node, std::string_view keyword) const;

  const JsonValue root_;
  absl::flat_hash_map<std::string, const JsonValue*> resolved_;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_SCHEMA_SOURCE_H_
