#include "grammar/ebnf.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/utf8.h"
#include "grammar/expression.h"
#include "grammar/grammar_limits.h"
#include "grammar/source_reader.h"

namespace baton::grammar {
namespace {

bool IsNameCharacter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; }

struct EbnfRule {
  int32_t id;
  bool is_defined = false;
  Expression body;
};

class EbnfParser {
 public:
  EbnfParser(std::string_view text, RuleGraph* graph) : reader_(text, "grammar"), graph_(*graph) {}

  absl::Status Run() {
    SkipBlanks();
    while (!reader_.at_end()) {
      BATON_RETURN_IF_ERROR(ParseRule());
      SkipBlanks();
    }
    return absl::OkStatus();
  }

  std::vector<EbnfRule>& rules() { return rules_; }

 private:
  void SkipBlanks() {
    while (!reader_.at_end()) {
      if (reader_.Peek() == '#') {
        const size_t line = reader_.rest().find('\n');
        reader_.set_offset(reader_.offset() + (line == std::string_view::npos ? reader_.rest().size() : line));
      } else if (absl::ascii_isspace(static_cast<unsigned char>(reader_.Peek()))) {
        reader_.set_offset(reader_.offset() + 1);
      } else {
        return;
      }
    }
  }

  std::string ReadName() {
    size_t bytes = 0;
    while (IsNameCharacter(reader_.Peek(bytes))) ++bytes;
    std::string name(reader_.rest().substr(0, bytes));
    reader_.set_offset(reader_.offset() + bytes);
    return name;
  }

  EbnfRule& Find(const std::string& name) {
    const auto [it, is_new] = index_of_.try_emplace(name, rules_.size());
    if (is_new) rules_.push_back({graph_.AddRule(name), false, {}});
    return rules_[it->second];
  }

  absl::Status ParseRule() {
    const std::string name = ReadName();
    if (name.empty()) return reader_.Malformed("the name of a rule is missing");
    SkipBlanks();
    if (!reader_.Accept("::=")) return reader_.Malformed("the name of a rule is followed by ::=");
    if (Find(name).is_defined) return reader_.Malformed(absl::StrCat("rule ", name, " is there twice"));
    Find(name).is_defined = true;
    BATON_ASSIGN_OR_RETURN(Expression body, ParseChoice());
    Find(name).body = std::move(body);
    if (reader_.Peek() == ')') return reader_.Malformed("there is a ) without its (");
    return absl::OkStatus();
  }

  absl::StatusOr<Expression> ParseChoice() {
    std::vector<Expression> branches;
    do {
      BATON_ASSIGN_OR_RETURN(Expression branch, ParseSequence());
      branches.push_back(std::move(branch));
    } while (reader_.Accept("|"));
    return Expression::Choice(std::move(branches));
  }

  // Up to the end, |, ) or the next rule.
  absl::StatusOr<Expression> ParseSequence() {
    std::vector<Expression> parts;
    for (SkipBlanks(); !reader_.at_end() && reader_.Peek() != '|' && reader_.Peek() != ')'; SkipBlanks()) {
      if (IsNameCharacter(reader_.Peek())) {
        const size_t begin = reader_.offset();
        const std::string name = ReadName();
        SkipBlanks();
        if (reader_.rest().substr(0, 3) == "::=") {
          reader_.set_offset(begin);
          break;
        }
        reader_.set_offset(begin + name.size());
        parts.push_back(Expression::Rule(Find(name).id));
      } else {
        BATON_ASSIGN_OR_RETURN(Expression part, ParseAtom());
        parts.push_back(std::move(part));
      }
      BATON_ASSIGN_OR_RETURN(parts.back(), ParseQuantifier(std::move(parts.back())));
    }
    return Expression::Sequence(std::move(parts));
  }

  absl::StatusOr<Expression> ParseAtom() {
    switch (reader_.Peek()) {
      case '"':
        return ParseLiteral();
      case '[':
        return ParseClass();
      case '(':
        return ParseGroup();
      case '.':
        reader_.Accept(".");
        return Expression::Character(CodePointSet().Complement());
      case '<':
      case '!':
        return reader_.Unsupported("a token instead of text");
      case '\'':
        return reader_.Malformed("a text stands between double quotes");
      default:
        return reader_.Malformed("there is neither a text, a class, a group nor a rule");
    }
  }

  absl::StatusOr<Expression> ParseGroup() {
    if (++depth_ > kMaxSourceNesting) return reader_.TooLarge("groups nest too deep");
    reader_.Accept("(");
    if (reader_.Peek() == '=') return reader_.Unsupported("lookahead");
    BATON_ASSIGN_OR_RETURN(Expression inner, ParseChoice());
    if (!reader_.Accept(")")) return reader_.Malformed("a ( has no )");
    --depth_;
    return inner;
  }

  absl::StatusOr<Expression> ParseLiteral() {
    reader_.Accept("\"");
    std::vector<Expression> parts;
    while (!reader_.Accept("\"")) {
      BATON_ASSIGN_OR_RETURN(const uint32_t character, ReadCharacter());
      parts.push_back(Expression::Character(CodePointSet(character)));
    }
    return Expression::Sequence(std::move(parts));
  }

