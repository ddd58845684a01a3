// What a backend allocates for a region: the caller's bytes, a page that names the region, and room for probes.
#ifndef BATON_KVTRANSFER_REGION_LAYOUT_H_
#define BATON_KVTRANSFER_REGION_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "common/ids.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

inline constexpr uint64_t kRegionPageBytes = 4096;
// Small enough that no sum of an offset and a size can overflow.
inline constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 46;

// The label of a region, at label_offset. A reader compares it with the address before it trusts a mapping.
struct RegionLabel {
  uint64_t magic = kMagic;
  Id128 nonce;

  static constexpr uint64_t kMagic = 0x316e6f6765724b42;  // "BKregon1"
};

// Offsets from the region's first byte. `region_bytes` is at most kMaxRegionBytes.
struct RegionLayout {
  explicit RegionLayout(uint64_t bytes)
      : region_bytes(bytes),
        label_offset((bytes + kRegionPageBytes - 1) / kRegionPageBytes * kRegionPageBytes),
        probe_offset(label_offset + kRegionPageBytes),
        total_bytes(probe_offset + kMaxProbeBytes) {}

  // Whether the bytes lie behind the region, where anybody may read.
  bool IsProbe(const RegionRange& range) const {
    return range.offset >= probe_offset && range.offset <= total_bytes && range.bytes <= total_bytes - range.offset;
  }

  uint64_t region_bytes;
  uint64_t label_offset;
  uint64_t probe_offset;
  uint64_t total_bytes;
};

// What a region takes beyond its bytes, at most.
inline constexpr uint64_t kRegionTailBytes = 2 * kRegionPageBytes + kMaxProbeBytes;

// Checks a size for AllocateRegion: INVALID_ARGUMENT outside of 1 to kMaxRegionBytes; for host memory, where `memory`
// is null, RESOURCE_EXHAUSTED beyond the machine's. Backends check before they allocate: an allocator that touches the
// memory would take the machine down instead of failing.
absl::Status CheckRegionBytes(uint64_t bytes, const MemoryAccess* memory = nullptr);

inline void WriteLabel(uint8_t* base, const RegionLayout& layout, const Id128& nonce) {
  const RegionLabel label = {.nonce = nonce};
  std::memcpy(base + layout.label_offset, &label, sizeof(label));
}

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_REGION_LAYOUT_H_
