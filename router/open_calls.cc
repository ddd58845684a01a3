#include "router/open_calls.h"

#include "absl/time/time.h"

namespace baton::router {

void OpenCalls::Begin(Stream& call) {
  const absl::MutexLock lock(&mutex_);
  ++count_;
  AddIdle(call);
}

void OpenCalls::SetBusy(Stream& call) {
  const absl::MutexLock lock(&mutex_);
  const auto it = places_.find(&call);
  if (it == places_.end()) return;
  idle_.erase(it->second);
  places_.erase(it);
}

void OpenCalls::SetIdle(Stream& call) {
  const absl::MutexLock lock(&mutex_);
  AddIdle(call);
}

void OpenCalls::AddIdle(Stream& call) {
  const auto [it, is_new] = places_.try_emplace(&call);
  if (is_new) it->second = idle_.insert(idle_.end(), {.call = &call, .since = clock_.Now()});
}

void OpenCalls::End() {
  const absl::MutexLock lock(&mutex_);
  --count_;
}

void OpenCalls::Sweep() {
  const absl::MutexLock lock(&mutex_);
  const TimeNs now = clock_.Now();
  while (!idle_.empty() && After(idle_.front().since, max_idle_ms_) <= now) {
    Stream& call = *idle_.front().call;
    places_.erase(&call);
    idle_.pop_front();
    call.EndIdle();
  }
}

size_t OpenCalls::AwaitNone(int64_t timeout_ms) {
  const absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &OpenCalls::HasNone), absl::Milliseconds(timeout_ms));
  return count_;
}

void OpenCalls::AwaitNone() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &OpenCalls::HasNone));
}

}  // namespace baton::router
