// Zeroed private memory for a region, backed page by page when touched.
#ifndef BATON_KVTRANSFER_MAPPED_REGION_H_
#define BATON_KVTRANSFER_MAPPED_REGION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace baton::kvtransfer {

class MappedRegion {
 public:
  // RESOURCE_EXHAUSTED when the address space has no room. The mapping reserves no memory (MAP_NORESERVE): when memory
  // is missing at the first touch of a page, the kernel ends the process, as with any overcommitted memory.
  static absl::StatusOr<std::unique_ptr<MappedRegion>> Create(size_t bytes);
  ~MappedRegion();
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;

  uint8_t* base() const { return base_; }

 private:
  MappedRegion(uint8_t* base, size_t bytes) : base_(base), bytes_(bytes) {}

  uint8_t* const base_;
  const size_t bytes_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_MAPPED_REGION_H_
