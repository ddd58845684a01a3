// The time at which a connection ends unless something happens before. It is moved for every piece that is read or
// written, so moving it costs nothing: when the timer fires it looks whether the time has moved away.
#ifndef BATON_GATEWAY_EXPIRY_TIMER_H_
#define BATON_GATEWAY_EXPIRY_TIMER_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "common/clock.h"

namespace baton::gateway {

// Used by the thread of `io`. Its one owner holds it as a shared_ptr, and `on_expired` never runs after that is gone.
class ExpiryTimer : public std::enable_shared_from_this<ExpiryTimer> {
 public:
  ExpiryTimer(boost::asio::io_context& io, std::function<void()> on_expired);

  void ExpireAfter(int64_t ms);
  void ExpireNever() { expires_ = kNever; }
  // Lets go of the timer, too.
  void Cancel();

 private:
  void Arm();
  void OnFired();

  boost::asio::steady_timer timer_;
  const std::function<void()> on_expired_;
  TimeNs expires_ = kNever;
  TimeNs fires_ = kNever;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_EXPIRY_TIMER_H_
