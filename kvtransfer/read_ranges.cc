#include "kvtransfer/read_ranges.h"

#include "absl/strings/str_cat.h"

namespace baton::kvtransfer {
namespace {

bool Inside(uint64_t offset, uint64_t bytes, uint64_t region_bytes) {
  return offset <= region_bytes && bytes <= region_bytes - offset;
}

}  // namespace

absl::Status CheckRanges(absl::Span<const CopyRange> ranges, const RegionSizes& sizes) {
  if (ranges.size() > kMaxRangesPerRead) {
    return absl::InvalidArgumentError(
        absl::StrCat("a read of ", ranges.size(), " ranges: at most ", kMaxRangesPerRead, " are allowed"));
  }
  for (const CopyRange& range : ranges) {
    if (!Inside(range.remote_offset, range.bytes, sizes.remote_bytes)) {
      return absl::OutOfRangeError(absl::StrCat("bytes ", range.remote_offset, "+", range.bytes,
                                                " are outside of the peer's region of ", sizes.remote_bytes));
    }
    if (!Inside(range.local_offset, range.bytes, sizes.local_bytes)) {
      return absl::OutOfRangeError(absl::StrCat("bytes ", range.local_offset, "+", range.bytes,
                                                " are outside of this region of ", sizes.local_bytes));
    }
  }
  return absl::OkStatus();
}

std::vector<CopyRange> Coalesce(absl::Span<const CopyRange> ranges) {
  std::vector<CopyRange> joined;
  joined.reserve(ranges.size());
  for (const CopyRange& range : ranges) {
    if (range.bytes == 0) continue;
    if (!joined.empty() && joined.back().remote_offset + joined.back().bytes == range.remote_offset &&
        joined.back().local_offset + joined.back().bytes == range.local_offset) {
      joined.back().bytes += range.bytes;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

}  // namespace baton::kvtransfer
