// The jobs that wait for workers, in the order in which they are tried. The order serves the number of jobs that get
// their first token (TTFT) within a target: a job that is too late for the target lets jobs go first that are not. A
// burst then delays a few jobs much instead of all jobs behind it. A job that has waited kMaxLateTargets targets goes
// before all others.
//
//   rank     | event                                                                | next
//   ---------+----------------------------------------------------------------------+---------
//   -        | Add                                                                  | kOnTime
//   kOnTime  | it is the first of its rank, and its first token would be too late   | kLate
//   kOnTime  | the same, and its deadline leaves too little time: StepsBackWhenLate | kOverdue
//   kLate    | it is the first of its rank, submitted kMaxLateTargets targets ago   | kOverdue
//   kOnTime, | its priority is not the highest, and it came kMaxSteppedBackMs ago   | kOverdue
//   kLate    |                                                                      |
//   any      | Hurry                                                                | kOverdue
//   -        | Add of a job that failed after its first token, or is recovered      | kOverdue
//
// Order: kOverdue, then by priority, and within a priority kOnTime, kLate; within a rank by submission. A job that
// comes back from a worker keeps its rank and its place. All this is within the jobs of tenants that have got no more
// than others: the jobs of a tenant that yields (tenant_shares.h) come behind them, in the same order, unless they have
// outputs already. The time of a first token is estimated from how long earlier prompts took.
//
// The highest priority is the default, so a tenant can only step back with it, and never before the jobs of another
// tenant. Its share is its share whatever the priorities of its jobs are: the tenant counters know no priority.
#ifndef BATON_ROUTER_WAITING_LINE_H_
#define BATON_ROUTER_WAITING_LINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "common/clock.h"
#include "router/dispatch_job.h"
#include "router/tenant_shares.h"

namespace baton::router {

inline constexpr int kMaxLateTargets = 4;
// A job of lower priority lets others go first for at most this time.
inline constexpr int64_t kMaxSteppedBackMs = 10'000;

// Used by one thread. Jobs outlive their stay.
class WaitingLine {
 public:
  struct Place {
    bool yields = false;
    bool not_overdue = true;
    // 0: the highest priority.
    int32_t level = 0;
    LineRank rank = LineRank::kOnTime;
    uint64_t number = 0;

    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Jobs = std::map<Place, DispatchJob*>;

  // A target of 0 orders by submission alone.
  explicit WaitingLine(int64_t ttft_target_ns) : ttft_target_ns_(ttft_target_ns) {}

  void Add(DispatchJob& job);
  // False for a job that does not wait.
  bool Remove(const DispatchJob& job);
  bool Contains(const DispatchJob& job) const { return jobs_.contains(PlaceOf(job)); }
  // A waiting job is placed: its tenant is charged, once for each job. Whether the placement tells the pace of the line
  // (queue_pace.h).
  bool OnPlaced(DispatchJob& job, const PlacedJob& placed);
  // A job has ended that does not wait. Its tenant is charged for what it really was. Returns by how much more a job
  // with the usual outputs costs from now on; mostly 0.
  double OnEnded(const DispatchJob& job);
  // Lets tenants yield that have got more than others, and no others. True when the order has changed.
  bool TakeTurns();
  // Jobs of the tenant that wait.
  int32_t waiting(const std::string& tenant) const { return shares_.waiting(tenant); }
  // Brings the ranks up to date. The worker of the next prompt computes `tokens_ahead` prompt tokens before it.
  void Rank(TimeNs now, int64_t tokens_ahead);
  // What a job is expected to cost, in the unit of tenant_shares.h.
  int64_t ExpectedCost(const JobSpec& spec) const;
  // Whether that counts the usual number of outputs, and not the most that the job may have.
  bool HasUsualOutputs(const JobSpec& spec) const { return spec.sampling.max_tokens > usual_outputs_; }
  // What the jobs cost together that wait now and would go before this new one, if it is never late or if it is.
  int64_t CostAhead(const JobSpec& spec, bool late) const;
  // TenantShares::OwnWaitNs for the tenant's jobs among these.
  int64_t OwnWaitNs(const JobSpec& spec, int64_t cost_ahead, TimeNs now) const {
    return shares_.OwnWaitNs(spec.tenant, cost_ahead, now);
  }
  // A first token comes so long after its prompt was placed on a worker that then has so much to compute; 0: unknown.
  int64_t NsToFirstToken(int64_t prompt_tokens) const {
    return static_cast<int64_t>(elapsed_ns_ / prompt_tokens_ * static_cast<double>(prompt_tokens));
  }
  // Whether a job that came at `arrived` and becomes late lets others go first. When it is overdue it must have as much
  // time left as it has waited, because it then waits for those that came before it. Admission's margin is as large.
  bool StepsBackWhenLate(TimeNs deadline, TimeNs arrived) const {
    return deadline >= arrived + 2 * kMaxLateTargets * ttft_target_ns_;
  }
  void Hurry(DispatchJob& job) { Move(job, LineRank::kOverdue); }
  // A first token came `elapsed_ns` after its prompt was placed on a worker that then had `prompt_tokens` to compute,
  // including those of this prompt.
  void OnFirstToken(int64_t elapsed_ns, int64_t prompt_tokens);

  // In order.
  const Jobs& jobs() const { return jobs_; }
  size_t size() const { return jobs_.size(); }

 private:
  static Place PlaceOf(const DispatchJob& job) {
    const bool overdue = job.line_rank == LineRank::kOverdue;
    return {.yields = job.yields,
            .not_overdue = !overdue,
            .level = overdue ? 0 : job.spec->level(),
            .rank = job.line_rank,
            .number = job.place_in_line};
  }
  struct Group {
    bool yields = false;
    int32_t level = 0;
  };
  void Insert(DispatchJob& job);
  void Erase(const DispatchJob& job);
  void Move(DispatchJob& job, LineRank rank);
  void RankThose(const Group& group, TimeNs now, int64_t tokens_ahead);
  // The first job of the group that has this rank, which is not kOverdue, or null.
  DispatchJob* First(const Group& group, LineRank rank) const;
  bool Yields(const DispatchJob& job) const { return job.outputs.empty() && shares_.yields(job.spec->tenant); }

  const int64_t ttft_target_ns_;
  Jobs jobs_;
  // Jobs of lower priority that are not overdue, by submission.
  std::map<uint64_t, DispatchJob*> stepped_back_;
  // How many wait, and what they cost, by level; the cost also by LineRank.
  std::array<int32_t, kPriorityLevels> waiting_ = {};
  std::array<std::array<int64_t, kLineRanks>, kPriorityLevels> cost_ = {};
  TenantShares shares_;
  // Moving average over the requests that have ended.
  double output_tokens_ = 64;
  // What it was when nobody waited. A new job, those before it and those by which the pace was measured count alike:
  // else jobs that become longer while others wait would make the line look longer than it is, by as much.
  double usual_outputs_ = 64;
  // Moving averages of a prompt's time to its first token, and of the tokens computed for it. The estimate is their
  // ratio, in which every token has the same weight. An average of each prompt's own ratio would let one short prompt
  // that waited for something else outweigh all others.
  double elapsed_ns_ = 0;
  double prompt_tokens_ = 1;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_WAITING_LINE_H_
