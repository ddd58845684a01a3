// The tree that regular expressions and rules of grammars are parsed into.
#ifndef BATON_GRAMMAR_EXPRESSION_H_
#define BATON_GRAMMAR_EXPRESSION_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/rule_graph.h"

namespace baton::grammar {

struct Expression {
  enum class Kind : uint8_t { kCharacter, kSequence, kChoice, kRepeat, kRule };
  static constexpr int kUnbounded = -1;

  Kind kind = Kind::kSequence;  // An empty sequence reads nothing.
  CodePointSet set;             // kCharacter: one of these.
  std::vector<Expression> parts;
  int min = 0;  // kRepeat of the one part, at least and at most.
  int max = 0;
  int32_t rule = -1;  // kRule, in the graph.

  static Expression Character(CodePointSet set) {
    Expression expression;
    expression.kind = Kind::kCharacter;
    expression.set = std::move(set);
    return expression;
  }
  // Of one part: that part.
  static Expression Sequence(std::vector<Expression> parts);
  static Expression Choice(std::vector<Expression> parts);
  // Of nothing: nothing, so that a large count of it costs nothing.
  static Expression Repeat(Expression part, int min, int max);
  static Expression Rule(int32_t rule) {
    Expression expression;
    expression.kind = Kind::kRule;
    expression.rule = rule;
    return expression;
  }

  bool reads_nothing() const { return kind == Kind::kSequence && parts.empty(); }
};

struct ExpressionOptions {
  Spelling spelling = Spelling::kPlain;
  // Whether what is repeated often may become a rule of its own, which keeps the graph small.
  bool may_add_rules = true;
};

// Adds to the graph what the expression reads, between `from` and the state that is returned.
int32_t AddExpression(const Expression& expression, const ExpressionOptions& options, int32_t from, RuleGraph* graph);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_EXPRESSION_H_