  absl::StatusOr<Expression> ParseClass() {
    reader_.Accept("[");
    const bool is_negated = reader_.Accept("^");
    CodePointSet set;
    while (!reader_.Accept("]")) {
      BATON_ASSIGN_OR_RETURN(const uint32_t low, ReadCharacter());
      uint32_t high = low;
      if (reader_.Peek() == '-' && reader_.Peek(1) != ']') {
        reader_.Accept("-");
        BATON_ASSIGN_OR_RETURN(high, ReadCharacter());
      }
      if (high < low) return reader_.Malformed("a range in a class is in the wrong order");
      set.Add(low, high);
    }
    set.Normalize();
    return Expression::Character(is_negated ? set.Complement() : std::move(set));
  }

  // Of a literal or a class.
  absl::StatusOr<uint32_t> ReadCharacter() {
    if (reader_.at_end()) return reader_.Malformed("a literal or a class has no end");
    if (!reader_.Accept("\\")) return reader_.NextCharacter();
    if (reader_.at_end()) return reader_.Malformed("a backslash has nothing behind it");
    const uint32_t letter = reader_.NextCharacter();
    switch (letter) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return reader_.ReadHex(2);
      case 'u':
      case 'U':
        return ReadUnicode(letter == 'u' ? 4 : 8);
      default:
        break;
    }
    const bool may_be_escaped = letter < 0x80 && absl::ascii_ispunct(static_cast<unsigned char>(letter));
    if (!may_be_escaped) return reader_.Unsupported("this escape");
    return letter;
  }

  absl::StatusOr<uint32_t> ReadUnicode(int digits) {
    BATON_ASSIGN_OR_RETURN(const uint32_t character, reader_.ReadHex(digits));
    const bool is_surrogate = character >= 0xD800 && character <= 0xDFFF;
    if (character > kMaxCodePoint || is_surrogate) return reader_.Malformed("there is no such character");
    return character;
  }

  absl::StatusOr<Expression> ParseQuantifier(Expression part) {
    if (reader_.Accept("*")) return Expression::Repeat(std::move(part), 0, Expression::kUnbounded);
    if (reader_.Accept("+")) return Expression::Repeat(std::move(part), 1, Expression::kUnbounded);
    if (reader_.Accept("?")) return Expression::Repeat(std::move(part), 0, 1);
    if (!reader_.Accept("{")) return part;
    BATON_ASSIGN_OR_RETURN(const RepeatCounts counts, reader_.ReadCounts());
    return Expression::Repeat(std::move(part), counts.min, counts.max);
  }

  SourceReader reader_;
  RuleGraph& graph_;
  std::vector<EbnfRule> rules_;
  absl::flat_hash_map<std::string, size_t> index_of_;
  int depth_ = 0;
};

bool IsCallOf(const Expression& expression, int32_t rule) {
  return expression.kind == Expression::Kind::kRule && expression.rule == rule;
}

// Makes `r ::= r a | b` into `r ::= b a*`.
Expression WithoutLeftRecursion(Expression body, int32_t rule) {
  const bool is_choice = body.kind == Expression::Kind::kChoice;
  std::vector<Expression> branches;
  if (is_choice) {
    branches = std::move(body.parts);
  } else {
    branches.push_back(std::move(body));
  }
  std::vector<Expression> first;
  std::vector<Expression> more;
  for (Expression& branch : branches) {
    if (IsCallOf(branch, rule)) continue;
    if (branch.kind == Expression::Kind::kSequence && !branch.parts.empty() && IsCallOf(branch.parts[0], rule)) {
      branch.parts.erase(branch.parts.begin());
      more.push_back(Expression::Sequence(std::move(branch.parts)));
    } else {
      first.push_back(std::move(branch));
    }
  }
  std::vector<Expression> parts;
  parts.push_back(Expression::Choice(std::move(first)));
  if (!more.empty()) {
    parts.push_back(Expression::Repeat(Expression::Choice(std::move(more)), 0, Expression::kUnbounded));
  }
  return Expression::Sequence(std::move(parts));
}

}  // namespace

absl::StatusOr<int32_t> AddEbnf(std::string_view text, RuleGraph* graph) {
  if (!IsValidUtf8(text)) return absl::InvalidArgumentError("a grammar is not valid UTF-8");
  EbnfParser parser(text, graph);
  BATON_RETURN_IF_ERROR(parser.Run());
  int32_t root = -1;
  for (EbnfRule& rule : parser.rules()) {
    const auto& [name, start, accept] = graph->rule(rule.id);
    if (!rule.is_defined) return absl::InvalidArgumentError(absl::StrCat("the grammar has no rule ", name));
    if (name == "root") root = rule.id;
    const Expression body = WithoutLeftRecursion(std::move(rule.body), rule.id);
    const int32_t from = start;
    const int32_t to = accept;
    graph->AddEmpty(AddExpression(body, {}, from, graph), to);
  }
  if (root < 0) return absl::InvalidArgumentError("the grammar has no rule root");
  return root;
}

}  // namespace baton::grammar
