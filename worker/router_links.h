// A worker's links to all its routers, one each. The worker is a member of each by itself, and each hears of its own
// jobs. What the process as a whole says and hears is put together here.
//
//   event                                      | what follows
//   -------------------------------------------+------------------------------------------------------------------------
//   a first router can give the worker jobs    | on_serving(true)
//   no router can any more                     | on_serving(false)
//   any router orders a drain                  | on_drain_ordered; Drain then tells every router
//   every member has heard of the fault of     | on_fault_told
//   which the process dies                     |
#ifndef BATON_WORKER_ROUTER_LINKS_H_
#define BATON_WORKER_ROUTER_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/router_link.h"
#include "worker/worker_calls.h"

namespace baton::worker {

// Owns the threads of its links from Start until Stop.
class RouterLinks {
 public:
  // `link` is for all of them but for its router_target; its on_serving, on_fault_told and on_drain_ordered are about
  // the worker as a whole, and come from any link's thread. `calls` has as many routers as there are `targets`, in
  // their order, and outlives the links.
  RouterLinks(const std::vector<std::string>& targets, RouterLink::Options link, WorkerCalls& calls);
  ~RouterLinks() { Stop(); }

  void Start();
  // As RouterLink::Drain, at every router.
  void Drain();
  void Stop();

  // Any thread. The routers that have accepted the worker and have not lost it, by their places in `targets`.
  std::vector<size_t> Members() const;
  // How often it was accepted.
  int64_t joins() const;

 private:
  struct Link {
    std::unique_ptr<RouterLink> link;
    // Both are guarded by mutex_.
    bool serving = false;
    bool told_fault = false;
  };

  void OnServing(Link& link, bool serving) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnFaultTold(Link& link) ABSL_LOCKS_EXCLUDED(mutex_);

  const RouterLink::Options options_;
  // Constant but for what is in the links.
  std::vector<std::unique_ptr<Link>> links_;
  absl::Mutex mutex_;
  int serving_links_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ROUTER_LINKS_H_
