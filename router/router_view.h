// What the router knows of itself and its workers, as its loop publishes it from time to time for the admin port:
// nobody who looks at the router makes its loop wait.
#ifndef BATON_ROUTER_ROUTER_VIEW_H_
#define BATON_ROUTER_ROUTER_VIEW_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "router/dispatcher.h"

namespace baton::router {

// How often the loop publishes.
inline constexpr int64_t kViewIntervalMs = 250;
// A loop that has published nothing for this long hangs.
inline constexpr int64_t kViewStaleMs = 5'000;

// A member, without its membership's id, which is a secret.
struct WorkerView {
  Incarnation incarnation;
  WorkerRole role = WorkerRole::kMixed;
  std::string address;
  // Empty: the worker has no admin port.
  std::string admin;
  std::string group;
  int64_t pid = 0;
  int32_t total_blocks = 0;
  WorkerLoad load;
  // As the block ledger says; 0 for a worker that has not reported.
  int64_t orphaned_blocks = 0;
  // It is slow, and gets only trials.
  bool ejected = false;

  bool decodes() const { return role != WorkerRole::kPrefill; }
};

struct RouterView {
  // When it was made.
  TimeNs at = 0;
  bool serving = false;
  // Why not; as AwaitedWorkers says it.
  std::string waits_for;
  int32_t queued_jobs = 0;
  int32_t running_jobs = 0;
  // They wait for their clients.
  int32_t paused_jobs = 0;
  std::vector<WorkerView> workers;
  MembershipCounts memberships;
  // Pairs of workers whose last hand-off failed.
  int64_t bad_pairs = 0;
  // Ejections of slow workers since the start, by role.
  std::array<int64_t, kWorkerRoles.size()> ejections = {};
  // Canaries that have ended since the start, by outcome.
  CanaryCounts canaries = {};
  // CPU time of the loop's thread.
  int64_t loop_cpu_ns = 0;
};

RouterView MakeView(const Dispatcher& dispatcher, TimeNs now, int64_t loop_cpu_ns);

// Thread-safe.
class ViewBoard {
 public:
  void Publish(RouterView view) ABSL_LOCKS_EXCLUDED(mutex_) {
    auto latest = std::make_shared<const RouterView>(std::move(view));
    absl::MutexLock lock(&mutex_);
    latest_ = std::move(latest);
  }
  // An empty view when none was published.
  std::shared_ptr<const RouterView> Latest() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return latest_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const RouterView> latest_ ABSL_GUARDED_BY(mutex_) = std::make_shared<const RouterView>();
};

}  // namespace baton::router

#endif  // BATON_ROUTER_ROUTER_VIEW_H_
