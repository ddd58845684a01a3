#include "tokenizer/jinja/parser.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/utf8.h"

namespace baton::tokenizer::jinja {

const Token& Parser::Peek(size_t ahead) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }

Token Parser::Next() {
  Token token = Peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::AtOperator(std::string_view op) const { return Peek().kind == TokenKind::kOperator && Peek().text == op; }

bool Parser::AtName(std::string_view name) const { return Peek().kind == TokenKind::kName && Peek().text == name; }

bool Parser::TakeOperator(std::string_view op) {
  if (!AtOperator(op)) return false;
  (void)Next();
  return true;
}

bool Parser::TakeName(std::string_view name) {
  if (!AtName(name)) return false;
  (void)Next();
  return true;
}

absl::Status Parser::Error(std::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat("chat template, line ", Peek().line, ": ", ToAbsl(what)));
}

absl::Status Parser::DepthError() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("chat template, line ", Peek().line, ": nested more than ", max_depth_, " deep"));
}

absl::Status Parser::Expect(TokenKind kind, std::string_view text) {
  if (Peek().kind != kind || (!text.empty() && Peek().text != text)) {
    const std::string wanted = text.empty() ? "the end of the tag" : absl::StrCat("'", ToAbsl(text), "'");
    const std::string found = Peek().text.empty() ? "the end of the tag" : absl::StrCat("'", Peek().text, "'");
    return Error(absl::StrCat("expected ", wanted, ", found ", found));
  }
  (void)Next();
  return absl::OkStatus();
}

absl::StatusOr<std::string> Parser::ExpectName() {
  if (Peek().kind != TokenKind::kName) return Error("expected a name");
  return Next().text;
}

ExpressionPtr Parser::NewNode(Kind kind, std::string name) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = Peek().line;
  node->name = std::move(name);
  return node;
}

absl::Status Parser::Adopt(Expression* parent, ExpressionPtr child) const {
  if (child != nullptr) parent->depth = std::max(parent->depth, child->depth + 1);
  parent->children.push_back(std::move(child));
  return parent->depth > max_depth_ ? DepthError() : absl::OkStatus();
}

absl::StatusOr<ExpressionPtr> Parser::Join(Kind kind, std::string name, ExpressionPtr left, ExpressionPtr right) const {
  ExpressionPtr node = NewNode(kind, std::move(name));
  BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(left)));
  BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(right)));
  return node;
}

// A list without brackets, `a, b`, is a tuple; one expression without a comma is itself.
absl::StatusOr<ExpressionPtr> Parser::ParseTupleOrExpression(bool with_condition) {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr first, ParseExpression(with_condition));
  if (!AtOperator(",")) return first;
  ExpressionPtr tuple = NewNode(Kind::kTuple);
  BATON_RETURN_IF_ERROR(Adopt(tuple.get(), std::move(first)));
  while (TakeOperator(",")) {
    const TokenKind kind = Peek().kind;
    if (kind == TokenKind::kPrintEnd || kind == TokenKind::kBlockEnd || AtOperator(")")) break;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression(with_condition));
    BATON_RETURN_IF_ERROR(Adopt(tuple.get(), std::move(item)));
  }
  return tuple;
}

absl::StatusOr<ExpressionPtr> Parser::ParseExpression(bool with_condition) {
  const Level level(&depth_);
  if (depth_ > max_depth_) return DepthError();
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, ParseLogical("or"));
  while (with_condition && TakeName("if")) {
    ExpressionPtr conditional = NewNode(Kind::kConditional);
    BATON_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseLogical("or"));
    ExpressionPtr otherwise;
    if (TakeName("else")) {
      BATON_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    BATON_RETURN_IF_ERROR(Adopt(conditional.get(), std::move(node)));
    BATON_RETURN_IF_ERROR(Adopt(conditional.get(), std::move(condition)));
    BATON_RETURN_IF_ERROR(Adopt(conditional.get(), std::move(otherwise)));
    node = std::move(conditional);
  }
  return node;
}

absl::StatusOr<ExpressionPtr> Parser::ParseLogical(std::string_view op) {
  const auto operand = [this, op] { return op == "or" ? ParseLogical("and") : ParseNot(); };
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, operand());
  while (TakeName(op)) {
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, operand());
    BATON_ASSIGN_OR_RETURN(left, Join(Kind::kLogical, std::string(op), std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> Parser::ParseNot() {
  if (!TakeName("not")) return ParseCompare();
  const Level level(&depth_);
  if (depth_ > max_depth_) return DepthError();
  ExpressionPtr node = NewNode(Kind::kUnary, "not");
  BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(operand)));
  return node;
}

