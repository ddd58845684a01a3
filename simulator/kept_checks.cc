// Whether clients whose requests outlive their calls hear what is right.
#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "router/refusal_reason.h"
#include "simulator/kept_clients.h"

namespace baton::simulator {
namespace {

// The journal knows when a job ended to the millisecond.
constexpr int64_t kEndedNs = 2 * kNsPerMs;

bool IsUnknownJob(const absl::Status& status) {
  return absl::IsNotFound(status) && absl::StrContains(status.message(), "is kept here");
}
bool IsUnwritten(const absl::Status& status) {
  return absl::IsUnavailable(status) && absl::StrContains(status.message(), "cannot be kept");
}
bool IsUnfollowed(const absl::Status& status) {
  return absl::IsCancelled(status) && absl::StrContains(status.message(), "no client has followed");
}
bool IsBehind(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && absl::StrContains(status.message(), "wait to be written");
}

}  // namespace

void KeptClients::Wrong(const Request& request, const std::string& what) {
  sim_.Fail(absl::StrCat("kept ", request.kept.job->id.ToHex(), ": ", what));
}

void KeptClients::OnEvent(Call& call, const router::GenerationEvent& event) {
  if (call.has_end) return Wrong(call.request, "a call hears more after its end");
  call.has_end = std::holds_alternative<router::GenerationFinished>(event) ||
                 std::holds_alternative<router::GenerationFailed>(event);
  if (call.is_left) return;
  std::visit([&](const auto& what) { On(call, what); }, event);
}

void KeptClients::On(Call& call, const router::GenerationAccepted& accepted) {
  Request& request = call.request;
  const router::JobSpec& asked = *request.kept.job;
  if (std::exchange(call.was_accepted, true)) return Wrong(request, "is accepted twice");
  const auto job = jobs_.find(accepted.id);
  if (job == jobs_.end() || job->second.request != &request) return Wrong(request, "follows another one's job");
  if (call.job.has_value() && *call.job != accepted.id) return Wrong(request, "resumes another job");
  if (!accepted.is_kept || accepted.follows != (accepted.id != call.id) || accepted.seed != asked.sampling.seed ||
      accepted.prompt_tokens != asked.prompt_tokens()) {
    return Wrong(request, "is accepted wrongly");
  }
  if (!call.job.has_value() && accepted.follows) ++sim_.counts.joined;
  call.job = accepted.id;
  request.job = accepted.id;
}

void KeptClients::On(Call& call, const router::GenerationDelta& delta) {
  Request& request = call.request;
  const KeptOracle& oracle = request.oracle;
  if (!call.was_accepted) return Wrong(request, "has outputs before it is accepted");
  for (const OutputToken& token : delta.tokens) {
    const size_t index = call.next_index++;
    if (token.index != static_cast<int32_t>(index)) {
      return Wrong(request, absl::StrCat("has token ", token.index, " in place of ", index));
    }
    if (index >= oracle.tokens.size()) return Wrong(request, "has too many tokens");
    if (token.token != oracle.tokens[index]) return Wrong(request, absl::StrCat("token ", index, " is wrong"));
  }
  if (oracle.text.compare(std::min(call.text_at, oracle.text.size()), delta.text.size(), delta.text) != 0) {
    return Wrong(request, absl::StrCat("has wrong text from byte ", call.text_at));
  }
  call.text_at += delta.text.size();
  if (call.next_index < request.tokens) return;
  request.tokens = call.next_index;
  request.text_bytes = std::max(request.text_bytes, call.text_at);
}

void KeptClients::On(Call& call, const router::GenerationFinished& finished) {
  Request& request = call.request;
  const KeptOracle& oracle = request.oracle;
  const SamplingParams& sampling = request.kept.job->sampling;
  sim_.Trace("client: ", call.id.ToHex(), " has all of ", finished.id.ToHex());
  if (!call.job.has_value() || finished.id != *call.job || finished.seed != sampling.seed) {
    return Wrong(request, "ends as another job");
  }
  if (call.next_index != oracle.tokens.size()) return Wrong(request, "ends with too few tokens");
  if (call.text_at != oracle.text.size()) return Wrong(request, "ends with too little text");
  const std::vector<int32_t>& stops = sampling.stop_token_ids;
  const int32_t last = oracle.tokens.back();
  const bool is_stopped = oracle.is_cut || (last == kEosId && !sampling.ignore_eos) ||
                          std::find(stops.begin(), stops.end(), last) != stops.end();
  if (finished.reason != (is_stopped ? FinishReason::kStop : FinishReason::kLength)) {
    return Wrong(request, "has the wrong finish reason");
  }
  // Workers may have gone on for a while behind a stop string.
  if (finished.usage.prompt_tokens != request.kept.job->prompt_tokens() ||
      (!oracle.is_cut && finished.usage.output_tokens != static_cast<int32_t>(oracle.tokens.size()))) {
    return Wrong(request, "counts its tokens wrong");
  }
  Close(call);
  ComeBackAfterEnd(request, /*well=*/true);
}

void KeptClients::On(Call& call, const router::GenerationFailed& failed) {
  sim_.Trace("client: ", call.id.ToHex(), " fails: ", failed.status.ToString());
  if (!MayFail(call, failed.status)) Wrong(call.request, "fails without a cause: " + failed.status.ToString());
  Close(call);
  ComeBackAfterEnd(call.request, /*well=*/false);
}

bool KeptClients::MayFail(const Call& call, const absl::Status& status) {
  if (IsUnknownJob(status)) {
    ++sim_.counts.forgotten;
    return call.job.has_value() && MayBeForgotten(call, jobs_.at(*call.job));
  }
  if (IsBehind(status)) return setup_.max_new_jobs < kMaxUnwrittenJobs;
  const auto is_cause = [&](const auto& entry) {
    const Job& job = entry.second;
    if (job.request != &call.request) return false;
    const bool is_over = !job.runs && job.ended > 0;
    if (router::GetRefusalReason(status) == router::RefusalReason::kSlowReader) {
      return call.slow_until > 0 && is_over && RetentionMayBeOver(job, call.router);
    }
    if (job.router != &call.router) return false;
    if (IsUnwritten(status)) return call.router.journal_disk().RefusedSince(job.began);
    // What the dispatcher said of it was checked then.
    return is_over && job.end.code() == status.code() && job.end.message() == status.message();
  };
  if (IsUnwritten(status)) ++sim_.counts.unwritten;
  return std::any_of(jobs_.begin(), jobs_.end(), is_cause);
}

bool KeptClients::RetentionMayBeOver(const Job& job, const RouterNode& router) const {
  return sim_.leapt.contains(Simulation::RouterName(router.number())) ||
         sim_.queue.Now() >= job.ended + setup_.live.retention_ms * kNsPerMs - kEndedNs;
}

// What the journal cannot keep fails, also where that shows after its end.
bool KeptClients::HasFailed(const Job& job, const RouterNode& router) {
  return job.had_failed || (job.ended > 0 && (!job.end.ok() || router.journal_disk().RefusedSince(job.began)));
}

// A router takes up nothing that has failed.
bool KeptClients::MayBeForgotten(const Call& call, const Job& job) const {
  if (job.runs || job.ended == 0) return false;
  if (RetentionMayBeOver(job, call.router)) return true;
  return job.router != &call.router && HasFailed(job, call.router);
}

void KeptClients::CheckKey(const Request& request, const RouterNode& router) {
  if (request.kept.idempotency_key.empty()) return;
  for (const auto& [id, job] : jobs_) {
    if (job.request != &request || job.router != &router || HasFailed(job, router)) continue;
    if (job.runs) Wrong(request, "a second job begins for its key");
    if (job.ended > 0 && !RetentionMayBeOver(job, router)) Wrong(request, "a job begins though its key has a result");
  }
}

bool KeptClients::OnJobEnd(const JobId& id, const absl::Status& status) {
  Job& job = jobs_.at(id);
  job.runs = false;
  job.end = status;
  job.ended = sim_.queue.Now();
  if (IsUnwritten(status)) {
    if (!job.router->journal_disk().RefusedSince(job.began)) Wrong(*job.request, "could be kept");
    return true;
  }
  if (!IsUnfollowed(status)) return false;
  CheckUnfollowed(id, job);
  return true;
}

void KeptClients::CheckUnfollowed(const JobId& id, const Job& job) {
  ++sim_.counts.unfollowed;
  for (const auto& [call_id, call] : calls_) {
    if (call->was_accepted && call->job == id) Wrong(*job.request, "is cancelled while a client follows it");
  }
  const TimeNs since = std::max(job.began, job.followed);
  const bool is_early = sim_.queue.Now() < since + setup_.live.unfollowed_ms * kNsPerMs;
  if (is_early && !sim_.leapt.contains(Simulation::RouterName(job.router->number()))) {
    Wrong(*job.request, "is cancelled too early");
  }
}

}  // namespace baton::simulator
