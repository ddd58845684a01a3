// What the router is, as metrics: its line, its workers and the streams of its clients.
#ifndef BATON_ROUTER_ROUTER_METRICS_H_
#define BATON_ROUTER_ROUTER_METRICS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "router/client_work.h"
#include "router/journal_writer.h"
#include "router/kept_jobs.h"
#include "router/router_view.h"
#include "router/unread_output.h"
#include "telemetry/metrics.h"

namespace baton::router {

// What the metrics are read from. All of it outlives them.
struct RouterMetricsSources {
  // The name by which clients ask for the model.
  std::string model;
  const ViewBoard& views;
  // There is one for each API.
  std::vector<const UnreadOutput*> unread;
  const ClientWork& work;
  const KeptJobs& kept;
  // Null without --state-dir: all is 0.
  const JournalWriter* journal = nullptr;
  // Connections of clients that are open.
  std::function<double()> connections;
};

std::shared_ptr<telemetry::CallbackMetrics> MakeRouterMetrics(const RouterMetricsSources& sources);

}  // namespace baton::router

#endif  // BATON_ROUTER_ROUTER_METRICS_H_
