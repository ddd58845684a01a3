#include "router/live_jobs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"

namespace baton::router {
namespace {

size_t BytesOfOutput(const OutputToken& token) { return sizeof(KeptOutput) + token.top.size() * sizeof(TopLogprob); }

}  // namespace

LiveJobs::Key LiveJobs::KeyOf(const KeptRequest& request) {
  return {request.owner, request.job->tenant, request.idempotency_key};
}

size_t LiveJobs::BytesOf(const KeptRequest& request) {
  size_t bytes = sizeof(Job) + sizeof(JobSpec) + request.job->prompt.size() * sizeof(int32_t) + request.owner.size() +
                 request.job->tenant.size() + 2 * request.idempotency_key.size();
  for (const std::string& stop : request.stop) bytes += stop.size();
  bytes += request.job->sampling.logit_bias.size() * sizeof(TokenBias) + request.job->sampling.grammar.text.size();
  return bytes;
}

absl::StatusOr<std::optional<JobId>> LiveJobs::FindKey(const KeptRequest& request) const {
  if (request.idempotency_key.empty()) return std::nullopt;
  const auto it = keys_.find(KeyOf(request));
  if (it == keys_.end()) return std::nullopt;
  if (jobs_.at(it->second).request->body == request.body) return it->second;
  return FieldStatus(
      absl::StatusCode::kAlreadyExists,
      {.field = "idempotency_key", .description = "a request that says something else has this key: take a new key"});
}

absl::Status LiveJobs::PrepareRoom(const KeptRequest& request) {
  if (MakeRoom(BytesOf(request))) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          jobs_.size(), " jobs that run are kept, and the router has room for no other one: try again, or ",
          "without idempotency_key and resumable")),
      RefusalReason::kQueueFull);
}

void LiveJobs::Begin(KeptRequest request, TimeNs now) {
  Job& job = Add(std::make_shared<const KeptRequest>(std::move(request)));
  job.unfollowed_since = now;
  if (!options_.has_journal) return;
  job.has_record = true;
  job.gate = Gate::kUnwritten;
  actions_.push_back(WriteRequest{job.request});
}

void LiveJobs::Restore(JournaledJob journaled, TimeNs ended, TimeNs now) {
  if (!MakeRoom(BytesOf(journaled.request))) return actions_.push_back(EraseRecord{journaled.id});
  Job& job = Add(std::make_shared<const KeptRequest>(std::move(journaled.request)));
  job.unfollowed_since = now;
  job.has_record = options_.has_journal;
  job.gate = journaled.result != nullptr || !journaled.fingerprint.empty() ? Gate::kShown : Gate::kWritten;
  if (journaled.result == nullptr) return;
  job.result = std::move(journaled.result);
  size_t bytes = job.result->text.size();
  for (const KeptOutput& output : job.result->outputs) bytes += BytesOfOutput(output.token);
  Count(job, bytes);
  End(job, ended);
}

void LiveJobs::RestoreFailed(JournaledJob journaled, const absl::Status& why, TimeNs now) {
  if (!MakeRoom(BytesOf(journaled.request))) return actions_.push_back(EraseRecord{journaled.id});
  Job& job = Add(std::make_shared<const KeptRequest>(std::move(journaled.request)));
  job.unfollowed_since = now;
  job.has_record = options_.has_journal;
  End(job, now);
  Fail(job, {.status = why}, now);
}

LiveJobs::Job& LiveJobs::Add(std::shared_ptr<const KeptRequest> request) {
  const JobId id = request->job->id;
  Job& job = jobs_[id];
  BATON_CHECK(job.request == nullptr) << "two jobs have the id " << id.ToHex();
  job.request = std::move(request);
  if (!job.request->idempotency_key.empty()) keys_[KeyOf(*job.request)] = id;
  job.tenants_jobs = &jobs_of_[job.request->job->tenant];
  ++*job.tenants_jobs;
  ++counts_.running;
  Count(job, BytesOf(*job.request));
  return job;
}

