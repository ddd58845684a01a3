// A bounded queue from many threads to one owner thread.
#ifndef BATON_COMMON_MAILBOX_H_
#define BATON_COMMON_MAILBOX_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace baton {

// Any thread may call Post; only the owner may call Take and Wait.
template <typename Event>
class Mailbox {
 public:
  explicit Mailbox(size_t capacity) : capacity_(capacity) {}

  // False when the mailbox is full or closed; the owner then never sees the event.
  [[nodiscard]] bool Post(Event event) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (closed_ || events_.size() >= capacity_) return false;
    events_.push_back(std::move(event));
    return true;
  }

  // Waits for room and returns false when the mailbox is closed. The owner must not call it: it would wait for itself.
  bool PostWhenRoom(Event event) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Mailbox::HasRoomOrClosed));
    if (closed_) return false;
    events_.push_back(std::move(event));
    return true;
  }

  // All waiting events, oldest first. Does not block.
  std::vector<Event> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return std::exchange(events_, {});
  }

  // Blocks until an event waits, the mailbox is closed, or `timeout_ns` has passed.
  void Wait(int64_t timeout_ns) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &Mailbox::Ready), absl::Nanoseconds(timeout_ns));
  }

  // Later posts are refused; waiting events can still be taken.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

  bool closed() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return closed_;
  }

 private:
  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !events_.empty(); }

  bool HasRoomOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || events_.size() < capacity_; }

  const size_t capacity_;
  mutable absl::Mutex mutex_;
  std::vector<Event> events_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton

#endif  // BATON_COMMON_MAILBOX_H_
