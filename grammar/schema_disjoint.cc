// Whether the branches of a oneOf exclude each other, so that it is an anyOf.
#include <algorithm>
#include <vector>

#include "common/status.h"
#include "grammar/schema_compiler.h"

namespace baton::grammar {
namespace {

bool HaveCommonValue(const FlatSchema& a, const FlatSchema& b) {
  return std::any_of(a.values->begin(), a.values->end(), [&b](const JsonValue* value) {
    return std::any_of(b.values->begin(), b.values->end(),
                       [value](const JsonValue* other) { return AreEqual(*value, *other); });
  });
}

// The types that values of the schema may have.
uint8_t PossibleTypes(const FlatSchema& schema) {
  if (!schema.values.has_value()) return schema.types;
  uint8_t types = 0;
  for (const JsonValue* value : *schema.values) types |= TypeOf(*value);
  return types & schema.types;
}

const FlatSchema::Member* FindRequired(const std::vector<FlatSchema::Member>& members, const std::string& name) {
  const auto it = std::find_if(members.begin(), members.end(), [&name](const FlatSchema::Member& member) {
    return member.is_required && *member.name == name;
  });
  return it == members.end() ? nullptr : &*it;
}

}  // namespace

absl::Status SchemaCompiler::CheckDisjoint(const SchemaTerm& term, const FlatSchema::Choice& choice) {
  std::vector<FlatSchema> branches;
  for (const JsonValue& branch : choice.branches->items) {
    SchemaTerm decided = term;
    decided.nodes.push_back(&branch);
    decided.decided.push_back(choice.branches);
    BATON_ASSIGN_OR_RETURN(FlatSchema schema, reader_.Flatten(decided));
    branches.push_back(std::move(schema));
  }
  for (size_t i = 0; i < branches.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      BATON_ASSIGN_OR_RETURN(const bool are_disjoint, AreDisjoint(branches[i], branches[j]));
      if (!are_disjoint) {
        return source_.Unsupported(*choice.node, "oneOf", "unless types or constants tell its branches apart");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SchemaCompiler::AreDisjoint(const FlatSchema& a, const FlatSchema& b) {
  budget_.Spend(16);
  BATON_RETURN_IF_ERROR(budget_.Check());
  const uint8_t common = PossibleTypes(a) & PossibleTypes(b);
  if (common == 0) return true;
  if (a.values.has_value() && b.values.has_value()) {
    budget_.Spend(static_cast<int64_t>(a.values->size() * b.values->size()) * 4);
    BATON_RETURN_IF_ERROR(budget_.Check());
    if (!HaveCommonValue(a, b)) return true;
  }
  if (common != kObjectType) return false;
  // A member that both require, and that is a constant in both.
  const std::vector<FlatSchema::Member> members = a.Members();
  const std::vector<FlatSchema::Member> others = b.Members();
  budget_.Spend(static_cast<int64_t>(members.size() * others.size()));
  for (const FlatSchema::Member& member : members) {
    const FlatSchema::Member* other = member.is_required ? FindRequired(others, *member.name) : nullptr;
    if (other == nullptr) continue;
    BATON_ASSIGN_OR_RETURN(const FlatSchema mine, reader_.Flatten({member.nodes, {}}));
    BATON_ASSIGN_OR_RETURN(const FlatSchema its, reader_.Flatten({other->nodes, {}}));
    budget_.Spend(64);
    BATON_RETURN_IF_ERROR(budget_.Check());
    if ((PossibleTypes(mine) & PossibleTypes(its)) == 0) return true;
    if (mine.values.has_value() && its.values.has_value()) {
      budget_.Spend(static_cast<int64_t>(mine.values->size() * its.values->size()) * 4);
      BATON_RETURN_IF_ERROR(budget_.Check());
      if (!HaveCommonValue(mine, its)) return true;
    }
  }
  return false;
}

}  // namespace baton::grammar
