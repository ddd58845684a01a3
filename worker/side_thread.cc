#include "worker/side_thread.h"

#include <utility>

#include "common/clock.h"

namespace baton::worker {

SideThread::SideThread(std::function<void(Task)> post, size_t max_queued_bytes)
    : post_(std::move(post)),
      pool_({.threads = 1, .nice = kNice, .max_queued_bytes = max_queued_bytes}, MonotonicClock()) {}

bool SideThread::Post(const Id128& id, size_t bytes, std::function<Task()> work) {
  return pool_.Post({.id = id, .bytes = bytes, .run = [this, work = std::move(work)](const absl::Status& status) {
                       if (status.ok()) post_(work());
                     }});
}

}  // namespace baton::worker
