// Bounds how long a call that may bring any number of requests stays open without one.
#ifndef BATON_ROUTER_OPEN_CALLS_H_
#define BATON_ROUTER_OPEN_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"

namespace baton::router {

// Thread-safe.
//
// a call is | SetBusy          | SetIdle                | idle for too long, and Sweep
// idle      | busy             | -                      | EndIdle; it counts as busy until SetIdle
// busy      | -                | idle from now on       | -
class OpenCalls {
 public:
  class Stream {
   public:
    virtual ~Stream() = default;
    // Ends the call at once. Comes with a lock held that all methods below need, and so takes no lock that is held
    // when these are called.
    virtual void EndIdle() = 0;
  };

  // `clock` outlives it.
  OpenCalls(int64_t max_idle_ms, const Clock& clock) : max_idle_ms_(max_idle_ms), clock_(clock) {}

  // The call is open, and idle from now on.
  void Begin(Stream& call) ABSL_LOCKS_EXCLUDED(mutex_);
  // The call has a request.
  void SetBusy(Stream& call) ABSL_LOCKS_EXCLUDED(mutex_);
  // The call has none any more.
  void SetIdle(Stream& call) ABSL_LOCKS_EXCLUDED(mutex_);
  // A call, busy before, is gone.
  void End() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the calls that have been idle for too long. To be called a few times in that time.
  void Sweep() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until no call is open, at most for the time. How many are left.
  size_t AwaitNone(int64_t timeout_ms) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when no call is open.
  void AwaitNone() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct IdleCall {
    Stream* call;
    TimeNs since;
  };
  using IdleList = std::list<IdleCall>;

  bool HasNone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ == 0; }
  void AddIdle(Stream& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_idle_ms_;
  const Clock& clock_;
  absl::Mutex mutex_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  // The one that has been idle for longest comes first.
  IdleList idle_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Stream*, IdleList::iterator> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::router

#endif  // BATON_ROUTER_OPEN_CALLS_H_
