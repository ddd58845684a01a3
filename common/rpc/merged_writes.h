// What waits to be written to a gRPC stream, which takes one write at a time: all that is said while a write is in
// flight is merged into one message. A busy stream so costs one message and one system call a round, however much is
// said.
#ifndef BATON_COMMON_RPC_MERGED_WRITES_H_
#define BATON_COMMON_RPC_MERGED_WRITES_H_

#include <cstddef>

namespace baton::rpc {

// Not thread-safe: the stream's lock guards it.
template <typename Message>
class MergedWrites {
 public:
  // At most `max_bytes` may wait, besides the write in flight.
  explicit MergedWrites(size_t max_bytes) : max_bytes_(max_bytes) {}

  // `fill(message)` adds at most `bytes` to the message that waits. False when more than the bound would wait: then
  // nothing is added.
  template <typename Fill>
  bool Add(size_t bytes, Fill fill) {
    if (bytes > max_bytes_ - waiting_bytes_) return false;
    waiting_bytes_ += bytes;
    waits_ = true;
    fill(waiting_);
    return true;
  }

  // Passes the message that waits, if there is one and no write is in flight, to `write(message)`, which starts a
  // write.
  template <typename Write>
  void WriteNext(Write write) {
    if (writing_ || !waits_) return;
    writing_ = true;
    waits_ = false;
    write(waiting_);
    // The memory of a small message serves the next one.
    if (waiting_bytes_ > kKeptBytes) {
      waiting_ = Message();
    } else {
      waiting_.Clear();
    }
    waiting_bytes_ = 0;
  }

  void WriteDone() { writing_ = false; }
  bool writing() const { return writing_; }

 private:
  static constexpr size_t kKeptBytes = size_t{256} << 10;

  const size_t max_bytes_;
  Message waiting_;
  size_t waiting_bytes_ = 0;
  bool waits_ = false;
  bool writing_ = false;
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_MERGED_WRITES_H_