absl::StatusOr<ExpressionPtr> Parser::ParseCompare() {
  static constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  BATON_ASSIGN_OR_RETURN(ExpressionPtr first, ParseBinary(0));
  ExpressionPtr node;
  while (true) {
    std::string op;
    if (Peek().kind == TokenKind::kOperator &&
        std::find(std::begin(kOperators), std::end(kOperators), Peek().text) != std::end(kOperators)) {
      op = Next().text;
    } else if (TakeName("in")) {
      op = "in";
    } else if (AtName("not") && Peek(1).kind == TokenKind::kName && Peek(1).text == "in") {
      (void)Next();
      (void)Next();
      op = "not in";
    } else {
      break;
    }
    if (node == nullptr) {
      node = NewNode(Kind::kCompare);
      BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(first)));
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseBinary(0));
    node->names.push_back(std::move(op));
    BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(operand)));
  }
  return node == nullptr ? std::move(first) : std::move(node);
}

absl::StatusOr<ExpressionPtr> Parser::ParseBinary(size_t level) {
  static const std::array<std::vector<std::string_view>, 4> kLevels = {
      {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}};
  if (level == kLevels.size()) return ParseUnary();
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseBinary(level + 1));
  while (Peek().kind == TokenKind::kOperator &&
         std::find(kLevels[level].begin(), kLevels[level].end(), Peek().text) != kLevels[level].end()) {
    std::string op = Next().text;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseBinary(level + 1));
    BATON_ASSIGN_OR_RETURN(left, Join(Kind::kBinary, std::move(op), std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> Parser::ParseUnary(bool with_filter) {
  ExpressionPtr node;
  if (AtOperator("-") || AtOperator("+")) {
    const Level level(&depth_);
    if (depth_ > max_depth_) return DepthError();
    node = NewNode(Kind::kUnary, Next().text);
    BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(/*with_filter=*/false));
    BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(operand)));
  } else {
    BATON_ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  BATON_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  return with_filter ? ParseFilters(std::move(node)) : std::move(node);
}

absl::StatusOr<ExpressionPtr> Parser::ParsePrimary() {
  if (AtOperator("(")) return ParseParenthesis();
  if (AtOperator("[")) return ParseList();
  if (AtOperator("{")) return ParseDict();
  ExpressionPtr node = NewNode(Kind::kLiteral);
  switch (Peek().kind) {
    case TokenKind::kInt:
      node->literal = Value::Int(Next().int_value);
      return node;
    case TokenKind::kFloat:
      node->literal = Value::Float(Next().float_value);
      return node;
    case TokenKind::kString: {
      std::string text;
      while (Peek().kind == TokenKind::kString) text += Next().text;
      node->literal = Value::String(std::move(text));
      return node;
    }
    case TokenKind::kName:
      break;
    default:
      return Error(Peek().text.empty() ? "expected an expression" : absl::StrCat("unexpected '", Peek().text, "'"));
  }
  const Token token = Next();
  const std::string_view name = token.text;
  if (name == "true" || name == "True") {
    node->literal = Value::Bool(true);
  } else if (name == "false" || name == "False") {
    node->literal = Value::Bool(false);
  } else if (name == "none" || name == "None") {
    node->literal = Value::MakeNone();
  } else {
    node->kind = Kind::kName;
    node->name = name;
  }
  return node;
}

absl::StatusOr<ExpressionPtr> Parser::ParseParenthesis() {
  (void)Next();
  ExpressionPtr node;
  if (AtOperator(")")) {
    node = NewNode(Kind::kTuple);
  } else {
    BATON_ASSIGN_OR_RETURN(node, ParseTupleOrExpression(/*with_condition=*/true));
  }
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kOperator, ")"));
  return node;
}

absl::StatusOr<ExpressionPtr> Parser::ParseList() {
  (void)Next();
  ExpressionPtr node = NewNode(Kind::kList);
  while (!AtOperator("]")) {
    BATON_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(item)));
    if (!TakeOperator(",")) break;
  }
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kOperator, "]"));
  return node;
}

absl::StatusOr<ExpressionPtr> Parser::ParseDict() {
  (void)Next();
  ExpressionPtr node = NewNode(Kind::kDict);
  while (!AtOperator("}")) {
    BATON_ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(key)));
    BATON_RETURN_IF_ERROR(Expect(TokenKind::kOperator, ":"));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(value)));
    if (!TakeOperator(",")) break;
  }
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kOperator, "}"));
  return node;
}

