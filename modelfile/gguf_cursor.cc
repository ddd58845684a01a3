#include "modelfile/gguf_cursor.h"

#include "common/utf8.h"

namespace baton::modelfile {

absl::Status DamagedAt(size_t offset, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("damaged GGUF file at byte ", offset, ": ", ToAbsl(what), "; fetch the file again"));
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
