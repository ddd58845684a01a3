// Which workers can serve a request together, in words for people.
#ifndef BATON_ROUTER_PARTNERS_H_
#define BATON_ROUTER_PARTNERS_H_

#include <cstdint>
#include <string>

#include "router/worker_registry.h"

namespace baton::router {

struct Partners {
  // Serving workers with which the worker can serve a request: those of its fingerprint that do what it does not. A
  // mixed worker counts itself.
  int32_t count = 0;
  // Why there are none; empty when there are some.
  std::string why_none;
};

// `worker` is a member of `registry`.
Partners PartnersOf(const WorkerRegistry& registry, const Worker& worker);

// What the worker does and no other serving worker of its fingerprint: "prefill", "decode" or "prefill and decode".
// Empty: others do all that it does. `worker` is a member of `registry`.
std::string LastFor(const WorkerRegistry& registry, const Worker& worker);

// What has to join before a request can be served, such as "a decode worker of group A"; empty when it can be served.
std::string AwaitedWorkers(const WorkerRegistry& registry);

}  // namespace baton::router

#endif  // BATON_ROUTER_PARTNERS_H_
