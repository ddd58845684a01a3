#include "grammar/schema_compiler.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "grammar/grammar_limits.h"
#include "grammar/json_spelling.h"
#include "grammar/schema_values.h"

namespace baton::grammar {

absl::StatusOr<int32_t> SchemaCompiler::Run() {
  SchemaTerm root = {{&source_.root()}, {}};
  BATON_RETURN_IF_ERROR(reader_.Simplify(&root).status());
  const int32_t rule = RuleOf(root);
  for (; !unfilled_.empty(); unfilled_.pop_front()) {
    const auto& [term, id] = unfilled_.front();
    BATON_ASSIGN_OR_RETURN(const FlatSchema schema, reader_.Flatten(term));
    BATON_RETURN_IF_ERROR(AddBody(term, schema, graph_.rule(id).start, graph_.rule(id).accept));
  }
  return rule;
}

absl::Status SchemaCompiler::Check() const {
  BATON_RETURN_IF_ERROR(graph_.Check());
  return budget_.Check();
}

int32_t SchemaCompiler::RuleOf(const SchemaTerm& term) {
  const auto [it, is_new] = rule_of_.try_emplace(term, -1);
  if (is_new) {
    it->second = graph_.AddRule("a schema");
    unfilled_.push_back({term, it->second});
  }
  return it->second;
}

absl::Status SchemaCompiler::AddTerm(SchemaTerm term, int32_t from, int32_t to, bool is_shared) {
  BATON_ASSIGN_OR_RETURN(const bool was_ref, reader_.Simplify(&term));
  BATON_ASSIGN_OR_RETURN(const FlatSchema schema, reader_.Flatten(term));
  // A schema can contain itself by a $ref alone, so the rules of those that have one make an end.
  if (is_shared || was_ref || schema.has_ref || term.nodes.empty()) {
    graph_.AddCall(from, RuleOf(term), to);
    return Check();
  }
  return AddBody(term, schema, from, to);
}

absl::Status SchemaCompiler::AddBody(const SchemaTerm& term, const FlatSchema& schema, int32_t from, int32_t to) {
  if (++num_terms_ > kMaxSchemaTerms) {
    return absl::ResourceExhaustedError(absl::StrCat("the schema has more than ", kMaxSchemaTerms, " alternatives"));
  }
  if (schema.types == 0) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(Check());
  if (!schema.choices.empty()) return AddChoice(term, schema, from, to);
  if (schema.values.has_value()) return AddValues(schema, from, to);
  return AddTypes(schema, from, to);
}

SchemaTerm SchemaCompiler::Decide(const SchemaTerm& term, const FlatSchema& schema, const FlatSchema::Choice& choice,
                                  const JsonValue& branch) {
  // Where there is nothing but the choice, the branch is all.
  if (!schema.has_own_keywords && schema.choices.size() == 1) return {{&branch}, {}};
  SchemaTerm decided = term;
  decided.nodes.push_back(&branch);
  decided.decided.push_back(choice.branches);
  return decided;
}

absl::Status SchemaCompiler::AddChoice(const SchemaTerm& term, const FlatSchema& schema, int32_t from, int32_t to) {
  const FlatSchema::Choice& choice = schema.choices[0];
  if (choice.is_one_of) BATON_RETURN_IF_ERROR(CheckDisjoint(term, choice));
  for (const JsonValue& branch : choice.branches->items) {
    BATON_RETURN_IF_ERROR(AddTerm(Decide(term, schema, choice, branch), from, to));
  }
  return absl::OkStatus();
}

absl::Status SchemaCompiler::AddValues(const FlatSchema& schema, int32_t from, int32_t to) {
  SchemaValues values(schema, &strings_);
  for (const JsonValue* value : *schema.values) {
    BATON_ASSIGN_OR_RETURN(const bool is_allowed, values.Allows(*value));
    if (is_allowed) graph_.AddEmpty(rules_.AddValue(*value, from), to);
  }
  return Check();
}

absl::Status SchemaCompiler::AddTypes(const FlatSchema& schema, int32_t from, int32_t to) {
  if ((schema.types & kNullType) != 0) graph_.AddEmpty(graph_.Text(from, "null"), to);
  if ((schema.types & kBoolType) != 0) {
    graph_.AddEmpty(graph_.Text(from, "true"), to);
    graph_.AddEmpty(graph_.Text(from, "false"), to);
  }
  if ((schema.types & (kIntegerType | kFractionType)) != 0) BATON_RETURN_IF_ERROR(AddNumber(schema, from, to));
  if ((schema.types & kStringType) != 0) BATON_RETURN_IF_ERROR(strings_.Add(schema, from, to));
  if ((schema.types & kArrayType) != 0) BATON_RETURN_IF_ERROR(AddArray(schema, from, to));
  if ((schema.types & kObjectType) != 0) BATON_RETURN_IF_ERROR(AddObject(schema, from, to));
  return Check();
}

absl::Status SchemaCompiler::AddNumber(const FlatSchema& schema, int32_t from, int32_t to) {
  const bool is_integer = (schema.types & kFractionType) == 0;
  if (schema.bounds.empty()) {
    graph_.AddEmpty(rules_.AddNumber(is_integer, from), to);
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(const Automaton numbers, NumbersWithin(schema.bounds, is_integer, &budget_));
  Embed(numbers, from, to, &graph_);
  return absl::OkStatus();
}

absl::Status SchemaCompiler::AddArray(const FlatSchema& schema, int32_t from, int32_t to) {
  const auto [min, max] = schema.items;
  if (schema.items.is_empty()) return absl::OkStatus();
  const auto prefix = static_cast<int64_t>(schema.LongestPrefix());
  const bool has_end = max >= 0;
  // Items that are told apart by their number. Behind them an array without end goes in a circle.
  const int64_t counted = has_end ? max : std::max(prefix, min);
  const bool is_shared = counted > prefix + 1;
  int32_t before = graph_.Text(from, "[");  // Where the next item begins.
  int32_t after = before;                   // Where the array may end.
  for (int64_t i = 0; i < counted; ++i) {
    if (i >= min) graph_.AddEmpty(graph_.Text(after, "]"), to);
    if (i > 0) before = rules_.AddComma(after);
    after = graph_.AddState();
    BATON_RETURN_IF_ERROR(AddNodes(schema.NodesOfItem(i), before, after, is_shared && i >= prefix));
  }
  graph_.AddEmpty(graph_.Text(after, "]"), to);
  if (has_end) return absl::OkStatus();
  const int32_t loop = graph_.AddState();
  const int32_t after_loop = graph_.AddState();
  graph_.AddEmpty(counted == 0 ? before : rules_.AddComma(after), loop);
  BATON_RETURN_IF_ERROR(AddNodes(schema.NodesOfItem(counted), loop, after_loop, is_shared));
  graph_.AddEmpty(rules_.AddComma(after_loop), loop);
  graph_.AddEmpty(graph_.Text(after_loop, "]"), to);
  return absl::OkStatus();
}

absl::Status SchemaCompiler::AddObject(const FlatSchema& schema, int32_t from, int32_t to) {
  constexpr int32_t kNowhere = -1;
  const std::vector<FlatSchema::Member> members = schema.Members();
  budget_.Spend(static_cast<int64_t>(members.size() * (schema.objects.size() + 1)));
  int32_t none = graph_.Text(from, "{");  // While there is no member.
  int32_t some = kNowhere;                // Behind a member.
  for (const FlatSchema::Member& member : members) {
    const int32_t begin = graph_.AddState();
    const int32_t end = graph_.AddState();
    if (none != kNowhere) graph_.AddEmpty(none, begin);
    if (some != kNowhere) graph_.AddEmpty(rules_.AddComma(some), begin);
    BATON_RETURN_IF_ERROR(AddMember(member, begin, end));
    if (member.is_required) {
      none = kNowhere;
    } else if (some != kNowhere) {
      graph_.AddEmpty(some, end);
    }
    some = end;
  }
  const int32_t more = graph_.AddState();
  const int32_t other = graph_.AddState();
  if (none != kNowhere) {
    graph_.AddEmpty(graph_.Text(none, "}"), to);
    graph_.AddEmpty(none, other);
  }
  if (some != kNowhere) graph_.AddEmpty(some, more);
  graph_.AddEmpty(graph_.Text(more, "}"), to);
  graph_.AddEmpty(rules_.AddComma(more), other);
  return AddOtherMembers(schema, members, other, more);
}

absl::Status SchemaCompiler::AddMember(const FlatSchema::Member& member, int32_t from, int32_t to) {
  const int32_t value = rules_.AddColon(graph_.Text(from, SpellJsonString(*member.name)));
  return AddNodes(member.nodes, value, to);
}

absl::Status SchemaCompiler::AddOtherMembers(const FlatSchema& schema, const std::vector<FlatSchema::Member>& members,
                                             int32_t from, int32_t more) {
  const SchemaNodes others = schema.NodesOfOthers();
  const bool is_never = std::any_of(others.begin(), others.end(),
                                    [](const JsonValue* node) { return node->is_bool() && !node->boolean; });
  if (is_never) return absl::OkStatus();
  const int32_t key = graph_.AddState();
  BATON_RETURN_IF_ERROR(strings_.AddOtherKey(members, graph_.Text(from, "\""), key));
  return AddNodes(others, rules_.AddColon(key), more);
}

}  // namespace baton::grammar
