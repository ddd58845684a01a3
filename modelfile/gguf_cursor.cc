#include "modelfile/gguf_cursor.h"

namespace baton::modelfile {

absl::Status DamagedAt(size_t offset, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("damaged GGUF file at byte ", offset, ": ", ToAbsl(what), "; fetch the file again"));
}

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsValidUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<uint8_t>(text[i]);
    size_t more = 0;
    uint8_t low = 0x80, high = 0xBF;  // bounds of the second byte
    if (lead < 0x80) {
      ++i;
      continue;
    } else if (lead >= 0xC2 && lead <= 0xDF) {
      more = 1;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      more = 2;
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      more = 3;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    } else {
      return false;
    }
    if (text.size() - i <= more) return false;
    for (size_t k = 1; k <= more; ++k) {
      const auto byte = static_cast<uint8_t>(text[i + k]);
      if (byte < low || byte > high) return false;
      low = 0x80;
      high = 0xBF;
    }
    i += more + 1;
  }
  return true;
}

absl::Status GgufCursor::Truncated(std::string_view what) const {
  return DamagedAt(offset_, absl::StrCat("the file ends inside ", ToAbsl(what)));
}

absl::StatusOr<const uint8_t*> GgufCursor::Skip(uint64_t count, size_t size_bytes, std::string_view what) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, size_bytes, &bytes) || bytes > left()) return Truncated(what);
  const uint8_t* begin = data_ + offset_;
  offset_ += bytes;
  return begin;
}

absl::StatusOr<std::string_view> GgufCursor::ReadString(uint64_t max_bytes, std::string_view what) {
  const size_t start = offset_;
  BATON_ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>(what));
  if (length > max_bytes) {
    return DamagedAt(start, absl::StrCat(ToAbsl(what), " has ", length, " bytes, limit ", max_bytes));
  }
  if (length > left()) return Truncated(what);
  const std::string_view text(reinterpret_cast<const char*>(data_ + offset_), length);
  if (!IsValidUtf8(text)) return DamagedAt(start, absl::StrCat(ToAbsl(what), " is not valid UTF-8"));
  offset_ += length;
  return text;
}

absl::StatusOr<size_t> GgufCursor::ReadCount(uint64_t max_count, size_t min_bytes, std::string_view what) {
  const size_t start = offset_;
  BATON_ASSIGN_OR_RETURN(const uint64_t count, Read<uint64_t>(what));
  if (count > max_count) return DamagedAt(start, absl::StrCat(ToAbsl(what), " is ", count, ", limit ", max_count));
  if (count > left() / min_bytes) {
    return DamagedAt(start, absl::StrCat(ToAbsl(what), " is ", count, ", more than the rest of the file can hold"));
  }
  return static_cast<size_t>(count);
}

}  // namespace baton::modelfile
