// A worker's links to all its routers, one each. The worker is a member of each by itself, and each hears of its own
// jobs. What the process as a whole says and hears is put together here. Routers may come and go: each link has a
// place, which another router takes over once it is no member there and nobody names it any more.
//
//   event                                      | what follows
//   -------------------------------------------+------------------------------------------------------------------------
//   a first router can give the worker jobs    | on_serving(true)
//   no router can any more                     | on_serving(false)
//   any router orders a drain                  | on_drain_ordered; Drain then tells every router
//   every member has heard of the fault of     | on_fault_told
//   which the process dies                     |
//   a router is named for the first time       | a link at a free place; without one the router is left out, with a
//                                              | warning
//   a router is not named any more             | its jobs go on; when the membership ends, nobody asks to join anew
#ifndef BATON_WORKER_ROUTER_LINKS_H_
#define BATON_WORKER_ROUTER_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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
  // the worker as a whole, and come from any link's thread. There is a place for each router of `calls`, which outlives
  // the links and the tasks that they post.
  RouterLinks(RouterLink::Options link, WorkerCalls& calls) : options_(std::move(link)), calls_(calls) {
    links_.resize(calls.routers());
  }
  ~RouterLinks() { Stop(); }

  // host:port of all routers from now on, without duplicates. One thread calls it; may wait for a link to end that is
  // apart.
  void Follow(const std::vector<std::string>& targets) ABSL_LOCKS_EXCLUDED(mutex_);
  // As RouterLink::Drain, at every router.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);
  // No other call goes on meanwhile or follows.
  void Stop();

  // Any thread. The places of the routers that have accepted the worker and have not lost it, as WorkerCalls numbers
  // them.
  std::vector<size_t> Members() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How often it was accepted.
  int64_t joins() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The routers that were named last, for people.
  std::string Names() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Link {
    std::string target;
    std::unique_ptr<RouterLink> link;
    // The three are guarded by mutex_.
    bool wanted = true;
    bool serving = false;
    bool told_fault = false;
  };

  std::unique_ptr<Link> MakeLink(const std::string& target, size_t place);
  // Tells the links which of them are wanted. The targets that have none.
  std::vector<std::string> MarkWanted(const std::vector<std::string>& targets) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes a place from a link that is neither wanted nor a member, which ends. nullopt: there is none.
  std::optional<size_t> FreePlace() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnServing(Link& link, bool serving) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnFaultTold(Link& link) ABSL_LOCKS_EXCLUDED(mutex_);

  const RouterLink::Options options_;
  WorkerCalls& calls_;
  mutable absl::Mutex mutex_;
  // By place; null: it is free. Follow and Stop alone change which links there are.
  std::vector<std::unique_ptr<Link>> links_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> named_ ABSL_GUARDED_BY(mutex_);
  int serving_links_ ABSL_GUARDED_BY(mutex_) = 0;
  // What was counted for links that have ended.
  int64_t former_joins_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ROUTER_LINKS_H_
