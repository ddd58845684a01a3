#include "grammar/regex.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "common/status.h"
#include "common/utf8.h"
#include "grammar/grammar_limits.h"
#include "grammar/regex_escapes.h"
#include "grammar/source_reader.h"

namespace baton::grammar {
namespace {

class RegexParser {
 public:
  explicit RegexParser(std::string_view text, std::string_view what) : reader_(text, what) {}

  absl::StatusOr<Regex> Run() {
    Regex regex;
    do {
      BATON_ASSIGN_OR_RETURN(Regex::Branch branch, ParseBranch());
      regex.branches.push_back(std::move(branch));
    } while (reader_.Accept("|"));
    if (!reader_.at_end()) return reader_.Malformed("there is a ) without its (");
    return regex;
  }

 private:
  absl::StatusOr<Regex::Branch> ParseBranch() {
    Regex::Branch branch;
    while (reader_.Accept("^")) branch.has_begin_anchor = true;
    BATON_ASSIGN_OR_RETURN(branch.body, ParseSequence());
    while (reader_.Accept("$")) branch.has_end_anchor = true;
    if (branch.has_end_anchor && !reader_.at_end() && reader_.Peek() != '|') {
      return reader_.Unsupported("an anchor that is not at the end");
    }
    return branch;
  }

  absl::StatusOr<Expression> ParseChoice() {
    std::vector<Expression> branches;
    do {
      BATON_ASSIGN_OR_RETURN(Expression branch, ParseSequence());
      branches.push_back(std::move(branch));
      if (reader_.Peek() == '$') return reader_.Unsupported("an anchor inside of a group");
    } while (reader_.Accept("|"));
    return Expression::Choice(std::move(branches));
  }

  // Up to the end, |, ) or $.
  absl::StatusOr<Expression> ParseSequence() {
    std::vector<Expression> parts;
    while (!reader_.at_end() && reader_.Peek() != '|' && reader_.Peek() != ')' && reader_.Peek() != '$') {
      BATON_ASSIGN_OR_RETURN(Expression part, ParseAtom());
      BATON_ASSIGN_OR_RETURN(part, ParseQuantifier(std::move(part)));
      parts.push_back(std::move(part));
    }
    return Expression::Sequence(std::move(parts));
  }

  absl::StatusOr<Expression> ParseAtom() {
    switch (reader_.Peek()) {
      case '(':
        return ParseGroup();
      case '[':
        return ParseClass();
      case '.':
        reader_.Accept(".");
        return Expression::Character(AnyButLineEnds());
      case '\\': {
        BATON_ASSIGN_OR_RETURN(CodePointSet set, ReadRegexEscape(&reader_, /*in_class=*/false));
        return Expression::Character(std::move(set));
      }
      case '^':
        return reader_.Unsupported("an anchor that is not at the beginning");
      case '*':
      case '+':
      case '?':
        return reader_.Malformed("there is nothing to repeat");
      case '{':
        return reader_.Malformed("a { that repeats nothing is written \\{");
      default:
        return Expression::Character(CodePointSet(reader_.NextCharacter()));
    }
  }

  absl::StatusOr<Expression> ParseGroup() {
    if (++depth_ > kMaxSourceNesting) return reader_.TooLarge("groups nest too deep");
    if (reader_.rest().substr(0, 2) == "(?") {
      BATON_RETURN_IF_ERROR(SkipGroupKind());
    } else {
      reader_.Accept("(");
    }
    BATON_ASSIGN_OR_RETURN(Expression inner, ParseChoice());
    if (!reader_.Accept(")")) return reader_.Malformed("a ( has no )");
    --depth_;
    return inner;
  }

  // (?: and named groups are groups like others, as nothing refers to them.
  absl::Status SkipGroupKind() {
    if (reader_.Accept("(?:")) return absl::OkStatus();
    for (const std::string_view lookaround : {"(?=", "(?!", "(?<=", "(?<!"}) {
      if (reader_.rest().substr(0, lookaround.size()) == lookaround) return reader_.Unsupported("lookaround");
    }
    if (!reader_.Accept("(?<") && !reader_.Accept("(?P<")) return reader_.Unsupported("this kind of group");
    while (absl::ascii_isalnum(static_cast<unsigned char>(reader_.Peek())) || reader_.Peek() == '_') {
      reader_.set_offset(reader_.offset() + 1);
    }
    return reader_.Accept(">") ? absl::OkStatus() : reader_.Malformed("a named group needs a name and >");
  }

