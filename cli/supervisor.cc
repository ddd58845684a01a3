#include "cli/supervisor.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "cli/process.h"
#include "common/clock.h"
#include "common/drain.h"
#include "common/log.h"
#include "common/random.h"
#include "common/status.h"

namespace baton::cli {
namespace {

constexpr RestartPolicyOptions kRestarts;
constexpr int64_t kStartTurnMs = 25;
constexpr int64_t kWatchTurnMs = 100;
constexpr int64_t kWatchProbeMs = 1'000;

int PortOf(const std::string& address) { return std::atoi(address.substr(address.rfind(':') + 1).c_str()); }

}  // namespace

Supervisor::Supervisor(SupervisorOptions options) : options_(std::move(options)) {
  for (int index = -1; index < static_cast<int>(options_.workers.size()); ++index) {
    slots_.push_back({.index = index, .policy = {kRestarts, MonotonicClock(), SystemRandom()}, .child = std::nullopt});
  }
}

std::vector<std::string> Supervisor::Args(int index) const {
  std::vector<std::string> args;
  if (index < 0) {
    // A restarted router gets the ports that the first one chose.
    const bool first = router_.grpc.empty();
    args = {"router",
            "--bind",
            options_.bind,
            "--grpc-port",
            std::to_string(first ? options_.grpc_port : PortOf(router_.grpc)),
            "--cluster-port",
            std::to_string(first ? options_.cluster_port : PortOf(router_.cluster)),
            "--admin-port",
            first || router_.admin.empty() ? options_.admin_port : std::to_string(PortOf(router_.admin))};
    const std::string http_port =
        first || router_.http.empty() ? options_.http_port : std::to_string(PortOf(router_.http));
    if (!http_port.empty()) args.insert(args.end(), {"--http-port", http_port});
    if (!options_.admin_bind.empty()) args.insert(args.end(), {"--admin-bind", options_.admin_bind});
    args.insert(args.end(), options_.router_args.begin(), options_.router_args.end());
  } else {
    const WorkerCommand& worker = options_.workers[static_cast<size_t>(index)];
    args = {worker.role, "--supervised", "--router", router_.cluster, "--grpc-port", "0",
            // Any free one, because the workers share a host.
            "--admin-port", options_.admin_port == "off" ? "off" : "0"};
    args.insert(args.end(), worker.args.begin(), worker.args.end());
  }
  return args;
}

const std::string& Supervisor::Name(const Slot& slot) const {
  static const auto* router = new std::string("router");
  return slot.index < 0 ? *router : options_.workers[static_cast<size_t>(slot.index)].role;
}

absl::Status Supervisor::Start() {
  while (!AllJoined()) {
    if (SignalCame(kStartTurnMs)) return absl::CancelledError("stopped while starting");
    BATON_RETURN_IF_ERROR(Turn());
  }
  started_ = true;
  return absl::OkStatus();
}

void Supervisor::Watch() {
  while (!SignalCame(kWatchTurnMs)) {
    // Once the cluster has started, a child's end is logged where it is seen.
    Turn().IgnoreError();
  }
}

absl::Status Supervisor::Turn() {
  ReapEnded();
  if (probe_.has_value()) probe_->Poll(started_ ? kWatchProbeMs : kStartTurnMs);
  for (Slot& slot : slots_) BATON_RETURN_IF_ERROR(Check(slot));
  return absl::OkStatus();
}

absl::Status Supervisor::Check(Slot& slot) {
  if (slot.child.has_value()) {
    if (const std::optional<int> exit_code = slot.child->Poll(); exit_code.has_value()) {
      BATON_RETURN_IF_ERROR(OnEnd(slot, *exit_code));
    } else if (slot.policy.loading()) {
      if (std::optional<ReadyAddresses> ready = slot.child->PollReady()) OnReady(slot, *std::move(ready));
    }
  }
  // A worker is told the router's address, which is known when the router is ready for the first time.
  if (slot.index >= 0 && router_.cluster.empty()) return absl::OkStatus();
  switch (slot.policy.Tick(HealthOf(slot))) {
    case RestartPolicy::Action::kNone:
      return absl::OkStatus();
    case RestartPolicy::Action::kStart:
      return Launch(slot);
    case RestartPolicy::Action::kKill:
      return Kill(slot);
  }
  return absl::OkStatus();
}

absl::Status Supervisor::OnEnd(Slot& slot, int exit_code) {
  const bool was_loading = slot.policy.loading();
  slot.policy.OnEnd();
  slot.child.reset();
  if (slot.index < 0) probe_.reset();
  if (!started_ && was_loading) {
    if (exit_code == kExitFailed) return absl::AbortedError("a child said why");
    return absl::UnavailableError(absl::StrCat(Name(slot), " ended with ", exit_code, " before it was ready"));
  }
  const int64_t backoff_ms = slot.policy.backoff_ms();
  // A worker that was told to drain has done what it was told.
  spdlog::log(exit_code == kExitDone ? spdlog::level::info : spdlog::level::warn, "{} ended with {}: restart {}",
              Name(slot), exit_code, backoff_ms == 0 ? "at once" : absl::StrCat("in ", backoff_ms, " ms"));
  return absl::OkStatus();
}

void Supervisor::OnReady(Slot& slot, ReadyAddresses addresses) {
  slot.policy.OnReady();
  if (slot.index >= 0) return;
  router_ = std::move(addresses);
  probe_.emplace(router_.grpc, options_.credentials);
}

absl::Status Supervisor::Launch(Slot& slot) {
  absl::StatusOr<ChildProcess> child = ChildProcess::Start(Args(slot.index));
  if (child.ok()) {
    slot.child.emplace(*std::move(child));
    return absl::OkStatus();
  }
  slot.policy.OnEnd();
  if (!started_) return child.status();
  spdlog::error("cannot restart {}: {}", Name(slot), std::string(child.status().message()));
  return absl::OkStatus();
}

absl::Status Supervisor::Kill(Slot& slot) {
  // The next turns see its end.
  slot.child->Signal(SIGKILL);
  const std::string why = absl::StrCat(
      Name(slot), " with pid ", slot.child->pid(),
      slot.policy.was_ready() ? " is alive but out of service for too long" : " did not become ready in time");
  if (!started_) return absl::DeadlineExceededError(why);
  spdlog::error("{}: killed", why);
  return absl::OkStatus();
}

void Supervisor::ReapEnded() {
  siginfo_t info{};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    const auto slot = std::find_if(slots_.begin(), slots_.end(), [&info](const Slot& each) {
      return each.child.has_value() && each.child->pid() == info.si_pid;
    });
    // A child's own object keeps its exit code.
    if (slot != slots_.end()) {
      slot->child->Poll();
    } else {
      waitpid(info.si_pid, nullptr, WNOHANG);
    }
    info.si_pid = 0;
  }
}

