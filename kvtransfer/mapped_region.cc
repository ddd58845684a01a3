#include "kvtransfer/mapped_region.h"

#include <sys/mman.h>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace baton::kvtransfer {

absl::StatusOr<std::unique_ptr<MappedRegion>> MappedRegion::Create(size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes for the KV pool: ask for less (--kv-memory)"));
  }
  return absl::WrapUnique(new MappedRegion(static_cast<uint8_t*>(base), bytes));
}

MappedRegion::~MappedRegion() { munmap(base_, bytes_); }

}  // namespace baton::kvtransfer