  absl::StatusOr<Expression> ParseClass() {
    reader_.Accept("[");
    const bool is_negated = reader_.Accept("^");
    if (reader_.Peek() == ']') return reader_.Malformed("a class is empty");
    CodePointSet set;
    while (!reader_.Accept("]")) {
      if (reader_.at_end()) return reader_.Malformed("a [ has no ]");
      if (reader_.rest().substr(0, 2) == "[:") return reader_.Unsupported("a class with a name in [: :]");
      BATON_RETURN_IF_ERROR(ParseClassItem(&set));
    }
    set.Normalize();
    return Expression::Character(is_negated ? set.Complement() : std::move(set));
  }

  absl::Status ParseClassItem(CodePointSet* set) {
    BATON_ASSIGN_OR_RETURN(const CodePointSet low, ReadClassCharacter());
    const bool is_range = reader_.Peek() == '-' && reader_.Peek(1) != ']' && reader_.Peek(1) != '\0';
    if (!is_range) {
      set->Add(low);
      return absl::OkStatus();
    }
    reader_.Accept("-");
    BATON_ASSIGN_OR_RETURN(const CodePointSet high, ReadClassCharacter());
    if (!IsOneCharacter(low) || !IsOneCharacter(high)) {
      return reader_.Malformed("a range in a class has a class at its end");
    }
    if (high.ranges()[0].low < low.ranges()[0].low)
      return reader_.Malformed("a range in a class is in the wrong order");
    set->Add(low.ranges()[0].low, high.ranges()[0].low);
    return absl::OkStatus();
  }

  absl::StatusOr<CodePointSet> ReadClassCharacter() {
    if (reader_.Peek() == '\\') return ReadRegexEscape(&reader_, /*in_class=*/true);
    if (reader_.at_end()) return reader_.Malformed("a [ has no ]");
    return CodePointSet(reader_.NextCharacter());
  }

  static bool IsOneCharacter(const CodePointSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].low == set.ranges()[0].high;
  }

  // A lazy repeat reads the same texts.
  absl::StatusOr<Expression> ParseQuantifier(Expression part) {
    RepeatCounts counts = {1, 1};
    if (reader_.Accept("*")) {
      counts = {0, Expression::kUnbounded};
    } else if (reader_.Accept("+")) {
      counts = {1, Expression::kUnbounded};
    } else if (reader_.Accept("?")) {
      counts = {0, 1};
    } else if (reader_.Accept("{")) {
      BATON_ASSIGN_OR_RETURN(counts, reader_.ReadCounts());
    } else {
      return part;
    }
    reader_.Accept("?");
    return Expression::Repeat(std::move(part), counts.min, counts.max);
  }

  SourceReader reader_;
  int depth_ = 0;
};

}  // namespace

Expression Regex::WholeMatch() const {
  std::vector<Expression> parts;
  for (const Branch& branch : branches) parts.push_back(branch.body);
  return Expression::Choice(std::move(parts));
}

Expression Regex::Search() const {
  const Expression anything =
      Expression::Repeat(Expression::Character(CodePointSet().Complement()), 0, Expression::kUnbounded);
  std::vector<Expression> parts;
  for (const Branch& branch : branches) {
    std::vector<Expression> sequence;
    if (!branch.has_begin_anchor) sequence.push_back(anything);
    sequence.push_back(branch.body);
    if (!branch.has_end_anchor) sequence.push_back(anything);
    parts.push_back(Expression::Sequence(std::move(sequence)));
  }
  return Expression::Choice(std::move(parts));
}

absl::StatusOr<Regex> ParseRegex(std::string_view text, std::string_view what) {
  if (!IsValidUtf8(text)) return absl::InvalidArgumentError("a regular expression is not valid UTF-8");
  return RegexParser(text, what).Run();
}

}  // namespace baton::grammar