ChildHealth Supervisor::HealthOf(const Slot& slot) const {
  if (!slot.child.has_value()) return ChildHealth::kUnknown;
  ChildHealth health = ChildHealth::kUnknown;
  if (slot.policy.serving() && probe_.has_value() && probe_->has_result()) {
    const bool answers = probe_->answer().has_value();
    if (slot.index < 0) {
      health = answers ? ChildHealth::kWell : ChildHealth::kAmiss;
    } else if (answers) {
      health = probe_->Lists(slot.child->pid()) ? ChildHealth::kWell : ChildHealth::kAmiss;
    }
  }
  return health != ChildHealth::kWell && slot.child->IsStopped() ? ChildHealth::kStopped : health;
}

bool Supervisor::AllJoined() const {
  return std::all_of(slots_.begin(), slots_.end(),
                     [this](const Slot& slot) { return HealthOf(slot) == ChildHealth::kWell; });
}

bool Supervisor::Stop() {
  for (Slot& slot : slots_) {
    if (!slot.policy.serving()) slot.child.reset();
  }
  const TimeNs deadline = After(MonotonicClock().Now(), options_.drain_timeout_ms + kDrainMarginMs);
  bool in_time = End(/*router=*/true, deadline);
  // A router that took all of the time has left its workers nothing to do but to end.
  in_time &= End(/*router=*/false, std::max(deadline, After(MonotonicClock().Now(), kDrainMarginMs)));
  slots_.clear();
  return in_time;
}

bool Supervisor::End(bool router, TimeNs deadline) {
  const auto waits_for = [router](const Slot& slot) { return slot.child.has_value() && (slot.index < 0) == router; };
  for (const Slot& slot : slots_) {
    if (waits_for(slot)) slot.child->Signal(SIGTERM);
  }
  bool in_time = true;
  for (Slot& slot : slots_) {
    if (!waits_for(slot)) continue;
    const int64_t left_ms = std::max<int64_t>(0, deadline - MonotonicClock().Now()) / kNsPerMs;
    if (slot.child->WaitExit(left_ms)) continue;
    spdlog::error("{} with pid {} did not end within the drain time-out and {} ms: killed", Name(slot),
                  slot.child->pid(), kDrainMarginMs);
    slot.child.reset();
    in_time = false;
  }
  return in_time;
}

}  // namespace baton::cli
