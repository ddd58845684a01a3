#include "grammar/schema_strings.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "grammar/expression.h"
#include "grammar/json_spelling.h"
#include "grammar/regex.h"
#include "grammar/string_formats.h"

namespace baton::grammar {
namespace {

Expression AnyCharacters(int64_t min, int64_t max) {
  return Expression::Repeat(Expression::Character(CodePointSet().Complement()), static_cast<int>(min),
                            static_cast<int>(max));
}

// Schemas that allow the same strings.
std::string KeyOfStrings(const FlatSchema& schema) {
  std::string key = absl::StrCat(schema.length.min, ",", schema.length.max);
  for (const JsonValue* pattern : schema.patterns) absl::StrAppend(&key, ";", pattern->text.size(), ":", pattern->text);
  for (const JsonValue* format : schema.formats) absl::StrAppend(&key, ";format:", format->text);
  return key;
}

}  // namespace

absl::StatusOr<Automaton> SchemaStrings::ToAutomaton(const Expression& expression, Spelling spelling) {
  RuleGraph graph;
  const int32_t start = graph.AddState();
  const int32_t accept = AddExpression(expression, {spelling, /*may_add_rules=*/false}, start, &graph);
  budget_.Spend(graph.num_states());
  BATON_RETURN_IF_ERROR(graph.Check());
  return Determinizer(graph, &budget_).Run(start, accept);
}

absl::StatusOr<Automaton> SchemaStrings::Content(const FlatSchema& schema, Spelling spelling) {
  std::vector<Expression> parts;
  for (const JsonValue* pattern : schema.patterns) {
    BATON_ASSIGN_OR_RETURN(const Regex regex, ParseRegex(pattern->text, "pattern"));
    parts.push_back(regex.Search());
  }
  for (const JsonValue* format : schema.formats) {
    const std::optional<std::string> text = RegexOfFormat(format->text);
    if (!text.has_value()) {
      return absl::UnimplementedError(absl::StrCat("schema: format ", format->text.substr(0, 64), " is not supported"));
    }
    BATON_ASSIGN_OR_RETURN(const Regex regex, ParseRegex(*text, "format"));
    parts.push_back(regex.WholeMatch());
  }
  if (!schema.length.is_any() || parts.empty()) parts.push_back(AnyCharacters(schema.length.min, schema.length.max));
  BATON_ASSIGN_OR_RETURN(Automaton content, ToAutomaton(parts[0], spelling));
  for (size_t i = 1; i < parts.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const Automaton part, ToAutomaton(parts[i], spelling));
    BATON_ASSIGN_OR_RETURN(content, Intersect(content, part, &budget_));
  }
  return content;
}

absl::Status SchemaStrings::Add(const FlatSchema& schema, int32_t from, int32_t to) {
  if (schema.length.is_empty()) return absl::OkStatus();
  const int32_t open = graph_.Text(from, "\"");
  if (schema.patterns.empty() && schema.formats.empty()) {
    graph_.AddCall(open, rules_.StringRest(schema.length.min, schema.length.max), to);
    return absl::OkStatus();
  }
  const auto [it, is_new] = rules_by_key_.try_emplace(KeyOfStrings(schema), -1);
  if (is_new) {
    BATON_ASSIGN_OR_RETURN(const Automaton content, Content(schema, Spelling::kJson));
    it->second = graph_.AddRule("a string");
    const int32_t close = graph_.AddState();
    Embed(content, graph_.rule(it->second).start, close, &graph_);
    graph_.AddByte(close, '"', graph_.rule(it->second).accept);
  }
  graph_.AddCall(open, it->second, to);
  return absl::OkStatus();
}

absl::Status SchemaStrings::AddOtherKey(const std::vector<FlatSchema::Member>& members, int32_t from, int32_t to) {
  if (members.empty()) {
    graph_.AddCall(from, rules_.StringRest(), to);
    return absl::OkStatus();
  }
  RuleGraph graph;
  const int32_t start = graph.AddState();
  const int32_t accept = graph.AddState();
  for (const FlatSchema::Member& member : members) {
    graph.AddEmpty(graph.Text(start, SpellJsonString(*member.name).substr(1)), accept);
  }
  BATON_RETURN_IF_ERROR(graph.Check());
  BATON_ASSIGN_OR_RETURN(const Automaton named, Determinizer(graph, &budget_).Run(start, accept));
  const Expression key = Expression::Sequence({AnyCharacters(0, Expression::kUnbounded)});
  RuleGraph any_graph;
  const int32_t any_start = any_graph.AddState();
  const int32_t content = AddExpression(key, {Spelling::kJson, /*may_add_rules=*/false}, any_start, &any_graph);
  const int32_t any_accept = any_graph.Text(content, "\"");
  BATON_ASSIGN_OR_RETURN(const Automaton any, Determinizer(any_graph, &budget_).Run(any_start, any_accept));
  BATON_ASSIGN_OR_RETURN(const Automaton others, Subtract(any, named, &budget_));
  Embed(others, from, to, &graph_);
  return absl::OkStatus();
}

}  // namespace baton::grammar
