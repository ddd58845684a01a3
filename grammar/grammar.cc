#include "grammar/grammar.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "grammar/compile_budget.h"
#include "grammar/ebnf.h"
#include "grammar/expression.h"
#include "grammar/grammar_limits.h"
#include "grammar/json_value.h"
#include "grammar/regex.h"
#include "grammar/rule_graph.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_source.h"

namespace baton::grammar {
namespace {

absl::StatusOr<int32_t> AddSchema(std::string_view text, RuleGraph* graph, CompileBudget* budget) {
  BATON_ASSIGN_OR_RETURN(JsonValue root, ParseJson(text, "schema"));
  SchemaSource source(std::move(root));
  return SchemaCompiler(&source, graph, budget).Run();
}

absl::StatusOr<int32_t> AddRegex(std::string_view text, RuleGraph* graph) {
  BATON_ASSIGN_OR_RETURN(const Regex regex, ParseRegex(text, "regular expression"));
  const int32_t rule = graph->AddRule("the regular expression");
  const auto [name, start, accept] = graph->rule(rule);
  graph->AddEmpty(AddExpression(regex.WholeMatch(), {}, start, graph), accept);
  return rule;
}

absl::StatusOr<int32_t> AddChoices(std::string_view text, RuleGraph* graph) {
  BATON_ASSIGN_OR_RETURN(const JsonValue choices, ParseJson(text, "choice"));
  if (!choices.is_array() || choices.items.empty()) {
    return absl::InvalidArgumentError("choice: must be an array of strings that is not empty");
  }
  const int32_t rule = graph->AddRule("the choice");
  const auto [name, start, accept] = graph->rule(rule);
  for (const JsonValue& choice : choices.items) {
    if (!choice.is_string()) return absl::InvalidArgumentError("choice: must be an array of strings");
    graph->AddEmpty(graph->Text(start, choice.text), accept);
  }
  return rule;
}

absl::StatusOr<int32_t> AddRules(const OutputGrammar& source, RuleGraph* graph, CompileBudget* budget) {
  switch (source.kind) {
    case GrammarKind::kNone:
      break;
    case GrammarKind::kJsonObject:
      return AddSchema(R"({"type": "object"})", graph, budget);
    case GrammarKind::kJsonSchema:
      return AddSchema(source.text, graph, budget);
    case GrammarKind::kRegex:
      return AddRegex(source.text, graph);
    case GrammarKind::kChoice:
      return AddChoices(source.text, graph);
    case GrammarKind::kEbnf:
      return AddEbnf(source.text, graph);
  }
  return absl::InvalidArgumentError("there is no grammar to compile");
}

}  // namespace

size_t Grammar::MemoryBytes() const {
  return sizeof(Grammar) + form_.states.capacity() * sizeof(GrammarForm::State) +
         form_.bytes.capacity() * sizeof(GrammarForm::ByteEdge) +
         form_.calls.capacity() * sizeof(GrammarForm::CallEdge);
}

absl::StatusOr<std::shared_ptr<const Grammar>> CompileGrammar(const OutputGrammar& source) {
  if (source.text.size() > kMaxSourceBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the grammar has ", source.text.size(), " bytes, limit ", kMaxSourceBytes));
  }
  RuleGraph graph;
  CompileBudget budget;
  BATON_ASSIGN_OR_RETURN(const int32_t root, AddRules(source, &graph, &budget));
  BATON_ASSIGN_OR_RETURN(GrammarForm form, BuildForm(graph, root, &budget));
  return std::make_shared<const Grammar>(std::move(form));
}

}  // namespace baton::grammar