absl::StatusOr<ExpressionPtr> Parser::ParsePostfix(ExpressionPtr node) {
  while (true) {
    if (TakeOperator(".")) {
      ExpressionPtr parent = NewNode(Peek().kind == TokenKind::kInt ? Kind::kSubscript : Kind::kAttribute);
      BATON_RETURN_IF_ERROR(Adopt(parent.get(), std::move(node)));
      if (parent->kind == Kind::kSubscript) {
        ExpressionPtr key = NewNode(Kind::kLiteral);
        key->literal = Value::Int(Next().int_value);
        BATON_RETURN_IF_ERROR(Adopt(parent.get(), std::move(key)));
      } else {
        BATON_ASSIGN_OR_RETURN(parent->name, ExpectName());
      }
      node = std::move(parent);
    } else if (TakeOperator("[")) {
      BATON_ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
    } else if (AtOperator("(")) {
      ExpressionPtr call = NewNode(Kind::kCall);
      BATON_RETURN_IF_ERROR(Adopt(call.get(), std::move(node)));
      BATON_RETURN_IF_ERROR(ParseArguments(call.get()));
      node = std::move(call);
    } else {
      return node;
    }
  }
}

absl::StatusOr<ExpressionPtr> Parser::ParseSubscript(ExpressionPtr object) {
  ExpressionPtr node = NewNode(Kind::kSubscript);
  BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(object)));
  ExpressionPtr part;
  if (!AtOperator(":")) {
    BATON_ASSIGN_OR_RETURN(part, ParseExpression());
  }
  BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(part)));
  if (AtOperator(":")) {
    node->kind = Kind::kSlice;
    for (int i = 0; i < 2; ++i) {
      ExpressionPtr next;
      if (TakeOperator(":") && !AtOperator(":") && !AtOperator("]")) {
        BATON_ASSIGN_OR_RETURN(next, ParseExpression());
      }
      BATON_RETURN_IF_ERROR(Adopt(node.get(), std::move(next)));
    }
  }
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kOperator, "]"));
  return node;
}

absl::Status Parser::ParseArguments(Expression* call) {
  BATON_RETURN_IF_ERROR(Expect(TokenKind::kOperator, "("));
  while (!AtOperator(")")) {
    std::string name;
    if (Peek().kind == TokenKind::kName && Peek(1).kind == TokenKind::kOperator && Peek(1).text == "=") {
      name = Next().text;
      (void)Next();
    } else if (!call->names.empty() && !call->names.back().empty()) {
      return Error("a positional argument after a named one");
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    call->names.push_back(std::move(name));
    BATON_RETURN_IF_ERROR(Adopt(call, std::move(value)));
    if (!TakeOperator(",")) break;
  }
  return Expect(TokenKind::kOperator, ")");
}

absl::StatusOr<ExpressionPtr> Parser::ParseFilters(ExpressionPtr node) {
  while (true) {
    if (TakeOperator("|")) {
      ExpressionPtr filter = NewNode(Kind::kFilter);
      BATON_ASSIGN_OR_RETURN(filter->name, ExpectName());
      BATON_RETURN_IF_ERROR(Adopt(filter.get(), std::move(node)));
      if (AtOperator("(")) BATON_RETURN_IF_ERROR(ParseArguments(filter.get()));
      node = std::move(filter);
    } else if (TakeName("is")) {
      BATON_ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else if (AtOperator("(")) {
      BATON_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
    } else {
      return node;
    }
  }
}

absl::StatusOr<ExpressionPtr> Parser::ParseTest(ExpressionPtr operand) {
  const bool negated = TakeName("not");
  ExpressionPtr test = NewNode(Kind::kTest);
  BATON_ASSIGN_OR_RETURN(test->name, ExpectName());
  BATON_RETURN_IF_ERROR(Adopt(test.get(), std::move(operand)));
  const TokenKind kind = Peek().kind;
  const bool takes_literal = kind == TokenKind::kString || kind == TokenKind::kInt || kind == TokenKind::kFloat ||
                             AtOperator("[") || AtOperator("{");
  const bool takes_name = kind == TokenKind::kName && !AtName("else") && !AtName("or") && !AtName("and");
  if (AtOperator("(")) {
    BATON_RETURN_IF_ERROR(ParseArguments(test.get()));
  } else if (takes_literal || takes_name) {
    // A test may have one argument without parentheses: `x is divisibleby 3`.
    if (AtName("is")) return Error("tests cannot be chained");
    BATON_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    BATON_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    test->names.emplace_back();
    BATON_RETURN_IF_ERROR(Adopt(test.get(), std::move(argument)));
  }
  if (!negated) return test;
  ExpressionPtr negation = NewNode(Kind::kUnary, "not");
  BATON_RETURN_IF_ERROR(Adopt(negation.get(), std::move(test)));
  return negation;
}

}  // namespace baton::tokenizer::jinja
