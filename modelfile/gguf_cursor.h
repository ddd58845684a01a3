// Reads little-endian values from the bytes of a GGUF file. No read passes the end; the error of one says where it was.
#ifndef BATON_MODELFILE_GGUF_CURSOR_H_
#define BATON_MODELFILE_GGUF_CURSOR_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::modelfile {

static_assert(std::endian::native == std::endian::little, "the reader copies little-endian values as they lie");

// INVALID_ARGUMENT with what is damaged, where, and what to do.
absl::Status DamagedAt(size_t offset, std::string_view what);

class GgufCursor {
 public:
  GgufCursor(const uint8_t* data, size_t bytes) : data_(data), bytes_(bytes) {}

  size_t offset() const { return offset_; }
  size_t left() const { return bytes_ - offset_; }

  // `what` names the value in the error.
  template <typename T>
  absl::StatusOr<T> Read(std::string_view what) {
    if (left() < sizeof(T)) return Truncated(what);
    T value;
    std::memcpy(&value, data_ + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  // Skips `count` values of `size_bytes` each and returns where they begin.
  absl::StatusOr<const uint8_t*> Skip(uint64_t count, size_t size_bytes, std::string_view what);

  // Reads a u64 length and then that many bytes of UTF-8.
  absl::StatusOr<std::string_view> ReadString(uint64_t max_bytes, std::string_view what);

  // Reads a u64 count of things that take at least `min_bytes` each. The bound keeps memory in proportion to the file.
  absl::StatusOr<size_t> ReadCount(uint64_t max_count, size_t min_bytes, std::string_view what);

 private:
  absl::Status Truncated(std::string_view what) const;

  const uint8_t* const data_;
  const size_t bytes_;
  size_t offset_ = 0;
};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_GGUF_CURSOR_H_
