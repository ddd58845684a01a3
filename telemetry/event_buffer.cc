#include "telemetry/event_buffer.h"

#include <utility>

namespace baton::telemetry {

EventBuffer::EventBuffer(size_t max_unread_bytes, std::function<void()> wake)
    : max_unread_bytes_(max_unread_bytes), wake_(std::move(wake)) {}

bool EventBuffer::Write(std::string text) {
  const absl::MutexLock lock(&mutex_);
  if (state_ != State::kOpen) return false;
  if (text.size() > max_unread_bytes_ - unread_bytes_) {
    state_ = State::kBroken;
    // The connection may be in a write that never ends, before which it takes no more text.
    is_woken_ = false;
    Wake();
    return false;
  }
  unread_bytes_ += text.size();
  if (waiting_.empty()) {
    waiting_ = std::move(text);
  } else {
    waiting_ += text;
  }
  Wake();
  return true;
}

bool EventBuffer::closed() const { return state() != State::kOpen; }

void EventBuffer::Close() {
  const absl::MutexLock lock(&mutex_);
  if (state_ != State::kOpen) return;
  state_ = State::kEnding;
  Wake();
}

EventBuffer::State EventBuffer::state() const {
  const absl::MutexLock lock(&mutex_);
  return state_;
}

std::string EventBuffer::Take() {
  const absl::MutexLock lock(&mutex_);
  is_woken_ = false;
  return std::exchange(waiting_, {});
}

void EventBuffer::Sent(size_t bytes) {
  const absl::MutexLock lock(&mutex_);
  unread_bytes_ -= bytes;
}

void EventBuffer::Break() {
  const absl::MutexLock lock(&mutex_);
  state_ = State::kBroken;
  wake_ = nullptr;
  waiting_.clear();
}

void EventBuffer::Wake() {
  if (is_woken_ || wake_ == nullptr) return;
  is_woken_ = true;
  wake_();
}

}  // namespace baton::telemetry
