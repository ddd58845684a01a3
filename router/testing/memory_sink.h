// A client in memory: an adapter that keeps the events of one request. For tests.
#ifndef BATON_ROUTER_TESTING_MEMORY_SINK_H_
#define BATON_ROUTER_TESTING_MEMORY_SINK_H_

#include <cstddef>
#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/limits.h"
#include "router/generation.h"

namespace baton::router {

// Thread-safe.
class MemorySink final : public GenerationSink {
 public:
  // The client reads nothing, so events beyond `room` are dropped.
  explicit MemorySink(size_t room = kMaxUnreadOutputTokens) : room_(room) {}

  bool Write(GenerationEvent event) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (events_.size() >= room_ && !std::holds_alternative<GenerationFailed>(event)) return false;
    events_.push_back(std::move(event));
    return true;
  }
  bool cancelled() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }
  // What is there is too much for the client.
  void SetBehind() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    is_behind_ = true;
  }
  bool is_behind() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return is_behind_;
  }
  void SetCancelled() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
  }

  // All events so far, once `count` of them have come.
  std::vector<GenerationEvent> WaitForEvents(size_t count) const ABSL_LOCKS_EXCLUDED(mutex_) {
    const std::function<bool()> enough = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return events_.size() >= count; };
    return WaitUntil(enough);
  }
  // All events, once the last one has come.
  std::vector<GenerationEvent> WaitForEnd() const ABSL_LOCKS_EXCLUDED(mutex_) {
    const std::function<bool()> ended = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !events_.empty() && (std::holds_alternative<GenerationFinished>(events_.back()) ||
                                  std::holds_alternative<GenerationFailed>(events_.back()));
    };
    return WaitUntil(ended);
  }

 private:
  std::vector<GenerationEvent> WaitUntil(const std::function<bool()>& condition) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&condition, &std::function<bool()>::operator()));
    return events_;
  }

  const size_t room_;
  mutable absl::Mutex mutex_;
  std::vector<GenerationEvent> events_ ABSL_GUARDED_BY(mutex_);
  bool is_behind_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_MEMORY_SINK_H_
