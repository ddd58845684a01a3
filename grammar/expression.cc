#include "grammar/expression.h"

#include <algorithm>
#include <utility>

namespace baton::grammar {
namespace {

// A repeat of more states than this is made of calls.
constexpr int64_t kMaxCopiedStates = 2048;

// About how many states the expression takes.
int64_t EstimateStates(const Expression& expression) {
  int64_t states = 1;
  if (expression.kind == Expression::Kind::kCharacter) {
    const auto& ranges = expression.set.ranges();
    const bool is_ascii = ranges.empty() || ranges.back().high < 0x80;
    return is_ascii ? 1 : 1 + 4 * static_cast<int64_t>(ranges.size());
  }
  for (const Expression& part : expression.parts) states += EstimateStates(part);
  if (expression.kind == Expression::Kind::kRepeat) {
    states *= std::max({1, expression.min, expression.max});
    states = std::min<int64_t>(states, int64_t{1} << 32);
  }
  return states;
}

class ExpressionAdder {
 public:
  ExpressionAdder(const ExpressionOptions& options, RuleGraph* graph) : options_(options), graph_(*graph) {}

  int32_t Add(const Expression& expression, int32_t from) {
    if (graph_.is_full()) return from;
    switch (expression.kind) {
      case Expression::Kind::kCharacter: {
        const int32_t to = graph_.AddState();
        AddCharacters(expression.set, options_.spelling, from, to, &graph_);
        return to;
      }
      case Expression::Kind::kSequence:
        for (const Expression& part : expression.parts) from = Add(part, from);
        return from;
      case Expression::Kind::kChoice: {
        const int32_t to = graph_.AddState();
        for (const Expression& part : expression.parts) {
          const int32_t begin = graph_.AddState();
          graph_.AddEmpty(from, begin);
          graph_.AddEmpty(Add(part, begin), to);
        }
        return to;
      }
      case Expression::Kind::kRepeat:
        return AddRepeat(expression, from);
      case Expression::Kind::kRule:
        return graph_.Call(from, expression.rule);
    }
    return from;
  }

 private:
  int32_t AddRepeat(const Expression& expression, int32_t from) {
    const Expression* part = &expression.parts[0];
    Expression call;
    const int copies = std::max({1, expression.min, expression.max});
    if (options_.may_add_rules && copies > 1 && EstimateStates(expression) > kMaxCopiedStates) {
      const int32_t rule = graph_.AddRule("a repeated part");
      graph_.AddEmpty(Add(*part, graph_.rule(rule).start), graph_.rule(rule).accept);
      call = Expression::Rule(rule);
      part = &call;
    }
    for (int i = 0; i < expression.min && !graph_.is_full(); ++i) from = Add(*part, from);
    const int32_t to = graph_.AddState();
    graph_.AddEmpty(from, to);
    if (expression.max == Expression::kUnbounded) {
      // A state of its own, so that nothing that comes before can enter the loop's middle.
      const int32_t loop = graph_.AddState();
      graph_.AddEmpty(from, loop);
      const int32_t end = Add(*part, loop);
      graph_.AddEmpty(end, loop);
      graph_.AddEmpty(end, to);
    }
    for (int i = expression.min; i < expression.max && !graph_.is_full(); ++i) {
      from = Add(*part, from);
      graph_.AddEmpty(from, to);
    }
    return to;
  }

  const ExpressionOptions& options_;
  RuleGraph& graph_;
};

}  // namespace

Expression Expression::Sequence(std::vector<Expression> parts) {
  std::erase_if(parts, [](const Expression& part) { return part.reads_nothing(); });
  if (parts.size() == 1) return std::move(parts[0]);
  Expression expression;
  expression.parts = std::move(parts);
  return expression;
}

Expression Expression::Choice(std::vector<Expression> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  Expression expression;
  expression.kind = Kind::kChoice;
  expression.parts = std::move(parts);
  return expression;
}

Expression Expression::Repeat(Expression part, int min, int max) {
  if (part.reads_nothing() || max == 0) return {};
  Expression expression;
  expression.kind = Kind::kRepeat;
  expression.parts.push_back(std::move(part));
  expression.min = min;
  expression.max = max;
  return expression;
}

int32_t AddExpression(const Expression& expression, const ExpressionOptions& options, int32_t from, RuleGraph* graph) {
  return ExpressionAdder(options, graph).Add(expression, from);
}

}  // namespace baton::grammar
