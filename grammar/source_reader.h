// Reads the text of a regular expression or a grammar, and says where it is wrong.
#ifndef BATON_GRAMMAR_SOURCE_READER_H_
#define BATON_GRAMMAR_SOURCE_READER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::grammar {

struct RepeatCounts {
  int min = 0;
  int max = 0;  // Expression::kUnbounded: without end.
};

// The text must be valid UTF-8 and outlive it. `what` names it in messages.
class SourceReader {
 public:
  SourceReader(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  bool at_end() const { return offset_ == text_.size(); }
  size_t offset() const { return offset_; }
  void set_offset(size_t offset) { offset_ = offset; }
  std::string_view rest() const { return text_.substr(offset_); }
  // The byte `ahead` bytes further on, '\0' behind the end.
  char Peek(size_t ahead = 0) const { return offset_ + ahead < text_.size() ? text_[offset_ + ahead] : '\0'; }
  bool Accept(std::string_view token);
  // Requires that it is not at the end.
  uint32_t NextCharacter();
  absl::StatusOr<uint32_t> ReadHex(int digits);
  // What follows '{' up to and with '}': m, or m, or m,n. RESOURCE_EXHAUSTED beyond kMaxRepeats.
  absl::StatusOr<RepeatCounts> ReadCounts();

  // INVALID_ARGUMENT and UNIMPLEMENTED, which name the place.
  absl::Status Malformed(std::string_view why) const;
  absl::Status Unsupported(std::string_view what) const;
  absl::Status TooLarge(std::string_view why) const;

 private:
  absl::StatusOr<int> ReadCount();

  const std::string_view text_;
  const std::string_view what_;
  size_t offset_ = 0;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_SOURCE_READER_H_
