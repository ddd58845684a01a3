// Which blocks of one prompt are announced, being read, verified. Checks everything that the source says.
#ifndef BATON_KVTRANSFER_FETCH_PROGRESS_H_
#define BATON_KVTRANSFER_FETCH_PROGRESS_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/digest.h"
#include "common/kv_layout.h"
#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// Used by one thread.
class FetchProgress {
 public:
  // Blocks before `first_block` are in place already; `blocks` are the destinations of the whole prompt.
  FetchProgress(std::vector<BlockId> blocks, int32_t first_block, uint64_t block_bytes)
      : blocks_(std::move(blocks)), entries_(blocks_.size()), left_(0), block_bytes_(block_bytes) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      entries_[i].state = static_cast<int32_t>(i) < first_block ? State::kVerified : State::kMissing;
      left_ += entries_[i].state == State::kMissing ? 1 : 0;
    }
  }

  // INVALID_ARGUMENT when the source names a block that was not asked for, names one twice, or a place that is none.
  absl::Status Announce(const BlocksReady& ready);

  // Announced blocks that wait for a read.
  bool HasWork() const { return !waiting_.empty(); }
  // Takes up to `max_blocks` of them: their indices, and the ranges to copy, adjacent ones joined.
  std::vector<int32_t> TakeRead(int32_t max_blocks, std::vector<CopyRange>& ranges);

  // A read of these is done: checks their digests in `pool`. DATA_LOSS when one differed more than `max_rereads` times;
  // others that differ wait for another read.
  absl::Status Verify(absl::Span<const int32_t> indices, absl::Span<const uint8_t> pool, int32_t max_rereads);

  bool complete() const { return left_ == 0; }
  int32_t block_count() const { return static_cast<int32_t>(blocks_.size()); }

 private:
  enum class State : uint8_t { kMissing, kWaiting, kReading, kVerified };
  struct Entry {
    State state = State::kMissing;
    int32_t rereads = 0;
    uint64_t offset = 0;
    Digest128 digest;
  };

  uint64_t LocalOffset(int32_t index) const {
    return static_cast<uint64_t>(blocks_[static_cast<size_t>(index)]) * block_bytes_;
  }

  std::vector<BlockId> blocks_;
  std::vector<Entry> entries_;
  std::deque<int32_t> waiting_;
  int32_t left_;
  uint64_t block_bytes_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_FETCH_PROGRESS_H_
