#include "kvtransfer/region_layout.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace baton::kvtransfer {

absl::Status CheckRegionBytes(uint64_t bytes, const MemoryAccess* memory) {
  if (bytes == 0 || bytes > kMaxRegionBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a KV pool of ", bytes, " bytes: it has 1 to ", kMaxRegionBytes));
  }
  if (memory != nullptr) return absl::OkStatus();
  const uint64_t machine_bytes = uint64_t{1} * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  if (RegionLayout(bytes).total_bytes > machine_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("a KV pool of ", bytes, " bytes is more than this machine's ",
                                                     machine_bytes, ": ask for less (--kv-memory)"));
  }
  return absl::OkStatus();
}

}  // namespace baton::kvtransfer
