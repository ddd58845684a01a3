#include "grammar/source_reader.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/utf8.h"
#include "grammar/expression.h"
#include "grammar/grammar_limits.h"

namespace baton::grammar {

bool SourceReader::Accept(std::string_view token) {
  if (rest().substr(0, token.size()) != token) return false;
  offset_ += token.size();
  return true;
}

uint32_t SourceReader::NextCharacter() { return NextCodePoint(text_, &offset_); }

absl::StatusOr<uint32_t> SourceReader::ReadHex(int digits) {
  uint32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = Peek();
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) {
      return Malformed(absl::StrCat("an escape needs ", digits, " hexadecimal digits"));
    }
    value = value * 16 + static_cast<uint32_t>(absl::ascii_isdigit(c) ? c - '0' : absl::ascii_tolower(c) - 'a' + 10);
    ++offset_;
  }
  return value;
}

absl::StatusOr<int> SourceReader::ReadCount() {
  if (!absl::ascii_isdigit(static_cast<unsigned char>(Peek()))) {
    return Malformed("a repeat is {count}, {least,} or {least,most}");
  }
  int count = 0;
  for (; absl::ascii_isdigit(static_cast<unsigned char>(Peek())); ++offset_) {
    count = count * 10 + (Peek() - '0');
    if (count > kMaxRepeats) return TooLarge(absl::StrCat("a repeat is larger than ", kMaxRepeats));
  }
  return count;
}

absl::StatusOr<RepeatCounts> SourceReader::ReadCounts() {
  RepeatCounts counts;
  BATON_ASSIGN_OR_RETURN(counts.min, ReadCount());
  counts.max = counts.min;
  if (Accept(",")) {
    counts.max = Expression::kUnbounded;
    if (Peek() != '}') {
      BATON_ASSIGN_OR_RETURN(counts.max, ReadCount());
    }
  }
  if (!Accept("}")) return Malformed("a repeat must end with }");
  if (counts.max != Expression::kUnbounded && counts.max < counts.min) {
    return Malformed("the counts of a repeat are in the wrong order");
  }
  return counts;
}

absl::Status SourceReader::Malformed(std::string_view why) const {
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(what_), ", byte ", offset_, ": ", ToAbsl(why)));
}

absl::Status SourceReader::Unsupported(std::string_view what) const {
  return absl::UnimplementedError(
      absl::StrCat(ToAbsl(what_), ", byte ", offset_, ": ", ToAbsl(what), " is not supported"));
}

absl::Status SourceReader::TooLarge(std::string_view why) const {
  return absl::ResourceExhaustedError(absl::StrCat(ToAbsl(what_), ", byte ", offset_, ": ", ToAbsl(why)));
}

}  // namespace baton::grammar
