// The jobs that wait for workers, in the order in which they are tried. The order serves the number of jobs that get
// their first token (TTFT) within a target: a job that is too late for the target lets jobs go first that are not. A
// burst then delays a few jobs much instead of all jobs behind it. A job that has waited kMaxLateTargets targets goes
// before all others.
//
//   rank     | event                                                                | next
//   ---------+----------------------------------------------------------------------+---------
//   -        | Add                                                                  | kOnTime
//   kOnTime  | it is the first of its rank, and its first token would be too late   | kLate
//   kLate    | it is the first of its rank, submitted kMaxLateTargets targets ago   | kOverdue
//   any      | Hurry                                                                | kOverdue
//   -        | Add of a job whose attempt failed after its first token               | kOverdue
//
// Order: kOverdue, kOnTime, kLate; within a rank by submission. A job that comes back from a worker keeps its rank and
// its place. The time of a first token is estimated from how long earlier prompts took.
#ifndef BATON_ROUTER_WAITING_LINE_H_
#define BATON_ROUTER_WAITING_LINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "common/clock.h"
#include "router/dispatch_job.h"

namespace baton::router {

inline constexpr int kMaxLateTargets = 4;

// Used by one thread. Jobs outlive their stay.
class WaitingLine {
 public:
  using Jobs = std::map<std::pair<LineRank, uint64_t>, DispatchJob*>;

  // A target of 0 orders by submission alone.
  explicit WaitingLine(int64_t ttft_target_ns) : ttft_target_ns_(ttft_target_ns) {}

  void Add(DispatchJob& job) { jobs_.emplace(Key(job), &job); }
  // False for a job that does not wait.
  bool Remove(const DispatchJob& job) { return jobs_.erase(Key(job)) > 0; }
  bool Contains(const DispatchJob& job) const { return jobs_.contains(Key(job)); }
  // Brings the ranks up to date. The worker of the next prompt computes `tokens_ahead` prompt tokens before it.
  void Rank(TimeNs now, int64_t tokens_ahead);
  void Hurry(DispatchJob& job) { Move(job, LineRank::kOverdue); }
  // A first token came `elapsed_ns` after its prompt was placed on a worker that then had `prompt_tokens` to compute,
  // including those of this prompt.
  void OnFirstToken(int64_t elapsed_ns, int64_t prompt_tokens);

  // In order.
  const Jobs& jobs() const { return jobs_; }
  size_t size() const { return jobs_.size(); }

 private:
  static Jobs::key_type Key(const DispatchJob& job) { return {job.line_rank, job.place_in_line}; }
  void Move(DispatchJob& job, LineRank rank);
  // The first job of this rank, or null.
  DispatchJob* First(LineRank rank) const;

  const int64_t ttft_target_ns_;
  Jobs jobs_;
  // Moving averages of a prompt's time to its first token, and of the tokens computed for it. The estimate is their
  // ratio, in which every token has the same weight. An average of each prompt's own ratio would let one short prompt
  // that waited for something else outweigh all others.
  double elapsed_ns_ = 0;
  double prompt_tokens_ = 1;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_WAITING_LINE_H_
