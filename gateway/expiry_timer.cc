#include "gateway/expiry_timer.h"

#include <chrono>
#include <utility>

namespace baton::gateway {

ExpiryTimer::ExpiryTimer(boost::asio::io_context& io, std::function<void()> on_expired)
    : timer_(io), on_expired_(std::move(on_expired)) {}

void ExpiryTimer::ExpireAfter(int64_t ms) {
  expires_ = After(MonotonicClock().Now(), ms);
  if (expires_ < fires_) Arm();
}

void ExpiryTimer::Cancel() {
  ExpireNever();
  timer_.cancel();
}

void ExpiryTimer::Arm() {
  fires_ = expires_;
  timer_.expires_after(std::chrono::nanoseconds(expires_ - MonotonicClock().Now()));
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const std::shared_ptr<ExpiryTimer> self = weak.lock();
    if (!error && self != nullptr) self->OnFired();
  });
}

void ExpiryTimer::OnFired() {
  fires_ = kNever;
  if (expires_ == kNever) return;
  if (MonotonicClock().Now() < expires_) return Arm();
  on_expired_();
}

}  // namespace baton::gateway
