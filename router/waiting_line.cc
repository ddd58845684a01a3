#include "router/waiting_line.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace baton::router {
namespace {

// First tokens, and ends of requests, that the estimates remember, roughly.
constexpr double kSmoothedOver = 8;
// Smaller changes of what jobs are expected to give are not worth a walk over the tenants.
constexpr double kLeastChange = 0.1;

}  // namespace

void WaitingLine::Add(DispatchJob& job) {
  job.yields = Yields(job);
  job.waiting_cost = ExpectedCost(*job.spec);
  Insert(job);
  shares_.OnWaiting(job.spec->tenant, job.waiting_cost, job.waits_since);
}

bool WaitingLine::Remove(const DispatchJob& job) {
  if (!Contains(job)) return false;
  Erase(job);
  shares_.OnWaitingEnded(job.spec->tenant, job.waiting_cost);
  return true;
}

void WaitingLine::Insert(DispatchJob& job) {
  const auto level = static_cast<size_t>(job.spec->level());
  jobs_.emplace(PlaceOf(job), &job);
  if (level > 0 && job.line_rank != LineRank::kOverdue) stepped_back_.emplace(job.place_in_line, &job);
  ++waiting_[level];
  cost_[level][static_cast<size_t>(job.line_rank)] += job.waiting_cost;
}

void WaitingLine::Erase(const DispatchJob& job) {
  const auto level = static_cast<size_t>(job.spec->level());
  jobs_.erase(PlaceOf(job));
  stepped_back_.erase(job.place_in_line);
  --waiting_[level];
  cost_[level][static_cast<size_t>(job.line_rank)] -= job.waiting_cost;
}

bool WaitingLine::OnPlaced(DispatchJob& job, const PlacedJob& placed) {
  const bool is_first = !job.charged_cost.has_value();
  const bool tells_pace = is_first || !job.outputs.empty();
  if (is_first) {
    job.charged_cost = placed.cost;
    shares_.OnPlaced(job.spec->tenant, placed);
  } else if (tells_pace) {
    shares_.OnPlacedAgain(job.spec->tenant, placed);
  }
  return tells_pace;
}

double WaitingLine::OnEnded(const DispatchJob& job) {
  if (!job.charged_cost.has_value()) return 0;
  output_tokens_ += (job.next_index() - output_tokens_) / kSmoothedOver;
  shares_.OnEnded(job.spec->tenant, CostOf(*job.spec, job.next_index()) - *job.charged_cost);
  const double change = output_tokens_ - usual_outputs_;
  if (!jobs_.empty() || std::abs(change) < kLeastChange * usual_outputs_) return 0;
  usual_outputs_ = output_tokens_;
  shares_.OnUsualCostChanged(kOutputTokenCost * change);
  return kOutputTokenCost * change;
}

bool WaitingLine::TakeTurns() {
  if (!shares_.Update()) return false;
  Jobs jobs;
  for (const auto& [place, job] : jobs_) {
    job->yields = Yields(*job);
    jobs.emplace(PlaceOf(*job), job);
  }
  jobs_ = std::move(jobs);
  return true;
}

void WaitingLine::Rank(TimeNs now, int64_t tokens_ahead) {
  while (!stepped_back_.empty()) {
    DispatchJob& job = *stepped_back_.begin()->second;
    if (now < After(job.marks.arrived, kMaxSteppedBackMs)) break;
    Move(job, LineRank::kOverdue);
  }
  if (ttft_target_ns_ == 0) return;
  for (int32_t level = 0; level < kPriorityLevels; ++level) {
    if (waiting_[static_cast<size_t>(level)] == 0) continue;
    for (const bool yields : {false, true}) RankThose({.yields = yields, .level = level}, now, tokens_ahead);
  }
}

void WaitingLine::RankThose(const Group& group, TimeNs now, int64_t tokens_ahead) {
  while (DispatchJob* job = First(group, LineRank::kOnTime)) {
    const TimeNs first_token = now + NsToFirstToken(tokens_ahead + job->spec->prompt_tokens());
    if (first_token <= job->marks.arrived + ttft_target_ns_) break;
    const bool steps_back = StepsBackWhenLate(job->spec->deadline, job->marks.arrived);
    Move(*job, steps_back ? LineRank::kLate : LineRank::kOverdue);
  }
  while (DispatchJob* job = First(group, LineRank::kLate)) {
    if (now < job->marks.arrived + kMaxLateTargets * ttft_target_ns_) break;
    Move(*job, LineRank::kOverdue);
  }
}

int64_t WaitingLine::ExpectedCost(const JobSpec& spec) const {
  const double outputs = std::min(usual_outputs_, static_cast<double>(spec.sampling.max_tokens));
  return CostOf(spec, static_cast<int64_t>(outputs));
}

int64_t WaitingLine::CostAhead(const JobSpec& spec, bool late) const {
  int64_t ahead = 0;
  for (int32_t level = 0; level < kPriorityLevels; ++level) {
    const auto& cost = cost_[static_cast<size_t>(level)];
    ahead += cost[static_cast<size_t>(LineRank::kOverdue)];
    if (level > spec.level()) continue;
    ahead += cost[static_cast<size_t>(LineRank::kOnTime)];
    if (late || level < spec.level()) ahead += cost[static_cast<size_t>(LineRank::kLate)];
  }
  return std::min(ahead, shares_.CostAhead(spec.tenant));
}

void WaitingLine::OnFirstToken(int64_t elapsed_ns, int64_t prompt_tokens) {
  const auto elapsed = static_cast<double>(elapsed_ns);
  const auto tokens = static_cast<double>(prompt_tokens);
  if (elapsed_ns_ == 0) {
    elapsed_ns_ = elapsed;
    prompt_tokens_ = tokens;
  }
  elapsed_ns_ += (elapsed - elapsed_ns_) / kSmoothedOver;
  prompt_tokens_ += (tokens - prompt_tokens_) / kSmoothedOver;
}

void WaitingLine::Move(DispatchJob& job, LineRank rank) {
  Erase(job);
  job.line_rank = rank;
  Insert(job);
}

DispatchJob* WaitingLine::First(const Group& group, LineRank rank) const {
  const auto it = jobs_.lower_bound({.yields = group.yields, .level = group.level, .rank = rank});
  const bool found =
      it != jobs_.end() && it->first.yields == group.yields && it->first.level == group.level && it->first.rank == rank;
  return found ? it->second : nullptr;
}

}  // namespace baton::router
