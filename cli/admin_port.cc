#include "cli/admin_port.h"

#include <utility>

#include "cli/options.h"
#include "cli/port_flag.h"
#include "common/log_limit.h"
#include "telemetry/process_metrics.h"

namespace baton::cli {
namespace {

std::shared_ptr<telemetry::CallbackMetrics> LogMetrics() {
  auto metrics = std::make_shared<telemetry::CallbackMetrics>();
  metrics->AddCounter("baton_log_lines_dropped_total", "Lines that the log left out because there were too many alike.",
                      [] { return static_cast<double>(DroppedLogLines()); });
  return metrics;
}

}  // namespace

void AddAdminFlags(CLI::App& app, AdminFlags& flags, const std::string& default_port) {
  app.add_option("--admin-port", flags.port, "metrics and health by HTTP; 0: any free port; off: none")
      ->check(PortOrOffCheck())
      ->group(kAddressGroup)
      ->default_str(default_port);
  app.add_option("--admin-bind", flags.bind, "address of the admin port; by default that of --bind")
      ->group(kAddressGroup);
  app.add_option("--admin-hosts", flags.hosts,
                 "host names by which the admin port may be called, besides addresses; *: all")
      ->delimiter(',');
}

AdminPort::AdminPort(const AdminFlags& flags, const std::string& bind, int default_port, const std::string& role)
    : role_(role),
      healthy_([] { return absl::OkStatus(); }),
      ready_([] { return absl::UnavailableError("starting"); }),
      sources_({registry_, std::make_shared<telemetry::ProcessMetrics>(), LogMetrics()}) {
  const std::optional<int> port = PortOrOff(flags.port, default_port);
  if (!port.has_value()) return;
  server_ = std::make_unique<telemetry::AdminServer>(
      telemetry::AdminServerOptions{.bind = flags.bind.empty() ? bind : flags.bind,
                                    .port = *port,
                                    .hosts = flags.hosts,
                                    .bind_flag = flags.bind.empty() ? "--bind" : "--admin-bind"});
  server_->AddRoute("/metrics", [this](const telemetry::AdminRequest&) {
    return telemetry::AdminResponse{.content_type = telemetry::kMetricsContentType, .body = Metrics()};
  });
  server_->AddRoute("/healthz", [this](const telemetry::AdminRequest&) {
    mutex_.Lock();
    const Probe probe = healthy_;
    mutex_.Unlock();
    return Answer(probe);
  });
  server_->AddRoute("/readyz", [this](const telemetry::AdminRequest&) {
    mutex_.Lock();
    const Probe probe = ready_;
    mutex_.Unlock();
    return Answer(probe);
  });
}

absl::Status AdminPort::Start() { return server_ == nullptr ? absl::OkStatus() : server_->Start(); }

std::string AdminPort::address() const { return server_ == nullptr ? std::string() : server_->address(); }

std::string AdminPort::Metrics() const { return telemetry::RenderMetrics(Sources()); }

void AdminPort::SetBuildInfo(telemetry::BuildInfo info) {
  info.role = role_;
  telemetry::AddBuildInfo(*registry_, info);
}

void AdminPort::SetProbes(Probe healthy, Probe ready) {
  absl::MutexLock lock(&mutex_);
  healthy_ = std::move(healthy);
  ready_ = std::move(ready);
}

void AdminPort::AddSources(std::vector<Source> sources) {
  absl::MutexLock lock(&mutex_);
  for (Source& source : sources) sources_.push_back(std::move(source));
}

void AdminPort::Stop() {
  if (server_ != nullptr) server_->Stop();
}

std::vector<AdminPort::Source> AdminPort::Sources() const {
  absl::MutexLock lock(&mutex_);
  return sources_;
}

telemetry::AdminResponse AdminPort::Answer(const Probe& probe) const {
  const absl::Status status = probe();
  if (status.ok()) return {.body = "ok\n"};
  return {.status = 503, .body = absl::StrCat(std::string(status.message()), "\n")};
}

}  // namespace baton::cli
