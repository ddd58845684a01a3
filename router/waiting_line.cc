#include "router/waiting_line.h"

namespace baton::router {
namespace {

// First tokens that the estimate remembers, roughly.
constexpr double kSmoothedOver = 8;

}  // namespace

void WaitingLine::Rank(TimeNs now, int64_t tokens_ahead) {
  if (ttft_target_ns_ == 0) return;
  const double ns_per_token = elapsed_ns_ / prompt_tokens_;
  while (DispatchJob* job = First(LineRank::kOnTime)) {
    const double tokens = static_cast<double>(tokens_ahead) + static_cast<double>(job->spec->prompt.size());
    const TimeNs first_token = now + static_cast<int64_t>(ns_per_token * tokens);
    if (first_token <= job->marks.arrived + ttft_target_ns_) break;
    Move(*job, LineRank::kLate);
  }
  while (DispatchJob* job = First(LineRank::kLate)) {
    if (now < job->marks.arrived + kMaxLateTargets * ttft_target_ns_) break;
    Move(*job, LineRank::kOverdue);
  }
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
  Remove(job);
  job.line_rank = rank;
  Add(job);
}

DispatchJob* WaitingLine::First(LineRank rank) const {
  const auto it = jobs_.lower_bound({rank, 0});
  return it == jobs_.end() || it->first.first != rank ? nullptr : it->second;
}

}  // namespace baton::router
