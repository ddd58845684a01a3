// Turns tokens into a syntax tree by recursive descent with Jinja's precedence.
#ifndef BATON_TOKENIZER_JINJA_PARSER_H_
#define BATON_TOKENIZER_JINJA_PARSER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/lexer.h"

namespace baton::tokenizer::jinja {

// INVALID_ARGUMENT names the line of an error. It also refuses tags that Baton does not support (include, import,
// extends, block, call, filter, with, do). RESOURCE_EXHAUSTED beyond `limits.template_bytes` and `limits.syntax_depth`.
absl::StatusOr<Body> ParseTemplate(std::string_view source, const Limits& limits);

class Parser {
 public:
  Parser(std::vector<Token> tokens, int max_depth) : tokens_(std::move(tokens)), max_depth_(max_depth) {}
  absl::StatusOr<Body> Run();

 private:
  using Kind = Expression::Kind;

  // Statements (statement_parser.cc). ParseBody stops before a block whose name is in `ends`.
  absl::StatusOr<Body> ParseBody(const std::vector<std::string_view>& ends);
  absl::StatusOr<std::unique_ptr<Statement>> ParsePrint();
  absl::StatusOr<std::unique_ptr<Statement>> ParseBlock();
  absl::StatusOr<std::unique_ptr<Statement>> ParseIf();
  absl::StatusOr<std::unique_ptr<Statement>> ParseFor();
  absl::StatusOr<std::unique_ptr<Statement>> ParseSet();
  absl::StatusOr<std::unique_ptr<Statement>> ParseMacro();
  absl::StatusOr<std::unique_ptr<Statement>> ParseGeneration();
  // Takes the else block if there is one, and then `end`.
  absl::Status ParseElse(std::string_view end, Statement* statement);
  absl::Status ParseTargets(bool with_namespace, Statement* statement);
  absl::Status ExpectBlockEnd() { return Expect(TokenKind::kBlockEnd, ""); }
  // Takes `{% name %}`, which must come next.
  absl::Status ExpectClosing(std::string_view name);

  // Expressions (parser.cc), from the loosest binding to the tightest.
  absl::StatusOr<ExpressionPtr> ParseTupleOrExpression(bool with_condition);
  absl::StatusOr<ExpressionPtr> ParseExpression(bool with_condition = true);
  absl::StatusOr<ExpressionPtr> ParseLogical(std::string_view op);
  absl::StatusOr<ExpressionPtr> ParseNot();
  absl::StatusOr<ExpressionPtr> ParseCompare();
  // Left-associative operators of one level: 0 is + and -, 1 is ~, 2 is * / // %, 3 is **.
  absl::StatusOr<ExpressionPtr> ParseBinary(size_t level);
  absl::StatusOr<ExpressionPtr> ParseUnary(bool with_filter = true);
  absl::StatusOr<ExpressionPtr> ParsePrimary();
  absl::StatusOr<ExpressionPtr> ParseParenthesis();
  absl::StatusOr<ExpressionPtr> ParseList();
  absl::StatusOr<ExpressionPtr> ParseDict();
  absl::StatusOr<ExpressionPtr> ParsePostfix(ExpressionPtr node);
  absl::StatusOr<ExpressionPtr> ParseSubscript(ExpressionPtr object);
  absl::StatusOr<ExpressionPtr> ParseFilters(ExpressionPtr node);
  absl::StatusOr<ExpressionPtr> ParseTest(ExpressionPtr operand);
  absl::Status ParseArguments(Expression* call);

  const Token& Peek(size_t ahead = 0) const;
  Token Next();
  bool AtOperator(std::string_view op) const;
  bool AtName(std::string_view name) const;
  bool TakeOperator(std::string_view op);
  bool TakeName(std::string_view name);
  absl::Status Expect(TokenKind kind, std::string_view text);
  absl::StatusOr<std::string> ExpectName();
  absl::Status Error(std::string_view what) const;

  ExpressionPtr NewNode(Kind kind, std::string name = "") const;
  // Adds a child, updates `depth` and checks its bound.
  absl::Status Adopt(Expression* parent, ExpressionPtr child) const;
  absl::StatusOr<ExpressionPtr> Join(Kind kind, std::string name, ExpressionPtr left, ExpressionPtr right) const;
  absl::Status DepthError() const;

  // RAII for one level of recursion.
  struct Level {
    explicit Level(int* depth) : depth(depth) { ++*depth; }
    ~Level() { --*depth; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    int* depth;
  };

  const std::vector<Token> tokens_;
  const int max_depth_;
  size_t at_ = 0;
  int depth_ = 0;
  int loop_depth_ = 0;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_PARSER_H_
