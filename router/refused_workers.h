// Workers that asked to join and were refused. They ask again every second, so whoever looks at the cluster can be told
// who is there and why it serves nothing.
#ifndef BATON_ROUTER_REFUSED_WORKERS_H_
#define BATON_ROUTER_REFUSED_WORKERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/clock.h"

namespace baton::router {

// What the worker said of itself, shortened and without control characters.
struct RefusedWorker {
  // Names it: host:port of its gRPC server.
  std::string target;
  // "prefill", "decode" or "mixed"; empty when it stated none.
  std::string role;
  std::string model;
  int64_t pid = 0;
  std::string why;
  TimeNs asked_at = 0;
};

// Used by one thread.
class RefusedWorkers {
 public:
  // A worker that has not asked for this time is gone.
  static constexpr int64_t kGoneMs = 10'000;

  // False when this worker was refused for the same reason before and is not gone since. Keeps at most kMaxWorkers.
  bool Add(RefusedWorker refused);
  // It has joined.
  void Forget(const std::string& target) { by_target_.erase(target); }
  // The refused workers that are not gone, in order of their targets.
  std::vector<RefusedWorker> Present(TimeNs now) const;

 private:
  std::map<std::string, RefusedWorker> by_target_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_REFUSED_WORKERS_H_
