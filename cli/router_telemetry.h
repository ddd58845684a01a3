// What a router says of itself and of its requests: metrics, traces, the access log.
#ifndef BATON_CLI_ROUTER_TELEMETRY_H_
#define BATON_CLI_ROUTER_TELEMETRY_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/admin_port.h"
#include "cli/http_port.h"
#include "common/clock.h"
#include "common/rpc/connection_gate.h"
#include "router/access_log.h"
#include "router/dashboard.h"
#include "router/journal_writer.h"
#include "router/kept_jobs.h"
#include "router/observed_request.h"
#include "router/request_metrics.h"
#include "router/request_tracer.h"
#include "router/router_loop.h"
#include "router/router_metrics.h"
#include "router/router_view.h"
#include "router/rpc_requests.h"
#include "telemetry/span_exporter.h"

namespace baton::cli {

struct RouterTelemetryOptions {
  router::RequestMetricsOptions metrics;
  bool writes_access_log = false;
  // Spans have the text of prompts and answers.
  bool traces_content = false;
};

// Made before the parts of the router that it observes, and outlives them; used by the main thread.
class RouterTelemetry {
 public:
  // Reads the environment's OTEL_* variables. `clock` and `admin` outlive it. INVALID_ARGUMENT when these name a file
  // that cannot be read.
  static absl::StatusOr<std::unique_ptr<RouterTelemetry>> Create(const RouterTelemetryOptions& options,
                                                                 const Clock& clock, AdminPort& admin);
  // Sends the spans that wait, for a short time.
  ~RouterTelemetry();

  const router::RequestObservers& observers() const { return observers_; }
  // Null when no request is traced.
  router::RequestTracer* tracer() { return tracer_.has_value() ? &*tracer_ : nullptr; }
  const router::ViewBoard& views() const { return views_; }

  // Before the loop starts.
  void Observe(router::RouterLoop& loop);
  // What clients hold, once all of it is there; the admin port stops before any of it ends.
  struct Clients {
    const router::RpcRequests& requests;
    const router::ClientWork& work;
    const router::KeptJobs& kept;
    // May be null.
    const router::JournalWriter* journal = nullptr;
    // May be null.
    const rpc::ConnectionGate* gate = nullptr;
    const HttpPort& http;
  };
  void Observe(const Clients& clients);
  // The router takes nothing new: it is no longer ready.
  void OnDraining() { draining_ = true; }

 private:
  RouterTelemetry(const RouterTelemetryOptions& options, const Clock& clock, AdminPort& admin);

  absl::Status StartTracing(const RouterTelemetryOptions& options);
  void AddOwnMetrics();
  void AddDashboard();
  // CPU time of the threads that serve the admin port and export spans.
  int64_t TelemetryCpuNs() const;
  int64_t EventBytes() const;
  router::CostView Cost() const;

  const Clock& clock_;
  AdminPort& admin_;
  const std::string model_;
  router::ViewBoard views_;
  std::atomic<bool> draining_ = false;
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  router::RequestMetrics request_metrics_;
  router::AccessLog access_log_;
  router::Dashboard dashboard_;
  std::unique_ptr<telemetry::SpanExporter> exporter_;
  std::optional<router::RequestTracer> tracer_;
  router::RequestObservers observers_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_ROUTER_TELEMETRY_H_
