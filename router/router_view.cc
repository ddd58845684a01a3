#include "router/router_view.h"

#include "router/partners.h"

namespace baton::router {

RouterView MakeView(const Dispatcher& dispatcher, TimeNs now, int64_t loop_cpu_ns) {
  const WorkerRegistry& registry = dispatcher.registry();
  RouterView view = {.at = now,
                     .serving = registry.CanServe(),
                     .waits_for = AwaitedWorkers(registry),
                     .queued_jobs = dispatcher.queued_jobs(),
                     .running_jobs = dispatcher.running_jobs(),
                     .paused_jobs = dispatcher.paused_jobs(),
                     .workers = {},
                     .memberships = dispatcher.memberships(),
                     .bad_pairs = static_cast<int64_t>(dispatcher.health().bad_pairs()),
                     .ejections = dispatcher.health().ejections(),
                     .canaries = dispatcher.canary_counts(),
                     .loop_cpu_ns = loop_cpu_ns};
  view.workers.reserve(registry.workers().size());
  for (const auto& [id, worker] : registry.workers()) {
    const WorkerBlocks* blocks = dispatcher.block_ledger().Find(id);
    view.workers.push_back({.incarnation = worker.info.incarnation,
                            .role = worker.info.role,
                            .address = worker.info.target,
                            .admin = worker.info.admin,
                            .group = registry.GroupName(worker.info.fingerprint),
                            .pid = worker.info.pid,
                            .total_blocks = worker.info.total_blocks,
                            .load = worker.load,
                            .orphaned_blocks = blocks == nullptr ? 0 : blocks->orphaned_blocks,
                            .ejected = dispatcher.health().IsEjected(id)});
  }
  return view;
}

}  // namespace baton::router
