// What both ends of a pair agree on, and what gRPC's threads leave of a pair's stream for the thread that polls.
#ifndef BATON_KVTRANSFER_TRANSPORTS_NCCL_PAIR_WIRE_H_
#define BATON_KVTRANSFER_TRANSPORTS_NCCL_PAIR_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace baton::kvtransfer {

// The most bytes and ranges of one piece, and the most pieces of a pair that are asked for and have not come. Each
// range is an operation of NCCL, each piece a group of them. Together they bound what a withdrawn grant has to wait
// for.
inline constexpr uint64_t kPairPieceBytes = 4u << 20;
inline constexpr size_t kPairPieceRanges = 256;
inline constexpr size_t kMaxPairPieces = 4;

// Any thread may call it.
template <typename Message>
class PairInbox {
 public:
  // False when the peer has sent more than it may.
  bool Put(Message message) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (messages_.size() >= kMaxMessages) return false;
    messages_.push_back(std::move(message));
    return true;
  }
  std::optional<Message> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (messages_.empty()) return std::nullopt;
    Message message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

  // The peer broke a rule, or closed its side. The first reason counts.
  void Break(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!broken_.has_value()) broken_ = why;
  }
  // gRPC calls nothing any more. `wake` is called under the lock: whoever sees the end may destroy what it wakes.
  void End(const absl::Status& why, const std::function<void()>& wake) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!broken_.has_value()) broken_ = why;
    has_ended_ = true;
    wake();
  }
  std::optional<absl::Status> broken() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return broken_;
  }
  bool has_ended() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return has_ended_;
  }
  void AwaitEnd() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&has_ended_));
  }

 private:
  // Those of the pieces, and the one that comes first.
  static constexpr size_t kMaxMessages = kMaxPairPieces + 1;

  mutable absl::Mutex mutex_;
  std::deque<Message> messages_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> broken_ ABSL_GUARDED_BY(mutex_);
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_NCCL_PAIR_WIRE_H_
