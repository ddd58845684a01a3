// A BlockAccess that says what the test tells it to.
#ifndef BATON_KVTRANSFER_TESTING_FAKE_BLOCK_ACCESS_H_
#define BATON_KVTRANSFER_TESTING_FAKE_BLOCK_ACCESS_H_

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "kvtransfer/block_access.h"

namespace baton::kvtransfer {

// By default a reader may always be reading still, as over shared memory.
class FakeBlockAccess final : public BlockAccess {
 public:
  void Allow(const Id128& fetch, absl::Span<const RegionRange> ranges) override {
    for (const RegionRange& range : ranges) allowed[fetch].emplace_back(range.offset, range.bytes);
  }
  bool Stop(const Id128& fetch, const ReaderProcess&) override {
    allowed.erase(fetch);
    return stops_readers;
  }

  // Whether all these bytes may be read.
  bool Allows(const Id128& fetch, RegionRange range) const {
    const auto found = allowed.find(fetch);
    while (found != allowed.end() && range.bytes > 0) {
      uint64_t end = range.offset;
      for (const auto& [offset, bytes] : found->second) {
        if (offset <= range.offset) end = std::max(end, offset + bytes);
      }
      const uint64_t covered = std::min(end - range.offset, range.bytes);
      if (covered == 0) return false;
      range = {.offset = range.offset + covered, .bytes = range.bytes - covered};
    }
    return range.bytes == 0;
  }

  // The ranges that may be read, by their offsets and bytes.
  std::map<Id128, std::vector<std::pair<uint64_t, uint64_t>>> allowed;
  bool stops_readers = false;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_FAKE_BLOCK_ACCESS_H_
