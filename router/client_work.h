// The work that clients' messages cause before the router's loop hears of them: parsing, chat templates, tokenizing,
// and the text of Detokenize. It runs on threads of its own, nicer than all others of the router, so that no client can
// hold up gRPC's threads or the loop.
#ifndef BATON_ROUTER_CLIENT_WORK_H_
#define BATON_ROUTER_CLIENT_WORK_H_

#include <utility>

#include "common/clock.h"
#include "common/ids.h"
#include "common/limits.h"
#include "common/work_pool.h"

namespace baton::router {

// Requests of one lane run in the order in which they came. A small request therefore waits for the small ones before
// it, at most kMaxQueuedSmallRequestBytes of them (about a second of tokenizing), and never for a large one. A large
// one waits for at most kMaxQueuedLargeRequestBytes. Thread-safe.
class ClientWork {
 public:
  // `clock` outlives it.
  explicit ClientWork(const Clock& clock)
      : small_({.threads = kThreads, .nice = kSmallNice, .max_queued_bytes = kMaxQueuedSmallRequestBytes}, clock),
        large_({.threads = kThreads, .nice = kLargeNice, .max_queued_bytes = kMaxQueuedLargeRequestBytes}, clock) {}

  // `task.bytes` are those of the client's message. As WorkPool::Post and WorkPool::Drop.
  [[nodiscard]] bool Post(WorkTask task) {
    WorkPool& lane = task.bytes <= kMaxSmallRequestBytes ? small_ : large_;
    return lane.Post(std::move(task));
  }
  bool Drop(const Id128& id) { return small_.Drop(id) || large_.Drop(id); }
  // What waits in each lane.
  size_t queued_small_bytes() const { return small_.queued_bytes(); }
  size_t queued_large_bytes() const { return large_.queued_bytes(); }

 private:
  static constexpr int kThreads = 1;
  // Small requests are what the workers wait for; large ones may wait for everybody else.
  static constexpr int kSmallNice = 1;
  static constexpr int kLargeNice = 5;

  WorkPool small_;
  WorkPool large_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CLIENT_WORK_H_
