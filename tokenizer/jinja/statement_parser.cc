#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/utf8.h"
#include "tokenizer/jinja/parser.h"

namespace baton::tokenizer::jinja {
namespace {

std::unique_ptr<Statement> NewStatement(Statement::Kind kind, int line) {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = line;
  return statement;
}

}  // namespace

absl::StatusOr<Body> ParseTemplate(std::string_view source, const Limits& limits) {
  if (source.size() > limits.template_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the chat template has ", source.size(), " bytes; at most ",
                                                     limits.template_bytes, " are allowed"));
  }
  if (const size_t valid = ValidUtf8Bytes(source); valid != source.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the chat template is not valid UTF-8 at byte ", valid));
  }
  BATON_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens), limits.syntax_depth).Run();
}

absl::StatusOr<Body> Parser::Run() { return ParseBody({}); }

absl::StatusOr<Body> Parser::ParseBody(const std::vector<std::string_view>& ends) {
  const Level level(&depth_);
  if (depth_ > max_depth_) return DepthError();
  Body body;
  while (Peek().kind != TokenKind::kEnd) {
    std::unique_ptr<Statement> statement;
    if (Peek().kind == TokenKind::kText) {
      statement = NewStatement(Statement::Kind::kText, Peek().line);
      statement->text = Next().text;
    } else if (Peek().kind == TokenKind::kPrintBegin) {
      BATON_ASSIGN_OR_RETURN(statement, ParsePrint());
    } else if (Peek(1).kind == TokenKind::kName && std::find(ends.begin(), ends.end(), Peek(1).text) != ends.end()) {
      return body;
    } else {
      BATON_ASSIGN_OR_RETURN(statement, ParseBlock());
    }
    body.push_back(std::move(statement));
  }
  if (!ends.empty()) return Error(absl::StrCat("'", ToAbsl(ends.back()), "' is missing"));
  return body;
}

absl::StatusOr<std::unique_ptr<Statement>> Parser::ParsePrint() {
  auto statement = NewStatement(Statement::Kind::kPrint, Next().line);
  BATON_ASSIGN_OR_RETURN(ExpressionPtr expression, ParseTupleOrExpression(/*with_condition=*/true));
  statement->expressions.push_back(std::move(expression));
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kPrintEnd, ""));
  return statement;
}

absl::StatusOr<std::unique_ptr<Statement>> Parser::ParseBlock() {
  const int line = Next().line;
  if (TakeName("if")) return ParseIf();
  if (TakeName("for")) return ParseFor();
  if (TakeName("set")) return ParseSet();
  if (TakeName("macro")) return ParseMacro();
  if (TakeName("generation")) return ParseGeneration();
  if (AtName("break") || AtName("continue")) {
    if (loop_depth_ == 0) return Error(absl::StrCat("'", Peek().text, "' outside a loop"));
    auto statement = NewStatement(AtName("break") ? Statement::Kind::kBreak : Statement::Kind::kContinue, line);
    (void)Next();
    BATON_RETURN_IF_ERROR(ExpectBlockEnd());
    return statement;
  }
  return Error(absl::StrCat("the tag '", Peek().text, "' is unknown or not supported here"));
}

absl::Status Parser::ExpectClosing(std::string_view name) {
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kBlockBegin, ""));
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kName, name));
  return ExpectBlockEnd();
}

absl::StatusOr<std::unique_ptr<Statement>> Parser::ParseIf() {
  auto statement = NewStatement(Statement::Kind::kIf, Peek().line);
  while (true) {
    BATON_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseTupleOrExpression(/*with_condition=*/false));
    BATON_RETURN_IF_ERROR(ExpectBlockEnd());
    statement->expressions.push_back(std::move(condition));
    BATON_ASSIGN_OR_RETURN(Body body, ParseBody({"elif", "else", "endif"}));
    statement->bodies.push_back(std::move(body));
    (void)Next();
    if (!TakeName("elif")) break;
  }
  BATON_RETURN_IF_ERROR(ParseElse("endif", statement.get()));
  return statement;
}

absl::Status Parser::ParseElse(std::string_view end, Statement* statement) {
  if (TakeName("else")) {
    BATON_RETURN_IF_ERROR(ExpectBlockEnd());
    BATON_ASSIGN_OR_RETURN(Body body, ParseBody({end}));
    statement->bodies.push_back(std::move(body));
    (void)Next();
  }
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kName, end));
  return ExpectBlockEnd();
}

