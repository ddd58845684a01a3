#include "kvtransfer/pulled_blocks.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "kvtransfer/read_ranges.h"

namespace baton::kvtransfer {

absl::Status BrokenRules(std::string_view what) {
  return absl::InternalError(absl::StrCat("the prefill worker broke the hand-off's rules: ", ToAbsl(what)));
}

PulledBlocks::PulledBlocks(std::vector<BlockId> destinations, int32_t first_block, uint64_t block_bytes)
    : destinations_(std::move(destinations)),
      first_block_(first_block),
      block_bytes_(block_bytes),
      blocks_(destinations_.size()),
      awaited_(count() - first_block),
      unverified_(awaited_) {}

absl::Status PulledBlocks::Announce(const BlocksReady& announced) {
  // Before the loop: the message may be huge.
  if (announced.blocks.size() > static_cast<size_t>(awaited_)) {
    return BrokenRules(absl::StrCat(announced.blocks.size(), " blocks are ready, ", awaited_, " are awaited"));
  }
  for (const BlockReady& one : announced.blocks) {
    BATON_RETURN_IF_ERROR(Check(one));
    Block& block = blocks_[static_cast<size_t>(one.index)];
    block.state = State::kReady;
    block.remote_offset = one.offset;
    block.digest = one.digest;
    --awaited_;
    ready_.push_back(one.index);
  }
  return absl::OkStatus();
}

absl::Status PulledBlocks::Check(const BlockReady& announced) const {
  if (announced.index < first_block_ || announced.index >= count()) {
    return BrokenRules(
        absl::StrCat("block ", announced.index, " is ready, ", first_block_, " to ", count() - 1, " were asked for"));
  }
  if (blocks_[static_cast<size_t>(announced.index)].state != State::kAwaited) {
    return BrokenRules(absl::StrCat("block ", announced.index, " is ready twice"));
  }
  if (announced.offset % block_bytes_ != 0 || announced.offset > std::numeric_limits<uint64_t>::max() - block_bytes_) {
    return BrokenRules(absl::StrCat("block ", announced.index, " lies at offset ", announced.offset));
  }
  return absl::OkStatus();
}

std::vector<int32_t> PulledBlocks::TakeRead(int32_t max_blocks, std::vector<CopyRange>& ranges) {
  const auto end = ready_.begin() + std::min(static_cast<ptrdiff_t>(ready_.size()), static_cast<ptrdiff_t>(max_blocks));
  std::vector<int32_t> indices(ready_.begin(), end);
  ready_.erase(ready_.begin(), end);
  ranges.clear();
  for (int32_t index : indices) {
    Block& block = blocks_[static_cast<size_t>(index)];
    block.state = State::kReading;
    ranges.push_back({block.remote_offset, LocalOffset(index), block_bytes_});
  }
  ranges = Coalesce(ranges);
  return indices;
}

absl::Status PulledBlocks::Verify(absl::Span<const int32_t> indices, const KvPool& pool, int32_t max_rereads) {
  for (int32_t index : indices) {
    Block& block = blocks_[static_cast<size_t>(index)];
    if (pool.Digest(destinations_[static_cast<size_t>(index)]) == block.digest) {
      block.state = State::kVerified;
      --unverified_;
      continue;
    }
    ++damaged_;
    if (block.rereads >= max_rereads) {
      return absl::DataLossError(
          absl::StrCat("block ", index, " differs from its digest after ", block.rereads + 1, " reads"));
    }
    ++block.rereads;
    block.state = State::kReady;
    ready_.push_front(index);
  }
  return absl::OkStatus();
}

int64_t PulledBlocks::verified_bytes() const {
  return static_cast<int64_t>(count() - first_block_ - unverified_) * static_cast<int64_t>(block_bytes_);
}

uint64_t PulledBlocks::LocalOffset(int32_t index) const {
  return static_cast<uint64_t>(destinations_[static_cast<size_t>(index)]) * block_bytes_;
}

}  // namespace baton::kvtransfer
