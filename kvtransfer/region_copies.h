// Copies between a region and host memory that are over when the call returns, wherever the region lies. For bytes that
// are few, or that a library moves through the host anyway.
#ifndef BATON_KVTRANSFER_REGION_COPIES_H_
#define BATON_KVTRANSFER_REGION_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/memory_access.h"

namespace baton::kvtransfer {

// Used by one thread at a time.
class RegionCopies {
 public:
  // `memory` is where the region lies, and outlives this object; null: host memory.
  static absl::StatusOr<std::unique_ptr<RegionCopies>> Create(MemoryAccess* memory);
  ~RegionCopies();
  RegionCopies(const RegionCopies&) = delete;
  RegionCopies& operator=(const RegionCopies&) = delete;

  // The errors are the memory's; host memory has none.
  absl::Status In(uint8_t* to, absl::Span<const uint8_t> from);
  absl::Status Out(absl::Span<uint8_t> to, const uint8_t* from);
  // To the end of a text. After an error what it has got is undefined.
  absl::Status Append(std::string& to, const uint8_t* from, size_t bytes);

 private:
  explicit RegionCopies(MemoryAccess* memory) : memory_(memory) {}

  static constexpr size_t kStagingBytes = 256u << 10;

  MemoryAccess* const memory_;
  // Unless the region is host memory.
  MemoryAccess::Stream stream_ = nullptr;
  std::unique_ptr<MemoryAccess::Staging> staging_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_REGION_COPIES_H_
