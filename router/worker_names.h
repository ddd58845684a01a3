// How people name a worker, and how it is named to them.
#ifndef BATON_ROUTER_WORKER_NAMES_H_
#define BATON_ROUTER_WORKER_NAMES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "router/worker_registry.h"

namespace baton::router {

// "decode worker 127.0.0.1:50062 (pid 17)", without control characters.
std::string WorkerName(const WorkerInfo& info);

// The member with this address, pid or incarnation, as `baton status` prints them. NOT_FOUND when there is none;
// INVALID_ARGUMENT names the first of those that share the name, as processes of several machines may share a pid. The
// result is valid until the registry's next change.
absl::StatusOr<const Worker*> FindNamedWorker(const WorkerRegistry& registry, std::string_view name);

}  // namespace baton::router

#endif  // BATON_ROUTER_WORKER_NAMES_H_