LiveJobs::Job* LiveJobs::Find(const JobId& id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

void LiveJobs::Count(Job& job, size_t bytes) {
  job.bytes += bytes;
  counts_.bytes += static_cast<int64_t>(bytes);
}

bool LiveJobs::MakeRoom(size_t bytes) {
  const auto fits = [&] {
    return jobs_.size() < options_.max_jobs && static_cast<size_t>(counts_.bytes) + bytes <= options_.max_bytes;
  };
  while (!fits()) {
    const Job* most = nullptr;
    for (const JobId& id : ended_) {
      const Job& job = jobs_.at(id);
      if (most == nullptr || *job.tenants_jobs > *most->tenants_jobs) most = &job;
    }
    if (most == nullptr) return false;
    ++counts_.evicted;
    Forget(most->request->job->id);
  }
  return true;
}

void LiveJobs::OnToken(const JobId& id, const OutputToken& token, std::string_view text, const std::string& fingerprint,
                       TimeNs now) {
  Job* job = Find(id);
  if (job == nullptr || job->has_ended) return;
  KeptResult& result = *job->result;
  result.text += text;
  result.outputs.push_back({.token = token, .text_end = static_cast<uint32_t>(result.text.size())});
  Count(*job, BytesOfOutput(token) + text.size());
  Mark(*job, token.other_numerics ? kSeveralFingerprints : fingerprint);
  FeedAll(*job, now);
}

void LiveJobs::Mark(Job& job, const std::string& fingerprint) {
  if (fingerprint.empty() || job.fingerprint == kSeveralFingerprints) return;
  job.fingerprint = fingerprint;
  if (!options_.has_journal || job.gate == Gate::kUnwritten) return;
  if (job.gate != Gate::kWritten && fingerprint != kSeveralFingerprints) return;
  job.gate = Gate::kMarking;
  ++job.marks;
  actions_.push_back(WriteFingerprint{job.request->job->id, fingerprint});
}

void LiveJobs::OnFinished(const JobId& id, std::string_view tail, GenerationFinished finished,
                          const std::string& fingerprint, TimeNs now) {
  Job* job = Find(id);
  if (job == nullptr || job->has_ended) return;
  job->result->text += tail;
  job->result->finished = std::move(finished);
  Count(*job, tail.size());
  Mark(*job, fingerprint);
  End(*job, now);
  // Its end was on its way when it was cancelled.
  if (!job->write_failure.ok()) return Fail(*job, {job->write_failure, job->result->finished.job}, now);
  if (options_.has_journal) actions_.push_back(WriteResult{id, job->result});
  FeedAll(*job, now);
}

void LiveJobs::OnFailed(const JobId& id, const absl::Status& why, std::shared_ptr<const JobResult> result, TimeNs now) {
  Job* job = Find(id);
  if (job == nullptr || job->has_ended) return;
  End(*job, now);
  Fail(*job, {.status = job->write_failure.ok() ? why : job->write_failure, .job = std::move(result)}, now);
}

void LiveJobs::End(Job& job, TimeNs at) {
  job.has_ended = true;
  job.ended_at = at;
  job.ended_place = ended_.insert(ended_.end(), job.request->job->id);
  --counts_.running;
  ++counts_.ended;
}

void LiveJobs::Fail(Job& job, GenerationFailed failure, TimeNs now) {
  FreeKey(job);
  // The next router takes up what this one leaves because it ends.
  const bool stays = GetRefusalReason(failure.status) == RefusalReason::kDraining;
  if (!stays) EraseRecordOf(job);
  job.failure = std::move(failure);
  FeedAll(job, now);
}

void LiveJobs::EraseRecordOf(Job& job) {
  if (std::exchange(job.has_record, false)) actions_.push_back(EraseRecord{job.request->job->id});
}

void LiveJobs::FreeKey(const Job& job) {
  const auto it = keys_.find(KeyOf(*job.request));
  if (it != keys_.end() && it->second == job.request->job->id) keys_.erase(it);
}

void LiveJobs::OnRequestWritten(const JobId& id, const absl::Status& status, TimeNs now) {
  Job* job = Find(id);
  if (job == nullptr || job->gate != Gate::kUnwritten) return;
  if (!status.ok()) {
    job->has_record = false;
    return OnWriteFailed(*job, status, now);
  }
  job->gate = Gate::kWritten;
  Mark(*job, std::exchange(job->fingerprint, ""));
  FeedAll(*job, now);
}

void LiveJobs::OnFingerprintWritten(const JobId& id, const absl::Status& status, TimeNs now) {
  Job* job = Find(id);
  if (job == nullptr || job->gate != Gate::kMarking) return;
  if (!status.ok()) return OnWriteFailed(*job, status, now);
  if (--job->marks > 0) return;
  job->gate = Gate::kShown;
  FeedAll(*job, now);
}

void LiveJobs::OnWriteFailed(Job& job, const absl::Status& why, TimeNs now) {
  job.write_failure = absl::UnavailableError(absl::StrCat("the request cannot be kept: ", why.message()));
  if (!job.has_ended) return actions_.push_back(CancelJob{job.request->job->id, job.write_failure});
  if (job.has_finished()) Fail(job, {.status = job.write_failure, .job = job.result->finished.job}, now);
}

void LiveJobs::OnTimer(TimeNs now) {
  const TimeNs kept_since = now - options_.retention_ms * kNsPerMs;
  for (auto it = ended_.begin(); it != ended_.end() && jobs_.at(*it).ended_at <= kept_since;) {
    const JobId id = *it++;
    if (!jobs_.at(id).awaits_journal()) Forget(id);
  }
  const TimeNs followed_since = now - options_.unfollowed_ms * kNsPerMs;
  for (auto& [id, job] : jobs_) {
    if (!job.followers.empty()) {
      FeedAll(job, now);
    } else if (!job.has_ended && !job.was_cancelled && job.unfollowed_since <= followed_since) {
      job.was_cancelled = true;
      ++counts_.unfollowed;
      actions_.push_back(CancelJob{id, absl::CancelledError(absl::StrCat("no client has followed the job for ",
                                                                         options_.unfollowed_ms, " ms"))});
    }
  }
}

void LiveJobs::Forget(JobId id) {
  Job& job = jobs_.at(id);
  for (FollowerState& follower : job.followers) {
    calls_.erase(follower.call);
    WriteFailure(*follower.sink, {SlowReader(), job.result->finished.job});
  }
  FreeKey(job);
  EraseRecordOf(job);
  if (--*job.tenants_jobs == 0) jobs_of_.erase(job.request->job->tenant);
  counts_.bytes -= static_cast<int64_t>(job.bytes);
  --counts_.ended;
  ended_.erase(job.ended_place);
  jobs_.erase(id);
}

LiveJobCounts LiveJobs::counts() const { return counts_; }

}  // namespace baton::router
