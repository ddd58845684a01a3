// Requests of which a worker died while nothing else was in its step. For a while they are refused, so that a client
// that sends one of them again does not kill the next worker.
#ifndef BATON_ROUTER_POISONED_REQUESTS_H_
#define BATON_ROUTER_POISONED_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "common/clock.h"
#include "common/digest.h"
#include "router/job.h"

namespace baton::router {

// Used by one thread, the router's loop.
class PoisonedRequests {
 public:
  static constexpr int64_t kRefusalMs = 600'000;
  // Beyond it the oldest is forgotten.
  static constexpr size_t kMaxKept = 1024;

  // `clock` outlives it.
  explicit PoisonedRequests(const Clock& clock) : clock_(clock) {}

  void Add(const JobSpec& job);
  // Whether a request with this prompt and these sampling parameters, whatever its seed, is refused.
  bool Contains(const JobSpec& job);

 private:
  const Clock& clock_;
  // Oldest first: until when, and what.
  std::deque<std::pair<TimeNs, Digest128>> refused_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_POISONED_REQUESTS_H_
