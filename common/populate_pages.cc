#include "common/populate_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace baton {
namespace {

// Linux has these since 5.14; Debian 12's C library has no names for them.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

}  // namespace

absl::Status PopulatePages(absl::Span<uint8_t> memory) {
  if (madvise(memory.data(), memory.size(), kPopulateWrite) == 0) return absl::OkStatus();
  // The system then backs each page when it is touched. An older kernel answers EINVAL.
  if (errno == EINVAL || errno == EAGAIN || errno == EINTR) return absl::OkStatus();
  return absl::ResourceExhaustedError(std::strerror(errno));
}

void MapPages(absl::Span<const uint8_t> memory) {
  madvise(const_cast<uint8_t*>(memory.data()), memory.size(), kPopulateRead);
}

}  // namespace baton
