// The jobs that wait for workers, in the order in which they are tried. What counts is how many get their first token
// (TTFT) within a target: a job that will not lets those go first that may. So a burst makes a few wait longer instead
// of everybody behind it; after kMaxLateTargets targets it is the other way round.
//
//   rank     | event                                                                | next
//   ---------+----------------------------------------------------------------------+---------
//   -        | Add                                                                  | kOnTime
//   kOnTime  | it is the first of its rank, and its first token would be too late   | kLate
//   kLate    | it is the first of its rank, submitted kMaxLateTargets targets ago   | kOverdue
//   any      | Hurry                                                                | kOverdue
//
// Order: kOverdue, kOnTime, kLate; within a rank by submission. A job that comes back from a worker has its rank and
// place again. When a first token would come is estimated from what prompts took.
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

  // 0: by submission alone.
  explicit WaitingLine(int64_t ttft_target_ns) : ttft_target_ns_(ttft_target_ns) {}

  void Add(DispatchJob& job) { jobs_.emplace(Key(job), &job); }
  void Remove(const DispatchJob& job) { jobs_.erase(Key(job)); }
  // Brings the ranks up to date. `tokens_ahead`: prompt tokens that the next prompt's worker computes before.
  void Rank(TimeNs now, int64_t tokens_ahead);
  void Hurry(DispatchJob& job) { Move(job, LineRank::kOverdue); }
  // A prompt's first token came so long after it was placed; its worker then had `prompt_tokens` to compute, its own
  // ones among them.
  void OnFirstToken(int64_t elapsed_ns, int64_t prompt_tokens);
  bool AmongFirst(const DispatchJob& job, size_t count) const;

  // In order.
  const Jobs& jobs() const { return jobs_; }
  size_t size() const { return jobs_.size(); }

 private:
  static Jobs::key_type Key(const DispatchJob& job) { return {job.line_rank, job.place_in_line}; }
  void Move(DispatchJob& job, LineRank rank);
  // Null when there is none.
  DispatchJob* First(LineRank rank) const;

  const int64_t ttft_target_ns_;
  Jobs jobs_;
  // Of a prompt, smoothed apart: their quotient weighs every token alike, so that a short prompt which waited for
  // something else does not count for all.
  double elapsed_ns_ = 0;
  double prompt_tokens_ = 1;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_WAITING_LINE_H_
