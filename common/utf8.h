// Validation of UTF-8, and lossy decoding that replaces invalid bytes as Rust's String::from_utf8_lossy does (Unicode
// 15, section 3.9, "substitution of maximal subparts").
#ifndef BATON_COMMON_UTF8_H_
#define BATON_COMMON_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace baton {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";
inline constexpr size_t kMaxUtf8Bytes = 4;

enum class Utf8Kind : uint8_t { kValid, kInvalid, kIncomplete };

// Describes the first character of a text that is not empty. kValid: `bytes` is its length. kInvalid: `bytes` is the
// length of the maximal subpart that one U+FFFD replaces. kIncomplete: the whole text may still become a character.
struct Utf8Prefix {
  Utf8Kind kind;
  size_t bytes;
};
Utf8Prefix ClassifyUtf8Prefix(std::string_view text);

// The offset of the first byte that is not part of valid UTF-8, or text.size() when all is valid.
size_t ValidUtf8Bytes(std::string_view text);
inline bool IsValidUtf8(std::string_view text) { return ValidUtf8Bytes(text) == text.size(); }

// Decodes the character at `offset`, which must be valid UTF-8, and advances `offset` past it.
uint32_t NextCodePoint(std::string_view text, size_t* offset);
// Requires a Unicode scalar value.
void AppendUtf8(uint32_t code_point, std::string* out);
// How many characters a text of valid UTF-8 has.
size_t CountCodePoints(std::string_view text);

// Takes bytes and emits whole characters.
class Utf8LossyDecoder {
 public:
  // Appends the text that has become certain to `out`.
  void Push(std::string_view bytes, std::string* out);
  // Appends one U+FFFD if a character is unfinished, and forgets it.
  void Flush(std::string* out);
  size_t pending_bytes() const { return pending_.size(); }

 private:
  std::string pending_;  // at most 3 bytes: a proper prefix of a character
};

std::string DecodeUtf8Lossy(std::string_view bytes);
// The same for the first `max_bytes` bytes, which end between two characters.
std::string DecodeUtf8LossyPrefix(std::string_view bytes, size_t max_bytes);

}  // namespace baton

#endif  // BATON_COMMON_UTF8_H_
