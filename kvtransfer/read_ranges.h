// Checks of what a reader asks for, shared by the transports.
#ifndef BATON_KVTRANSFER_READ_RANGES_H_
#define BATON_KVTRANSFER_READ_RANGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

struct RegionSizes {
  uint64_t remote_bytes = 0;
  uint64_t local_bytes = 0;
};

// OUT_OF_RANGE when a range leaves either region (also by wrapping around), INVALID_ARGUMENT beyond kMaxRangesPerRead.
absl::Status CheckRanges(absl::Span<const CopyRange> ranges, const RegionSizes& sizes);

// The same bytes in fewer ranges: empty ranges are dropped, and neighbours that touch at both ends are joined.
std::vector<CopyRange> Coalesce(absl::Span<const CopyRange> ranges);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_READ_RANGES_H_
