#include "kvtransfer/region_layout.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton::kvtransfer {
namespace {

uint64_t MachineBytes() { return uint64_t{1} * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE); }

}  // namespace

uint64_t MostRegionBytes() {
  // What lies behind a region, which ends anywhere in a page.
  const uint64_t behind = RegionLayout(0).total_bytes + kRegionPageBytes;
  return std::min(kMaxRegionBytes, MachineBytes() - std::min(behind, MachineBytes()));
}

absl::Status CheckRegionBytes(uint64_t bytes) {
  if (bytes == 0 || bytes > kMaxRegionBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a KV pool of ", bytes, " bytes: it has 1 to ", kMaxRegionBytes));
  }
  if (RegionLayout(bytes).total_bytes > MachineBytes()) {
    return absl::ResourceExhaustedError(absl::StrCat("a KV pool of ", bytes, " bytes is more than this machine's ",
                                                     MachineBytes(), ": ask for less (--kv-memory)"));
  }
  return absl::OkStatus();
}

}  // namespace baton::kvtransfer
