// Which new jobs are taken, which waiting ones are dropped, and when their clients are asked to come back.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "router/dispatcher_impl.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"
#include "router/tenant_shares.h"

namespace baton::router {

absl::Status Dispatcher::Impl::CheckNew(const JobSpec& spec) {
  if (spec.prompt.empty()) return absl::InvalidArgumentError("prompt: must hold at least one token");
  if (jobs_.contains(spec.key())) {
    return absl::AlreadyExistsError(absl::StrCat("job ", spec.key().ToString(), " is here"));
  }
  if (spec.is_recovered) return absl::OkStatus();
  if (queued_jobs() >= options_.max_queued_jobs) {
    return QueueFull(absl::StrCat("all ", options_.max_queued_jobs, " places in the queue are taken"));
  }
  if (poisoned_.Contains(spec)) {
    return WithReason(absl::InternalError(absl::StrCat("workers died of this very request within the last ",
                                                       PoisonedRequests::kRefusalMs / 60'000,
                                                       " minutes: it is refused; the router's log has the fault")),
                      RefusalReason::kPoisoned);
  }
  if (const int32_t kept = options_.max_queued_jobs / kKeptPlaces;
      queued_jobs() + kept >= options_.max_queued_jobs && QueuedOf(spec.tenant) > kept) {
    return QueueFull(absl::StrCat(QueuedOf(spec.tenant), " requests of this tenant wait, and the last ", kept, " of ",
                                  options_.max_queued_jobs, " places in the queue are kept for tenants with fewer"));
  }
  BATON_RETURN_IF_ERROR(CheckTokens(spec));
  return CheckDeadline(spec);
}

int32_t Dispatcher::Impl::QueuedOf(const std::string& tenant) const {
  const auto follow = std::count_if(following_.begin(), following_.end(),
                                    [&](const ChoiceKey& key) { return jobs_.at(key)->spec->tenant == tenant; });
  return queue_.waiting(tenant) + static_cast<int32_t>(follow);
}

absl::Status Dispatcher::Impl::CheckTokens(const JobSpec& spec) const {
  const int64_t wait_ns = buckets_.WaitNs(clock_.Now(), spec.tenant, CostOf(spec, spec.sampling.max_tokens));
  if (wait_ns == 0) return absl::OkStatus();
  const int64_t wait_ms = (wait_ns + kNsPerMs - 1) / kNsPerMs;
  return WithRetryAfter(WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                       "this tenant has used up its ", options_.tenant_buckets.tokens_per_second,
                                       " tokens per second: its next ones come in ", wait_ms, " ms")),
                                   RefusalReason::kTenantRate),
                        wait_ms);
}

void Dispatcher::Impl::TakeTokens(DispatchJob& job) {
  job.taken_tokens = buckets_.Take(clock_.Now(), job.spec->tenant, CostOf(*job.spec, job.spec->sampling.max_tokens));
}

void Dispatcher::Impl::SettleTokens(const DispatchJob& job) {
  // A job that never began costs nothing.
  const int64_t cost = job.attempt == 0 ? 0 : CostOf(*job.spec, job.next_index());
  buckets_.Settle(clock_.Now(), job.spec->tenant, job.taken_tokens, cost);
}

absl::Status Dispatcher::Impl::CheckDeadline(const JobSpec& spec) {
  const int64_t left_ns = spec.deadline - clock_.Now();
  if (spec.deadline == kNever || left_ns <= 0) return absl::OkStatus();
  const Forecast forecast = queue_.ForecastFor(spec, HasCallRoom());
  const int64_t excess_ns = admission_.ExcessNs(forecast, left_ns, spec.least_outputs);
  if (excess_ns == 0) return absl::OkStatus();
  return RefusedForDeadline(forecast, left_ns,
                            PromiseRetry({.no_room_ns = excess_ns, .service_ns = queue_.ServiceNs(spec)}));
}

// A client that comes back finds more than the one place that it was promised, so that one which comes in between takes
// no place that was promised to another.
absl::Status Dispatcher::Impl::QueueFull(const std::string& what) {
  const int64_t spare = options_.max_queued_jobs / kKeptPlaces;
  const RetryPlan::Refused refused = {.no_room_ns = queue_.NsUntilPlaced(1 + spare),
                                      .service_ns = queue_.NsUntilPlaced(1)};
  const int64_t retry_after_ms = refused.service_ns == 0 ? kUnknownRetryAfterMs : PromiseRetry(refused);
  return WithRetryAfter(WithReason(absl::ResourceExhaustedError(what), RefusalReason::kQueueFull), retry_after_ms);
}

int64_t Dispatcher::Impl::PromiseRetry(const RetryPlan::Refused& refused) {
  return retries_.Promise(clock_.Now(), refused);
}

TimeNs Dispatcher::Impl::LastStart(const DispatchJob& job) const {
  return job.outputs.empty() ? admission_.LastStart(*job.spec) : job.spec->deadline;
}

void Dispatcher::Impl::Drop(DispatchJob& job) {
  // Prompts have become faster since it came.
  const TimeNs now = clock_.Now();
  if (const TimeNs last_start = LastStart(job); last_start > now) return SetTimer(job, last_start);
  // As if it came anew, with all its time.
  const int64_t budget_ns = job.spec->deadline - job.marks.arrived;
  const Forecast forecast = queue_.ForecastFor(*job.spec, HasCallRoom());
  const int64_t excess_ns = admission_.ExcessNs(forecast, budget_ns, job.spec->least_outputs);
  End(job, DroppedForDeadline(job.spec->deadline - now,
                              PromiseRetry({.no_room_ns = excess_ns, .service_ns = queue_.ServiceNs(*job.spec)})));
}

}  // namespace baton::router
