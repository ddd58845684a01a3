#include "kvtransfer/pulled_blocks.h"

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
    BATON_RETURN_IF_ERROR(Check(one.index, one.offset));
    Block& block = blocks_[static_cast<size_t>(one.index)];
    block.state = State::kReady;
    block.remote_offset = one.offset;
    block.digest = one.digest;
    --awaited_;
    begun_.erase(one.index);
    if (block.taken_bytes < block_bytes_) {
      ready_.push_back(one.index);
    } else {
      block.state = State::kReading;
      if (block.reads_in_flight == 0) whole_.push_back(one.index);
    }
  }
  return absl::OkStatus();
}

absl::Status PulledBlocks::Begin(const BlocksBegun& begun) {
  for (const BlockBegun& one : begun.blocks) {
    BATON_RETURN_IF_ERROR(Check(one.index, one.offset));
    Block& block = blocks_[static_cast<size_t>(one.index)];
    if (one.bytes <= block.begun_bytes || one.bytes > block_bytes_) {
      return BrokenRules(absl::StrCat("block ", one.index, " of ", block_bytes_, " bytes is begun with ", one.bytes,
                                      ", after ", block.begun_bytes));
    }
    block.remote_offset = one.offset;
    block.begun_bytes = one.bytes;
    begun_.insert(one.index);
  }
  return absl::OkStatus();
}

absl::Status PulledBlocks::Check(int32_t index, uint64_t offset) const {
  if (index < first_block_ || index >= count()) {
    return BrokenRules(
        absl::StrCat("block ", index, " is named, ", first_block_, " to ", count() - 1, " were asked for"));
  }
  const Block& block = blocks_[static_cast<size_t>(index)];
  if (block.state != State::kAwaited) return BrokenRules(absl::StrCat("block ", index, " is named again"));
  if (offset % block_bytes_ != 0 || offset > std::numeric_limits<uint64_t>::max() - block_bytes_ ||
      (block.begun_bytes > 0 && offset != block.remote_offset)) {
    return BrokenRules(absl::StrCat("block ", index, " lies at offset ", offset));
  }
  return absl::OkStatus();
}

std::vector<int32_t> PulledBlocks::TakeRead(int32_t max_blocks, std::vector<CopyRange>& ranges) {
  std::vector<int32_t> indices;
  ranges.clear();
  while (static_cast<int32_t>(indices.size()) < max_blocks && HasReady()) {
    int32_t index = 0;
    if (!ready_.empty()) {
      index = ready_.front();
      ready_.pop_front();
    } else {
      index = begun_.extract(begun_.begin()).value();
    }
    indices.push_back(index);
    ranges.push_back(Take(index));
  }
  ranges = Coalesce(ranges);
  return indices;
}

CopyRange PulledBlocks::Take(int32_t index) {
  Block& block = blocks_[static_cast<size_t>(index)];
  const bool is_ready = block.state == State::kReady;
  const uint64_t begin = block.taken_bytes;
  block.taken_bytes = is_ready ? block_bytes_ : block.begun_bytes;
  const uint64_t bytes = block.taken_bytes - begin;
  if (is_ready) {
    block.state = State::kReading;
  } else {
    block.early_bytes = block.taken_bytes;
  }
  ++block.reads_in_flight;
  return {.remote_offset = block.remote_offset + begin, .local_offset = LocalOffset(index) + begin, .bytes = bytes};
}

void PulledBlocks::EndRead(absl::Span<const int32_t> indices) {
  for (int32_t index : indices) {
    Block& block = blocks_[static_cast<size_t>(index)];
    if (--block.reads_in_flight == 0 && block.state == State::kReading) whole_.push_back(index);
  }
}

absl::Status PulledBlocks::Verify(const KvPool& pool, int32_t max_rereads) {
  const std::vector<int32_t> whole = std::exchange(whole_, {});
  std::vector<BlockId> destinations;
  destinations.reserve(whole.size());
  for (const int32_t index : whole) destinations.push_back(destinations_[static_cast<size_t>(index)]);
  const std::vector<Digest128> digests = pool.Digests(destinations);
  for (size_t i = 0; i < whole.size(); ++i) BATON_RETURN_IF_ERROR(VerifyOne(whole[i], digests[i], max_rereads));
  return absl::OkStatus();
}

absl::Status PulledBlocks::VerifyOne(int32_t index, const Digest128& digest, int32_t max_rereads) {
  Block& block = blocks_[static_cast<size_t>(index)];
  if (digest == block.digest) {
    block.state = State::kVerified;
    --unverified_;
    early_bytes_ += static_cast<int64_t>(block.early_bytes);
    return absl::OkStatus();
  }
  ++damaged_;
  if (block.rereads >= max_rereads) {
    return absl::DataLossError(
        absl::StrCat("block ", index, " differs from its digest after ", block.rereads + 1, " reads"));
  }
  ++block.rereads;
  block.taken_bytes = 0;
  block.early_bytes = 0;
  block.state = State::kReady;
  ready_.push_front(index);
  return absl::OkStatus();
}

int64_t PulledBlocks::verified_bytes() const {
  return static_cast<int64_t>(count() - first_block_ - unverified_) * static_cast<int64_t>(block_bytes_);
}

uint64_t PulledBlocks::LocalOffset(int32_t index) const {
  return static_cast<uint64_t>(destinations_[static_cast<size_t>(index)]) * block_bytes_;
}

}  // namespace baton::kvtransfer
