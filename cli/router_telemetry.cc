#include "cli/router_telemetry.h"

#include <time.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/process_memory.h"
#include "common/random.h"
#include "common/status.h"
#include "common/version.h"
#include "router/dashboard_routes.h"
#include "telemetry/otel_settings.h"
#include "telemetry/otlp_exporter.h"

namespace baton::cli {
namespace {

// How long the router waits at its end for the collector to take the last spans.
constexpr int64_t kFlushMs = 2'000;

int64_t CpuNs(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RouterTelemetry>> RouterTelemetry::Create(const RouterTelemetryOptions& options,
                                                                         const Clock& clock, AdminPort& admin) {
  std::unique_ptr<RouterTelemetry> telemetry(new RouterTelemetry(options, clock, admin));
  BATON_RETURN_IF_ERROR(telemetry->StartTracing(options));
  telemetry->AddOwnMetrics();
  telemetry->AddDashboard();
  return telemetry;
}

RouterTelemetry::RouterTelemetry(const RouterTelemetryOptions& options, const Clock& clock, AdminPort& admin)
    : clock_(clock),
      admin_(admin),
      model_(options.metrics.model),
      request_metrics_(options.metrics, *registry_),
      dashboard_({.objective = {.ttft_ms = static_cast<double>(options.metrics.ttft_target_ms),
                                .itl_ms = static_cast<double>(options.metrics.itl_target_ms)},
                  .version = kVersion,
                  .model = options.metrics.model},
                 clock, [this] { return Cost(); }),
      observers_{.clock = clock, .observers = {&request_metrics_}, .records_content = options.traces_content} {
  if (options.writes_access_log) observers_.observers.push_back(&access_log_);
}

RouterTelemetry::~RouterTelemetry() {
  admin_.Stop();
  if (exporter_ != nullptr) exporter_->Shutdown(kFlushMs);
}

absl::Status RouterTelemetry::StartTracing(const RouterTelemetryOptions& options) {
  std::vector<std::string> warnings;
  const telemetry::OtelSettings settings = telemetry::ReadOtelSettings(
      telemetry::ProcessEnvironment(), {.service_name = "baton-router", .resource = {{"service.version", kVersion}}},
      warnings);
  for (const std::string& warning : warnings) spdlog::warn(warning);
  BATON_ASSIGN_OR_RETURN(exporter_, telemetry::StartOtlpExporter(settings));
  if (exporter_ == nullptr) {
    // Nobody would see what is recorded.
    observers_.records_content = false;
    return absl::OkStatus();
  }
  tracer_.emplace(router::RequestTracerOptions{.sampler = settings.sampler, .model = model_}, *exporter_,
                  SystemRandom());
  observers_.observers.push_back(&*tracer_);
  return absl::OkStatus();
}

void RouterTelemetry::AddOwnMetrics() {
  auto own = std::make_shared<telemetry::CallbackMetrics>();
  const auto spans = [this](auto read) {
    return
        [this, read]() -> double { return exporter_ == nullptr ? 0 : static_cast<double>(read(exporter_->counts())); };
  };
  using telemetry::SpanCounts;
  const char* const help = "Spans by what became of them.";
  own->AddCounters("baton_spans_total", help, [spans] {
    std::vector<telemetry::CallbackMetrics::Sample> samples;
    samples.push_back({{{"result", "exported"}}, spans([](const SpanCounts& c) { return c.exported; })()});
    samples.push_back({{{"result", "dropped"}}, spans([](const SpanCounts& c) {
                         return c.dropped_full + c.dropped_too_large + c.dropped_at_end;
                       })()});
    samples.push_back({{{"result", "failed"}}, spans([](const SpanCounts& c) { return c.failed + c.rejected; })()});
    return samples;
  });
  own->AddCounter("baton_telemetry_cpu_seconds_total",
                  "CPU time of the threads that serve the admin port and export spans.",
                  [this]() -> double { return static_cast<double>(TelemetryCpuNs()) / kNsPerSecond; });
  own->AddGauge("baton_dashboard_viewers", "Pages that follow the dashboard's events.",
                [this]() -> double { return dashboard_.viewers(); });
  own->AddCounter("baton_dashboard_bytes_total", "Bytes of events that dashboards were sent.",
                  [this]() -> double { return static_cast<double>(EventBytes()); });
  admin_.AddSources({registry_, own});
}

void RouterTelemetry::AddDashboard() {
  telemetry::AdminServer* const server = admin_.server();
  if (server == nullptr) return;
  observers_.observers.push_back(&dashboard_);
  router::AddDashboardRoutes(*server);
  server->AddEventStream(
      "/events", [this](std::shared_ptr<telemetry::EventStream> viewer) { dashboard_.AddViewer(std::move(viewer)); });
}

int64_t RouterTelemetry::TelemetryCpuNs() const {
  const int64_t admin_ns = admin_.server() == nullptr ? 0 : admin_.server()->cpu_ns();
  return admin_ns + (exporter_ == nullptr ? 0 : exporter_->cpu_ns());
}

int64_t RouterTelemetry::EventBytes() const {
  return admin_.server() == nullptr ? 0 : static_cast<int64_t>(admin_.server()->stats().event_bytes);
}

router::CostView RouterTelemetry::Cost() const {
  return {.cpu_ns = CpuNs(CLOCK_PROCESS_CPUTIME_ID),
          .telemetry_cpu_ns = TelemetryCpuNs(),
          .rss_bytes = ResidentBytesBesidesFiles(),
          .event_bytes = EventBytes()};
}

void RouterTelemetry::Observe(router::RouterLoop& loop) {
  loop.Every(router::kViewIntervalMs, [this](const router::Dispatcher& dispatcher) {
    router::RouterView view = router::MakeView(dispatcher, clock_.Now(), CpuNs(CLOCK_THREAD_CPUTIME_ID));
    if (admin_.server() != nullptr) dashboard_.OnView(view);
    views_.Publish(std::move(view));
  });
}

void RouterTelemetry::Observe(const Clients& clients) {
  const auto connections = [gate = clients.gate, &http = clients.http] {
    return static_cast<double>((gate == nullptr ? 0 : gate->open_count()) + http.connections());
  };
  admin_.AddSources({router::MakeRouterMetrics({.model = model_,
                                                .views = views_,
                                                .unread = {&clients.requests.unread(), &clients.http.unread()},
                                                .work = clients.work,
                                                .kept = clients.kept,
                                                .journal = clients.journal,
                                                .connections = connections})});
  const auto healthy = [this] {
    const int64_t age_ms = (clock_.Now() - views_.Latest()->at) / kNsPerMs;
    if (age_ms <= router::kViewStaleMs) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("the router's loop has not turned for ", age_ms, " ms"));
  };
  const auto ready = [this, healthy]() -> absl::Status {
    BATON_RETURN_IF_ERROR(healthy());
    if (draining_) return absl::UnavailableError("the router ends");
    const auto view = views_.Latest();
    if (view->serving) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("no request can be served until there is ", view->waits_for));
  };
  admin_.SetProbes(healthy, ready);
}

}  // namespace baton::cli
