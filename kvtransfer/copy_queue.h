// Reads of memory that this process can see, done by our own copy in slices: several reads take turns, and a Poll stays
// short. Used by one thread.
#ifndef BATON_KVTRANSFER_COPY_QUEUE_H_
#define BATON_KVTRANSFER_COPY_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// How many bytes one read copies before the next read has its turn, and how many one Poll copies: about 100 us at
// 10 GB/s.
inline constexpr size_t kCopySliceBytes = 256u << 10;
inline constexpr size_t kCopyPollBytes = 1u << 20;

struct CopyJob {
  ReadId read = 0;
  PeerId peer = 0;
  // First bytes of the two regions. Both stay mapped until the read has completed or CancelPeer has returned.
  const uint8_t* remote = nullptr;
  uint8_t* local = nullptr;
  // Checked and coalesced.
  std::vector<CopyRange> ranges;
};

class CopyQueue {
 public:
  void Add(CopyJob job);

  // Copies at most kCopyPollBytes and appends the reads that have completed.
  void Poll(std::vector<ReadCompletion>& completions);

  // The peer's reads complete with CANCELLED in the next Poll; none of their bytes is touched from here on.
  void CancelPeer(PeerId peer);

  // Reads that have not been reported yet.
  size_t in_flight() const { return active_.size() + cancelled_.size(); }
  // How many copies of this peer have not ended.
  size_t in_flight(PeerId peer) const;

 private:
  struct Active {
    CopyJob job;
    size_t next_range = 0;
    // Bytes of that range that are copied already.
    uint64_t done_bytes = 0;
  };

  // Returns the bytes copied, at most `limit`.
  static size_t CopySlice(Active& active, size_t limit);

  std::deque<Active> active_;
  std::vector<ReadId> cancelled_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_COPY_QUEUE_H_
