// A BlockAccess that says what the test tells it to.
#ifndef BATON_KVTRANSFER_TESTING_FAKE_BLOCK_ACCESS_H_
#define BATON_KVTRANSFER_TESTING_FAKE_BLOCK_ACCESS_H_

#include <map>
#include <vector>

#include "kvtransfer/block_access.h"

namespace baton::kvtransfer {

// By default a reader may always be reading still, as over shared memory.
class FakeBlockAccess final : public BlockAccess {
 public:
  void Allow(const Id128& fetch, absl::Span<const BlockReady> blocks, uint64_t) override {
    for (const BlockReady& block : blocks) allowed[fetch].push_back(block.index);
  }
  bool Stop(const Id128& fetch, const ReaderProcess&) override {
    allowed.erase(fetch);
    return stops_readers;
  }

  // Blocks that may be read, by their index within the prompt.
  std::map<Id128, std::vector<int32_t>> allowed;
  bool stops_readers = false;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_FAKE_BLOCK_ACCESS_H_
