// Whether a request has ended as it must.
#include <algorithm>

#include "absl/strings/match.h"
#include "router/refusal_reason.h"
#include "simulator/workload.h"

namespace baton::simulator {
namespace {

// A request of which so many workers have died is not tried again.
constexpr int kDeaths = 2;

}  // namespace

bool Workload::MayBeLost(const Job& job) const {
  if (sim_.cut_jobs.contains(job.spec->id)) return true;
  if (sim_.WasTroubled(Simulation::kNetwork, job.placed)) return true;
  if (job.workers.empty()) return sim_.AnyoneWasTroubled(job.submitted);
  // A router that was away places jobs by what it knew before.
  const TimeNs since = sim_.RouterAwaySince(job.home, job.placed);
  return std::any_of(job.workers.begin(), job.workers.end(), [&](const Incarnation& worker) {
    return sim_.WasTroubled(worker, since) || sim_.WasTroubled(Simulation::LinkName(worker, job.home), since);
  });
}

bool Workload::MayFailOver(const Job& job) const {
  if (sim_.cut_jobs.contains(job.spec->id) || sim_.poison.contains(job.spec->id)) return true;
  const auto troubled = [&](const Incarnation& name) { return sim_.WasTroubled(name, job.submitted); };
  if (troubled(Simulation::kNetwork) || troubled(Simulation::RouterName(job.home))) return true;
  return std::any_of(job.all_workers.begin(), job.all_workers.end(), [&](const Incarnation& worker) {
    // One that drains hands its jobs to others, which may have no room any more.
    return troubled(worker) || troubled(Simulation::LinkName(worker, job.home)) ||
           troubled(Simulation::AbsenceName(worker));
  });
}

void Workload::CheckOk(const Job& job, const router::JobResult& result) {
  ++sim_.counts.ok;
  if (sim_.poison.contains(job.spec->id) && !job.gave_up) Wrong(job, "ends well, though whoever computes it dies");
  for (const Incarnation& worker : job.workers) served_.insert({job.home, worker});
  if (!result.kv_digest.empty()) CheckDigest(job, result.kv_digest);
  // The router waits for the digest until the deadline.
  const bool in_time = sim_.queue.Now() < job.spec->deadline;
  const bool troubled = MayBeLost(job) || sim_.AnyoneWasTroubled(job.submitted);
  if (job.spec->want_kv_digest && result.kv_digest.empty() && in_time && !troubled && !job.gave_up) {
    Wrong(job, "ends without its digest");
  }
  if (job.gave_up && job.why.ok() && result.finish == FinishReason::kStop) return;
  if (job.got.size() != job.expected.size()) return Wrong(job, "ends too early, and well");
  const std::vector<int32_t>& stops = job.spec->sampling.stop_token_ids;
  const int32_t last = job.got.back();
  const bool stopped =
      (last == kEosId && !job.spec->sampling.ignore_eos) || std::find(stops.begin(), stops.end(), last) != stops.end();
  if (result.finish != (stopped ? FinishReason::kStop : FinishReason::kLength))
    Wrong(job, "has the wrong finish reason");
}

// Equal prompts have equal digests, whoever computed them.
void Workload::CheckDigest(const Job& job, const std::string& digest) {
  const std::string& known = digests_.emplace(job.spec->prompt, digest).first->second;
  if (known != digest) Wrong(job, "has another digest than the same prompt before");
}

bool Workload::SomeClockLeapt(const Job& job) const {
  const auto leapt = [&](const Incarnation& worker) { return sim_.leapt.contains(worker); };
  return leapt(Simulation::RouterName(job.home)) || std::any_of(job.workers.begin(), job.workers.end(), leapt);
}

// Every error must have a reason that the client gave, or a fault that befell the job itself. A wait that only a timer
// has ended shows here as UNAVAILABLE or NOT_FOUND.
void Workload::CheckError(const Job& job, const router::JobResult& result) {
  const absl::Status& status = result.status;
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      ++sim_.counts.cancelled;
      if (job.gave_up && !job.why.ok()) return;
      break;
    case absl::StatusCode::kDeadlineExceeded:
      ++sim_.counts.deadline;
      if (job.spec->deadline <= sim_.queue.Now()) return;
      if (job.spec->deadline != kNever && SomeClockLeapt(job)) return;
      break;
    case absl::StatusCode::kResourceExhausted:
      ++sim_.counts.deadline;
      if (router::GetRefusalReason(status) == router::RefusalReason::kDeadline && job.got.empty() &&
          job.spec->deadline != kNever) {
        return;
      }
      // The bound of its pause, which is longer than any client leaves its output unread.
      if (router::GetRefusalReason(status) == router::RefusalReason::kSlowReader && SomeClockLeapt(job)) return;
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kDataLoss:
      ++sim_.counts.failed;
      if (!TriedEnough(job, result)) return Wrong(job, "ends too soon: " + status.ToString());
      if (MayBeLost(job)) return;
      // However often it was placed before.
      if (absl::StrContains(status.message(), "no workers") && sim_.AnyoneWasTroubled(job.submitted)) return;
      break;
    case absl::StatusCode::kInvalidArgument:
      ++sim_.counts.failed;
      // The only worker that holds such a prompt may be away.
      if (options_.small_worker_tokens > 0 && sim_.AnyoneWasTroubled(job.submitted)) return;
      break;
    case absl::StatusCode::kInternal:
      ++sim_.counts.failed;
      if (router::GetRefusalReason(status) == router::RefusalReason::kPoisoned && job.deaths >= kDeaths) return;
      break;
    default:
      break;
  }
  Wrong(job, "ends without a cause: " + status.ToString());
}

// Failover is for whatever another attempt may not have; the bounds are those of the table in router/dispatcher.h.
bool Workload::TriedEnough(const Job& job, const router::JobResult& result) const {
  const router::DispatcherOptions bounds;
  // Nobody can take the digest later.
  if (job.spec->want_kv_digest && !job.got.empty()) return true;
  if (router::GetRefusalReason(result.status) == router::RefusalReason::kNoWorkers) {
    return job.got.empty() || sim_.queue.Now() - job.placed >= bounds.placing.worker_return_ms * kNsPerMs;
  }
  return result.failovers + 1 >= bounds.max_errors;
}

}  // namespace baton::simulator
