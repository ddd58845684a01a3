// When refused clients are asked to come back. Each is promised a time of its own, one behind the other at the pace at
// which the workers serve, so that those who come back find room instead of each other.
//
//   event               | the client is asked to come back
//   --------------------+---------------------------------------------------------------------------------------------
//   a refusal           | when there is room for it, and not before all that were promised a time have been served;
//                       | later by a random part of that wait, at most 1 / kJitterParts, so that clients spread whose
//                       | requests were refused at the same time
//   a wait beyond the   | after kMaxRetryAfterMs, and it keeps nobody else waiting
//   bound               |
//
// Nobody is made to come, so a promise holds no room: where new clients keep coming faster than the workers serve, some
// of those who come back are refused again.
#ifndef BATON_ROUTER_RETRY_PLAN_H_
#define BATON_ROUTER_RETRY_PLAN_H_

#include <cstdint>

#include "common/clock.h"
#include "common/random.h"

namespace baton::router {

// Both without the random part.
inline constexpr int64_t kMinRetryAfterMs = 50;
inline constexpr int64_t kMaxRetryAfterMs = 60'000;
inline constexpr int64_t kJitterParts = 4;

// Used by one thread.
class RetryPlan {
 public:
  // `random` outlives the plan.
  explicit RetryPlan(RandomSource& random) : random_(random) {}

  struct Refused {
    // How long there is no room for the client, as far as those who wait now are concerned.
    int64_t no_room_ns = 0;
    // How long the workers are kept from others by the client's request.
    int64_t service_ns = 0;
  };
  // Milliseconds after which the client is to come back.
  int64_t Promise(TimeNs now, const Refused& refused);

 private:
  RandomSource& random_;
  // All that were promised a time have been served by then.
  TimeNs promised_until_ = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_RETRY_PLAN_H_
