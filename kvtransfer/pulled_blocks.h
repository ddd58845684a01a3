// The blocks of one prompt on their way in: which the source has announced, which are being read, which are verified.
// What the source says is checked here before anything believes it.
//
//   kAwaited --Announce--> kReady --TakeRead--> kReading --the last read ends, digests equal--> kVerified
//                             ^---------------------'  digests differ: at most max_rereads times a block
//
// As far as a block is begun, it is read while it is still kAwaited. What is left is read when it is kReady; where
// nothing is left, it is kReading at once. The digest is of the whole block, so it also finds what was read too early;
// then the whole block is read again.
#ifndef BATON_KVTRANSFER_PULLED_BLOCKS_H_
#define BATON_KVTRANSFER_PULLED_BLOCKS_H_

#include <cstdint>
#include <deque>
#include <set>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/digest.h"
#include "common/kv_layout.h"
#include "common/kv_pool.h"
#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// Used by the sink's thread alone.
class PulledBlocks {
 public:
  PulledBlocks() = default;
  // `destinations` has a block of this worker's pool for every block of the prompt; all have `block_bytes`. The blocks
  // before `first_block` are in place already.
  PulledBlocks(std::vector<BlockId> destinations, int32_t first_block, uint64_t block_bytes);

  // INTERNAL when the source names a block that was not asked for, names a block twice, or names an offset at which no
  // block begins, or another one than before.
  absl::Status Announce(const BlocksReady& announced);
  // INTERNAL likewise, and when a beginning is not longer than the one before.
  absl::Status Begin(const BlocksBegun& begun);

  bool HasReady() const { return !ready_.empty() || !begun_.empty(); }
  // Takes at most `max_blocks` blocks for one read, ready ones first: their indices, and the ranges of them that no
  // read was taken for. Ranges that touch at both ends are joined.
  std::vector<int32_t> TakeRead(int32_t max_blocks, std::vector<CopyRange>& ranges);
  // Nothing more will be read.
  void DropReady() {
    ready_.clear();
    begun_.clear();
  }

  // A read of `indices` has ended well.
  void EndRead(absl::Span<const int32_t> indices);
  // Whether there are ready blocks that are here as a whole, and not verified.
  bool HasWhole() const { return !whole_.empty(); }
  // Verifies them. DATA_LOSS when a block has differed from its digest more than `max_rereads` times.
  absl::Status Verify(const KvPool& pool, int32_t max_rereads);

  // Blocks of the whole prompt.
  int32_t count() const { return static_cast<int32_t>(destinations_.size()); }
  // Blocks that are not announced yet.
  int32_t awaited() const { return awaited_; }
  int32_t unverified() const { return unverified_; }
  int64_t verified_bytes() const;
  // How often a block that was read differed from its digest.
  int32_t damaged() const { return damaged_; }
  // Bytes of verified blocks for which reads were taken before the blocks were ready.
  int64_t early_bytes() const { return early_bytes_; }

 private:
  enum class State : uint8_t { kAwaited, kReady, kReading, kVerified };
  struct Block {
    State state = State::kAwaited;
    int32_t rereads = 0;
    int32_t reads_in_flight = 0;
    uint64_t remote_offset = 0;
    // The beginning that the source has named; 0: it has named nothing of the block.
    uint64_t begun_bytes = 0;
    // The beginning for which reads were taken, and how much of it before the block was ready.
    uint64_t taken_bytes = 0;
    uint64_t early_bytes = 0;
    Digest128 digest;
  };

  absl::Status Check(int32_t index, uint64_t offset) const;
  // What TakeRead reads of the block next.
  CopyRange Take(int32_t index);
  absl::Status VerifyOne(int32_t index, const Digest128& digest, int32_t max_rereads);
  uint64_t LocalOffset(int32_t index) const;

  std::vector<BlockId> destinations_;
  int32_t first_block_ = 0;
  uint64_t block_bytes_ = 0;
  // By index within the prompt; those before first_block_ stay unused.
  std::vector<Block> blocks_;
  int32_t awaited_ = 0;
  int32_t unverified_ = 0;
  int32_t damaged_ = 0;
  int64_t early_bytes_ = 0;
  // Indices in kReady, in the order of reading.
  std::deque<int32_t> ready_;
  // Indices in kAwaited of which more is begun than taken.
  std::set<int32_t> begun_;
  // Indices in kReading without a read in flight.
  std::vector<int32_t> whole_;
};

// The error for anything that a source says and the hand-off does not allow.
absl::Status BrokenRules(std::string_view what);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_PULLED_BLOCKS_H_
