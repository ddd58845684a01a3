// Bounds what all streams to clients hold because their clients do not read it. A stream that has to give way is
// broken: its call ends, and with it everything that it holds.
#ifndef BATON_ROUTER_UNREAD_OUTPUT_H_
#define BATON_ROUTER_UNREAD_OUTPUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/limits.h"

namespace baton::router {

struct UnreadOutputLimits {
  // Beyond this, the streams with the most are broken, one after the other.
  size_t total_bytes = kMaxUnreadOutputBytesOfAll;
  // Streams whose job has ended. Beyond this, the one that ended first is broken.
  size_t ended_streams = kMaxUnreadEndedStreams;
  // How long after the end of its job a stream may stay unread.
  int64_t ended_ms = kMaxUnreadEndedMs;
};

// Thread-safe.
class UnreadOutput {
 public:
  class Stream {
   public:
    virtual ~Stream() = default;
    // Ends the call at once, whatever is still to be written. Called at most once, with a lock held that Remove needs.
    virtual void Break() = 0;

   private:
    friend class UnreadOutput;
    std::atomic<int64_t> bytes_{0};
  };

  // `clock` outlives it.
  UnreadOutput(const UnreadOutputLimits& limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  // The stream lives until Remove has returned.
  void Add(Stream& stream) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(Stream& stream) ABSL_LOCKS_EXCLUDED(mutex_);

  // What the stream holds has grown or shrunk. Costs two additions; breaks nobody.
  void Count(Stream& stream, int64_t bytes) {
    stream.bytes_.fetch_add(bytes, std::memory_order_relaxed);
    total_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Breaks the worst streams while all hold too much. The caller holds no lock that a stream's calls need.
  void Enforce() ABSL_LOCKS_EXCLUDED(mutex_) {
    if (total_.load(std::memory_order_relaxed) > static_cast<int64_t>(limits_.total_bytes)) BreakTheWorst();
  }

  // The stream's job has ended, so that only the client keeps the stream. Does nothing after Remove.
  void Ended(Stream& stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // Breaks the streams that ended too long ago. To be called a few times in `ended_ms`.
  void Sweep() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until no stream is left whose job has ended, at most for the time. How many are left.
  size_t AwaitRead(int64_t timeout_ms) ABSL_LOCKS_EXCLUDED(mutex_);
  // What all streams hold now, and how many there are.
  int64_t total_bytes() const { return total_.load(std::memory_order_relaxed); }
  size_t stream_count() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return streams_.size();
  }
  // Returns when all streams have been removed.
  void AwaitNone() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct EndedStream {
    Stream* stream;
    TimeNs at;
  };
  using EndedList = std::list<EndedStream>;
  struct Entry {
    bool broken = false;
    EndedList::iterator ended = {};
    bool has_ended = false;
  };

  bool HasNone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return streams_.empty(); }
  bool AllRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_.empty(); }
  void BreakTheWorst() ABSL_LOCKS_EXCLUDED(mutex_);
  void Break(Stream& stream, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The end of a broken stream is no longer waited for.
  void Forget(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UnreadOutputLimits limits_;
  const Clock& clock_;
  std::atomic<int64_t> total_{0};
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Stream*, Entry> streams_ ABSL_GUARDED_BY(mutex_);
  // Oldest first.
  EndedList ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::router

#endif  // BATON_ROUTER_UNREAD_OUTPUT_H_
