// Calls that follow a job: they come, get what they lack, and leave.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "router/error_details.h"
#include "router/live_jobs.h"
#include "router/refusal_reason.h"

namespace baton::router {
namespace {

// A follower gets what it lacks in pieces of this size, of which as many wait for its client as may.
constexpr size_t kMaxOutputsOfPiece = 256;

absl::Status UnknownJob(const JobId& id) {
  return absl::NotFoundError(absl::StrCat("no job ", id.ToHex(),
                                          " is kept here: it was not resumable, ended too long ago, is another "
                                          "tenant's, or was lost with a router without --state-dir"));
}

absl::Status BeyondTheEnd(int32_t next_index, size_t outputs) {
  return FieldViolation("next_index", absl::StrCat(next_index, " lies beyond the job's ", outputs, " outputs"));
}

}  // namespace

absl::Status LiveJobs::Join(const JobId& id, Follower follower, TimeNs now) {
  Job* job = Find(id);
  if (job == nullptr) return UnknownJob(id);
  const bool follows = follower.call != id;
  BATON_RETURN_IF_ERROR(Follow(*job, {std::move(follower), /*was_accepted=*/false, follows}, now));
  if (follows) ++counts_.joined;
  return absl::OkStatus();
}

absl::Status LiveJobs::Resume(const ResumeRequest& request, std::shared_ptr<GenerationSink> sink, TimeNs now) {
  Job* job = Find(request.job);
  // Whether another owner has such a job is nobody's business.
  if (job == nullptr || job->request->owner != request.authenticated_tenant) return UnknownJob(request.job);
  if (request.next_index < 0) return FieldViolation("next_index", "must not be below 0");
  if (request.text_bytes.value_or(0) < 0) return FieldViolation("text_bytes", "must not be below 0");
  BATON_RETURN_IF_ERROR(Follow(*job,
                               {{.call = request.id,
                                 .sink = std::move(sink),
                                 .next_index = request.next_index,
                                 .text_bytes = request.text_bytes},
                                /*was_accepted=*/false,
                                /*follows=*/true},
                               now));
  ++counts_.resumed;
  return absl::OkStatus();
}

absl::Status LiveJobs::Follow(Job& job, FollowerState follower, TimeNs now) {
  const size_t outputs = job.result->outputs.size();
  // One that has failed may have had more outputs at a router before this one.
  if (job.has_finished() && static_cast<size_t>(follower.next_index) > outputs) {
    return BeyondTheEnd(follower.next_index, outputs);
  }
  calls_[follower.call] = job.request->job->id;
  job.followers.push_back(std::move(follower));
  FeedAll(job, now);
  return absl::OkStatus();
}

bool LiveJobs::Leave(const Id128& call, const absl::Status& why, TimeNs now) {
  const auto it = calls_.find(call);
  // The call that began a job has the job's id, and may have been cut.
  if (it == calls_.end()) return jobs_.contains(call);
  Job& job = jobs_.at(it->second);
  calls_.erase(it);
  job.followers.remove_if([&](const FollowerState& follower) {
    if (follower.call != call) return false;
    WriteFailure(*follower.sink, {why});
    return true;
  });
  if (job.followers.empty()) job.unfollowed_since = now;
  return true;
}

void LiveJobs::FeedAll(Job& job, TimeNs now) {
  if (job.followers.empty()) return;
  job.followers.remove_if([&](FollowerState& follower) {
    if (!Feed(job, follower)) return false;
    calls_.erase(follower.call);
    return true;
  });
  if (job.followers.empty()) job.unfollowed_since = now;
}

bool LiveJobs::Feed(const Job& job, FollowerState& follower) {
  const JobSpec& spec = *job.request->job;
  GenerationSink& sink = *follower.sink;
  const bool has_failed = !job.failure.status.ok();
  if (has_failed && job.gate != Gate::kShown) {
    WriteFailure(sink, job.failure);
    return true;
  }
  if (job.gate == Gate::kUnwritten) return false;
  const auto write = [&sink](GenerationEvent event) { return sink.Write(std::move(event)); };
  if (!std::exchange(follower.was_accepted, true) &&
      !write(GenerationAccepted{.id = spec.id,
                                .seed = spec.sampling.seed,
                                .prompt_tokens = static_cast<int32_t>(spec.prompt_tokens()),
                                .is_kept = true,
                                .follows = follower.follows})) {
    WriteFailure(sink, {SlowReader()});
    return true;
  }
  if (job.gate != Gate::kShown) return false;
  const KeptResult& result = *job.result;
  if (!FeedOutputs(job, follower)) {
    WriteFailure(sink, {SlowReader()});
    return true;
  }
  if (!job.has_ended || static_cast<size_t>(follower.next_index) < result.outputs.size()) return false;
  if (has_failed) {
    WriteFailure(sink, job.failure);
  } else if (static_cast<size_t>(follower.next_index) > result.outputs.size()) {
    WriteFailure(sink, {BeyondTheEnd(follower.next_index, result.outputs.size())});
  } else {
    const std::string tail = result.text.substr(std::min(TextAt(result, follower), result.text.size()));
    const bool told = (tail.empty() || write(GenerationDelta{.text = tail})) && write(result.finished);
    if (!told) WriteFailure(sink, {SlowReader(), result.finished.job});
  }
  return true;
}

size_t LiveJobs::TextAt(const KeptResult& result, const FollowerState& follower) {
  if (!follower.text_bytes.has_value()) {
    return follower.next_index == 0 ? 0 : result.outputs[static_cast<size_t>(follower.next_index) - 1].text_end;
  }
  // Clients have whole characters; what another one gets are such, too.
  auto at = static_cast<size_t>(*follower.text_bytes);
  while (at < result.text.size() && (static_cast<uint8_t>(result.text[at]) & 0xc0) == 0x80) ++at;
  return at;
}

bool LiveJobs::FeedOutputs(const Job& job, FollowerState& follower) {
  const KeptResult& result = *job.result;
  while (static_cast<size_t>(follower.next_index) < result.outputs.size()) {
    const auto begin = static_cast<size_t>(follower.next_index);
    const size_t end = std::min(begin + kMaxOutputsOfPiece, result.outputs.size());
    const size_t text_at = TextAt(result, follower);
    const size_t text_end = std::max<size_t>(result.outputs[end - 1].text_end, text_at);
    GenerationDelta delta{.has_logprobs = job.request->job->sampling.logprobs >= 0};
    if (text_at < result.text.size()) delta.text = result.text.substr(text_at, text_end - text_at);
    for (size_t i = begin; i < end; ++i) delta.tokens.push_back(result.outputs[i].token);
    if (!follower.sink->HasRoom(delta)) return true;
    if (!follower.sink->Write(std::move(delta))) return false;
    follower.next_index = static_cast<int32_t>(end);
    follower.text_bytes = static_cast<int64_t>(text_end);
  }
  return true;
}

void LiveJobs::WriteFailure(GenerationSink& sink, const GenerationFailed& failure) {
  BATON_CHECK(sink.Write(GenerationFailed{WithRetryAfter(failure.status), failure.job}))
      << "a sink has room for the end";
}

}  // namespace baton::router
