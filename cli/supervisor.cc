#include "cli/supervisor.h"

#include <signal.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "cli/status_command.h"
#include "common/log.h"
#include "common/status.h"

namespace baton::cli {
namespace {

constexpr int64_t kReadyTimeoutMs = 120'000;
constexpr int64_t kExitTimeoutMs = 1'000;
constexpr int64_t kWatchIntervalMs = 100;
constexpr int64_t kFirstBackoffMs = 200;
constexpr int64_t kMaxBackoffMs = 10'000;
// The back-off starts anew for a process that has lived this long.
constexpr int64_t kHealthyMs = 30'000;
constexpr int64_t kRouterDrainMs = 35'000;
constexpr int64_t kWorkerDrainMs = 10'000;

// False when no signal came within the time.
bool SignalCame(int64_t timeout_ms) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  const timespec timeout{.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * kNsPerMs};
  return sigtimedwait(&signals, nullptr, &timeout) > 0;
}

int PortOf(const std::string& address) { return std::atoi(address.substr(address.rfind(':') + 1).c_str()); }

}  // namespace

std::vector<std::string> Supervisor::Args(int index) const {
  std::vector<std::string> args;
  if (index < 0) {
    args = {"router", "--bind", options_.bind, "--grpc-port",
            std::to_string(address_.empty() ? options_.grpc_port : PortOf(address_))};
    args.insert(args.end(), options_.router_args.begin(), options_.router_args.end());
  } else {
    const WorkerCommand& worker = options_.workers[static_cast<size_t>(index)];
    args = {worker.role, "--supervised", "--router", address_, "--grpc-port", "0"};
    args.insert(args.end(), worker.args.begin(), worker.args.end());
  }
  return args;
}

absl::Status Supervisor::Launch(Slot& slot) {
  slot.started = MonotonicClock().Now();
  BATON_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(Args(slot.index)));
  slot.child.emplace(std::move(child));
  return absl::OkStatus();
}

absl::Status Supervisor::Start() {
  slots_.push_back({});
  BATON_RETURN_IF_ERROR(Launch(slots_.front()));
  BATON_RETURN_IF_ERROR(WaitReady(slots_.front(), address_));
  for (size_t i = 0; i < options_.workers.size(); ++i) {
    slots_.push_back({.index = static_cast<int>(i), .child = std::nullopt});
    BATON_RETURN_IF_ERROR(Launch(slots_.back()));
  }
  // All workers load their model at the same time, so the first wait covers most of the others.
  for (size_t i = 1; i < slots_.size(); ++i) {
    std::string address;
    BATON_RETURN_IF_ERROR(WaitReady(slots_[i], address));
  }
  return WaitForWorkers();
}

absl::Status Supervisor::WaitReady(Slot& slot, std::string& address) {
  absl::StatusOr<std::string> ready = slot.child->WaitReady(kReadyTimeoutMs);
  if (!ready.ok()) {
    const bool told_why = slot.child->WaitExit(kExitTimeoutMs) && slot.child->Poll() == kExitFailed;
    return told_why ? absl::AbortedError("a child said why") : ready.status();
  }
  address = *std::move(ready);
  return absl::OkStatus();
}

absl::Status Supervisor::WaitForWorkers() {
  const TimeNs deadline = After(MonotonicClock().Now(), kReadyTimeoutMs);
  while (MonotonicClock().Now() < deadline) {
    BATON_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, GetStatus(address_));
    if (status.workers_size() >= static_cast<int>(options_.workers.size())) return absl::OkStatus();
    if (SignalCame(kWatchIntervalMs / 4)) return absl::CancelledError("stopped while starting");
  }
  return absl::DeadlineExceededError("the workers did not join the router in time");
}

void Supervisor::Watch() {
  while (!SignalCame(kWatchIntervalMs)) {
    for (Slot& slot : slots_) Check(slot);
  }
}

void Supervisor::Check(Slot& slot) {
  const TimeNs now = MonotonicClock().Now();
  if (slot.child.has_value()) {
    const std::optional<int> exit_code = slot.child->Poll();
    if (!exit_code.has_value()) return;
    slot.failures = now - slot.started > kHealthyMs * kNsPerMs ? 1 : slot.failures + 1;
    const int64_t backoff_ms = std::min(kMaxBackoffMs, kFirstBackoffMs << std::min(slot.failures - 1, 10));
    slot.restart_at = After(now, backoff_ms);
    slot.child.reset();
    spdlog::warn("{} ended with {}: restart in {} ms",
                 slot.index < 0 ? "router" : options_.workers[static_cast<size_t>(slot.index)].role, *exit_code,
                 backoff_ms);
  } else if (now >= slot.restart_at) {
    const absl::Status status = Launch(slot);
    if (!status.ok()) spdlog::error("cannot restart: {}", std::string(status.message()));
  }
}

void Supervisor::Stop() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].child.has_value()) continue;
    slots_[i].child->Signal(SIGTERM);
    // The workers keep serving the requests that the router drains.
    if (i == 0) slots_[i].child->WaitExit(kRouterDrainMs);
  }
  for (Slot& slot : slots_) {
    if (slot.child.has_value()) slot.child->WaitExit(kWorkerDrainMs);
  }
  slots_.clear();
}

}  // namespace baton::cli