absl::Status Parser::ParseTargets(bool with_namespace, Statement* statement) {
  const bool parenthesis = TakeOperator("(");
  do {
    if (!statement->targets.empty() && Peek().kind != TokenKind::kName) break;  // a trailing comma
    Target target;
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (AtName(constant)) return Error("a constant cannot be assigned to");
    }
    BATON_ASSIGN_OR_RETURN(target.name, ExpectName());
    if (with_namespace && TakeOperator(".")) {
      BATON_ASSIGN_OR_RETURN(target.attribute, ExpectName());
    }
    statement->targets.push_back(std::move(target));
    if (!AtOperator(",")) break;
    statement->unpack = true;
  } while (TakeOperator(","));
  return parenthesis ? Expect(TokenKind::kOperator, ")") : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Statement>> Parser::ParseFor() {
  auto statement = NewStatement(Statement::Kind::kFor, Peek().line);
  BATON_RETURN_IF_ERROR(ParseTargets(/*with_namespace=*/false, statement.get()));
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kName, "in"));
  BATON_ASSIGN_OR_RETURN(ExpressionPtr iterable, ParseTupleOrExpression(/*with_condition=*/false));
  ExpressionPtr filter;
  if (TakeName("if")) {
    BATON_ASSIGN_OR_RETURN(filter, ParseExpression());
  }
  if (AtName("recursive")) return Error("recursive loops are not supported");
  BATON_RETURN_IF_ERROR(ExpectBlockEnd());
  statement->expressions.push_back(std::move(iterable));
  statement->expressions.push_back(std::move(filter));
  ++loop_depth_;
  absl::StatusOr<Body> body = ParseBody({"else", "endfor"});
  --loop_depth_;
  BATON_RETURN_IF_ERROR(body.status());
  statement->bodies.push_back(*std::move(body));
  (void)Next();
  BATON_RETURN_IF_ERROR(ParseElse("endfor", statement.get()));
  return statement;
}

absl::StatusOr<std::unique_ptr<Statement>> Parser::ParseSet() {
  auto statement = NewStatement(Statement::Kind::kSet, Peek().line);
  BATON_RETURN_IF_ERROR(ParseTargets(/*with_namespace=*/true, statement.get()));
  if (TakeOperator("=")) {
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseTupleOrExpression(/*with_condition=*/true));
    statement->expressions.push_back(std::move(value));
    BATON_RETURN_IF_ERROR(ExpectBlockEnd());
    return statement;
  }
  if (statement->unpack) return Error("a set block has one target");
  if (AtOperator("|")) return Error("filters on a set block are not supported");
  BATON_RETURN_IF_ERROR(ExpectBlockEnd());
  statement->kind = Statement::Kind::kSetBlock;
  BATON_ASSIGN_OR_RETURN(Body body, ParseBody({"endset"}));
  statement->bodies.push_back(std::move(body));
  BATON_RETURN_IF_ERROR(ExpectClosing("endset"));
  return statement;
}

absl::StatusOr<std::unique_ptr<Statement>> Parser::ParseMacro() {
  auto statement = NewStatement(Statement::Kind::kMacro, Peek().line);
  BATON_ASSIGN_OR_RETURN(statement->text, ExpectName());
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kOperator, "("));
  while (!AtOperator(")")) {
    Target parameter;
    BATON_ASSIGN_OR_RETURN(parameter.name, ExpectName());
    ExpressionPtr value;
    if (TakeOperator("=")) {
      BATON_ASSIGN_OR_RETURN(value, ParseExpression());
    } else if (!statement->expressions.empty() && statement->expressions.back() != nullptr) {
      return Error("a parameter without a default after one with it");
    }
    statement->targets.push_back(std::move(parameter));
    statement->expressions.push_back(std::move(value));
    if (!TakeOperator(",")) break;
  }
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kOperator, ")"));
  BATON_RETURN_IF_ERROR(ExpectBlockEnd());
  // A loop around the macro does not reach into it.
  const int loop_depth = std::exchange(loop_depth_, 0);
  absl::StatusOr<Body> body = ParseBody({"endmacro"});
  loop_depth_ = loop_depth;
  BATON_RETURN_IF_ERROR(body.status());
  statement->bodies.push_back(*std::move(body));
  BATON_RETURN_IF_ERROR(ExpectClosing("endmacro"));
  return statement;
}

absl::StatusOr<std::unique_ptr<Statement>> Parser::ParseGeneration() {
  auto statement = NewStatement(Statement::Kind::kScope, Peek().line);
  BATON_RETURN_IF_ERROR(ExpectBlockEnd());
  BATON_ASSIGN_OR_RETURN(Body body, ParseBody({"endgeneration"}));
  statement->bodies.push_back(std::move(body));
  BATON_RETURN_IF_ERROR(ExpectClosing("endgeneration"));
  return statement;
}

}  // namespace baton::tokenizer::jinja
