#include "common/populate_pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

// A fraction of a millisecond's work: so long others wait who change the address space.
constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr int kLowPriority = 10;
// Of Linux 5.14; Debian 12's C library has no names for them.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

}  // namespace

absl::Status PopulatePages(absl::Span<uint8_t> memory, const std::stop_token& stop) {
  for (size_t at = 0; at < memory.size() && !stop.stop_requested(); at += kPieceBytes) {
    const size_t bytes = std::min(kPieceBytes, memory.size() - at);
    if (madvise(memory.data() + at, bytes, kPopulateWrite) == 0 || errno == EAGAIN || errno == EINTR) continue;
    // An older kernel: pages come when they are touched.
    if (errno == EINVAL) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("only ", at >> 20, " of ", memory.size() >> 20, " MiB: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void MapPages(absl::Span<const uint8_t> memory) {
  madvise(const_cast<uint8_t*>(memory.data()), memory.size(), kPopulateRead);
}

// Not the idle class: a thread of it could hold the lock of the address space for seconds.
void RunAtLowPriority() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowPriority); }

}  // namespace baton
