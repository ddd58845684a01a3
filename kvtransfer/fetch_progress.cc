#include "kvtransfer/fetch_progress.h"

#include "absl/strings/str_cat.h"

namespace baton::kvtransfer {

absl::Status FetchProgress::Announce(const BlocksReady& ready) {
  for (const BlockReady& block : ready.blocks) {
    if (block.index < 0 || block.index >= block_count() ||
        entries_[static_cast<size_t>(block.index)].state != State::kMissing) {
      return absl::InvalidArgumentError(absl::StrCat("the source announced block ", block.index, " out of turn"));
    }
    if (block.offset % block_bytes_ != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the source places a block at ", block.offset));
    }
    Entry& entry = entries_[static_cast<size_t>(block.index)];
    entry.state = State::kWaiting;
    entry.offset = block.offset;
    entry.digest = block.digest;
    waiting_.push_back(block.index);
  }
  return absl::OkStatus();
}

std::vector<int32_t> FetchProgress::TakeRead(int32_t max_blocks, std::vector<CopyRange>& ranges) {
  std::vector<int32_t> indices;
  while (!waiting_.empty() && static_cast<int32_t>(indices.size()) < max_blocks) {
    const int32_t index = waiting_.front();
    waiting_.pop_front();
    Entry& entry = entries_[static_cast<size_t>(index)];
    entry.state = State::kReading;
    indices.push_back(index);
    const CopyRange range{.remote_offset = entry.offset, .local_offset = LocalOffset(index), .bytes = block_bytes_};
    if (!ranges.empty() && ranges.back().remote_offset + ranges.back().bytes == range.remote_offset &&
        ranges.back().local_offset + ranges.back().bytes == range.local_offset) {
      ranges.back().bytes += range.bytes;
    } else {
      ranges.push_back(range);
    }
  }
  return indices;
}

absl::Status FetchProgress::Verify(absl::Span<const int32_t> indices, absl::Span<const uint8_t> pool,
                                   int32_t max_rereads) {
  for (int32_t index : indices) {
    Entry& entry = entries_[static_cast<size_t>(index)];
    if (DigestBytes(pool.data() + LocalOffset(index), block_bytes_) == entry.digest) {
      entry.state = State::kVerified;
      --left_;
      continue;
    }
    if (++entry.rereads > max_rereads) {
      return absl::DataLossError(absl::StrCat("KV block ", index, " arrived changed ", entry.rereads, " times"));
    }
    entry.state = State::kWaiting;
    waiting_.push_back(index);
  }
  return absl::OkStatus();
}

}  // namespace baton::kvtransfer
