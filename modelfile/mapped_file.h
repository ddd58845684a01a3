// The bytes of a file, mapped for reading.
#ifndef BATON_MODELFILE_MAPPED_FILE_H_
#define BATON_MODELFILE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::modelfile {

// If someone shortens the file while it is mapped, SIGBUS ends this process. Moving it does not move the bytes.
class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT if it is not a regular file or longer than kMaxFileBytes,
  // UNAVAILABLE if the system refuses otherwise. Messages do not name the path.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  const uint8_t* data() const { return static_cast<const uint8_t*>(address_); }
  size_t bytes() const { return bytes_; }
  std::string_view text() const { return {static_cast<const char*>(address_), bytes_}; }

 private:
  static absl::StatusOr<MappedFile> MapDescriptor(int fd);
  MappedFile(void* address, size_t bytes) : address_(address), bytes_(bytes) {}

  void* address_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_MAPPED_FILE_H_
