#include "cli/restart_policy.h"

#include <algorithm>

namespace baton::cli {
namespace {

// Beyond it the back-off is the longest one in any case.
constexpr int kMaxDoublings = 20;

}  // namespace

RestartPolicy::Action RestartPolicy::Tick(ChildHealth health) {
  const TimeNs now = clock_.Now();
  const int64_t tick_ns = last_tick_ == kNever ? 0 : std::min(now - last_tick_, kMaxTickMs * kNsPerMs);
  last_tick_ = now;
  switch (state_) {
    case State::kDown:
      if (now < start_at_) return Action::kNone;
      state_ = State::kLoading;
      was_ready_ = false;
      watched_ns_ = 0;
      return Action::kStart;
    case State::kLoading:
    case State::kServing: {
      CountWatched(health, tick_ns);
      const int64_t limit_ms = state_ == State::kLoading ? options_.ready_timeout_ms : options_.hung_timeout_ms;
      if (watched_ns_ < limit_ms * kNsPerMs) return Action::kNone;
      state_ = State::kKilled;
      return Action::kKill;
    }
    case State::kKilled:
      return Action::kNone;
  }
  return Action::kNone;
}

void RestartPolicy::CountWatched(ChildHealth health, int64_t tick_ns) {
  if (state_ == State::kLoading) {
    if (health != ChildHealth::kStopped) watched_ns_ += tick_ns;
  } else {
    watched_ns_ = health == ChildHealth::kAmiss ? watched_ns_ + tick_ns : 0;
  }
}

void RestartPolicy::OnReady() {
  if (state_ != State::kLoading) return;
  state_ = State::kServing;
  was_ready_ = true;
  deaths_before_ready_ = 0;
  watched_ns_ = 0;
}

void RestartPolicy::OnEnd() {
  if (state_ == State::kDown) return;
  state_ = State::kDown;
  backoff_ms_ = was_ready_ ? 0 : DrawBackoffMs();
  start_at_ = After(clock_.Now(), backoff_ms_);
}

int64_t RestartPolicy::DrawBackoffMs() {
  const int doublings = std::min(deaths_before_ready_++, kMaxDoublings);
  const int64_t most = std::min(options_.max_backoff_ms, options_.first_backoff_ms << doublings);
  return most / 2 + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(most - most / 2) + 1));
}

}  // namespace baton::cli
