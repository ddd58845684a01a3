#include "kvtransfer/copy_queue.h"

#include <algorithm>
#include <utility>

#include "kvtransfer/stream_copy.h"

namespace baton::kvtransfer {

void CopyQueue::Add(CopyJob job) { active_.push_back(Active{.job = std::move(job)}); }

size_t CopyQueue::CopySlice(Active& active, size_t limit) {
  size_t copied = 0;
  while (copied < limit && active.next_range < active.job.ranges.size()) {
    const CopyRange& range = active.job.ranges[active.next_range];
    const size_t bytes = std::min<uint64_t>(limit - copied, range.bytes - active.done_bytes);
    StreamCopy(active.job.local + range.local_offset + active.done_bytes,
               active.job.remote + range.remote_offset + active.done_bytes, bytes);
    copied += bytes;
    active.done_bytes += bytes;
    if (active.done_bytes == range.bytes) {
      ++active.next_range;
      active.done_bytes = 0;
    }
  }
  return copied;
}

void CopyQueue::Poll(std::vector<ReadCompletion>& completions) {
  for (ReadId read : cancelled_) completions.push_back({read, absl::CancelledError("the peer was disconnected")});
  cancelled_.clear();
  size_t budget = kCopyPollBytes;
  while (budget > 0 && !active_.empty()) {
    Active& active = active_.front();
    budget -= CopySlice(active, std::min(budget, kCopySliceBytes));
    if (active.next_range == active.job.ranges.size()) {
      completions.push_back({active.job.read, absl::OkStatus()});
      active_.pop_front();
    } else {
      active_.push_back(std::move(active));
      active_.pop_front();
    }
  }
}

size_t CopyQueue::in_flight(PeerId peer) const {
  return static_cast<size_t>(
      std::count_if(active_.begin(), active_.end(), [&](const Active& active) { return active.job.peer == peer; }));
}

void CopyQueue::CancelPeer(PeerId peer) {
  std::erase_if(active_, [&](const Active& active) {
    if (active.job.peer != peer) return false;
    cancelled_.push_back(active.job.read);
    return true;
  });
}

}  // namespace baton::kvtransfer
