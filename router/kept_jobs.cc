#include "router/kept_jobs.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "common/sampling_params.h"
#include "common/status.h"
#include "router/generation_listener.h"
#include "router/refusal_reason.h"

namespace baton::router {
namespace {

// How often what is over is forgotten, and slow followers get more.
constexpr int64_t kTurnMs = 200;
// How many attempts of a job a router may make before a router after it could give their numbers again.
constexpr int kAttemptBits = 16;
// A job that so many routers have taken up may be what ends them.
constexpr uint32_t kMaxRuns = 16;

absl::Status JournalIsBehind() {
  return WithReason(absl::ResourceExhaustedError("too many requests wait to be written to the journal: try again"),
                    RefusalReason::kQueueFull);
}

LiveJobsOptions WithJournal(LiveJobsOptions options, const Journal* journal) {
  options.has_journal = journal != nullptr;
  return options;
}

// Whether what is served now can go on with the job.
absl::Status CheckModel(const KeptRequest& request, const ServedModel& model) {
  if (request.model != model.name) {
    return absl::FailedPreconditionError(absl::StrCat("it is a job of the model ", request.model));
  }
  const std::vector<int32_t>& prompt = request.job->prompt;
  const bool known =
      std::all_of(prompt.begin(), prompt.end(), [&](int32_t id) { return id >= 0 && id < model.config.vocab_size; });
  if (!known) return absl::FailedPreconditionError("the model has not all tokens of its prompt");
  return ValidateSamplingParams(request.job->sampling, model.config.vocab_size);
}

}  // namespace

// Follows one job for all who follow it.
class KeptJobs::Listener final : public JobListener {
 public:
  Listener(KeptJobs& owner, std::shared_ptr<const JobSpec> job, JobOutput output, TimeNs arrived,
           Dispatcher& dispatcher)
      : owner_(owner), job_(std::move(job)), output_(std::move(output)), arrived_(arrived), dispatcher_(dispatcher) {}

  void OnToken(const OutputToken& token) override {
    if (output_.stopped()) return;
    const absl::StatusOr<std::string> text = output_.Push(token.token);
    if (!text.ok()) return dispatcher_.Cancel(job_->key(), absl::InternalError(text.status().message()));
    std::string fingerprint;
    if (!knows_fingerprint_) fingerprint = dispatcher_.FingerprintOf(job_->key());
    knows_fingerprint_ |= !fingerprint.empty();
    owner_.jobs_.OnToken(job_->id, token, *text, fingerprint, owner_.clock_.Now());
    owner_.Apply(dispatcher_);
    if (output_.stopped()) dispatcher_.Cancel(job_->key(), absl::OkStatus());
  }

  void OnEnd(const JobResult& result) override {
    const TimeNs now = owner_.clock_.Now();
    if (result.status.ok()) {
      const std::string tail = output_.Flush();
      owner_.jobs_.OnFinished(job_->id, tail, MakeFinished(*job_, result, output_, arrived_, now), result.fingerprint,
                              now);
    } else {
      owner_.jobs_.OnFailed(job_->id, result.status, std::make_shared<const JobResult>(result), now);
    }
    owner_.Apply(dispatcher_);
  }

 private:
  KeptJobs& owner_;
  const std::shared_ptr<const JobSpec> job_;
  JobOutput output_;
  const TimeNs arrived_;
  Dispatcher& dispatcher_;
  bool knows_fingerprint_ = false;
};

int64_t KeptJobs::SystemUnixMs() { return absl::GetCurrentTimeNanos() / kNsPerMs; }

KeptJobs::KeptJobs(const LiveJobsOptions& options, const ServedModel& model, const Clock& clock, JobLoop& loop,
                   Journal* journal, UnixClock unix_now_ms)
    : model_(model),
      clock_(clock),
      loop_(loop),
      journal_(journal),
      unix_now_ms_(std::move(unix_now_ms)),
      jobs_(WithJournal(options, journal)) {
  loop.Every(kTurnMs, [this](Dispatcher& dispatcher) { OnTimer(dispatcher); });
}

KeptJobs::~KeptJobs() = default;

void KeptJobs::Generate(KeptRequest request, JobOutput output, TimeNs arrived, std::shared_ptr<GenerationSink> sink,
                        Dispatcher& dispatcher) {
  const Id128 call = request.job->id;
  JobId followed = call;
  absl::StatusOr<std::optional<JobId>> with_key = jobs_.FindKey(request);
  absl::Status status = with_key.status();
  if (status.ok() && with_key->has_value()) {
    followed = **with_key;
  } else if (status.ok()) {
    status = Start(request, std::move(output), arrived, dispatcher);
    if (status.ok()) jobs_.Begin(std::move(request), clock_.Now());
  }
  if (status.ok()) status = jobs_.Join(followed, {.call = call, .sink = sink}, clock_.Now());
  if (!status.ok()) WriteFailed(status, *sink);
  Apply(dispatcher);
}

// The listener hears nothing before this task is over.
absl::Status KeptJobs::Start(const KeptRequest& request, JobOutput output, TimeNs arrived, Dispatcher& dispatcher) {
  if (journal_ != nullptr && !journal_->HasRoom()) return JournalIsBehind();
  BATON_RETURN_IF_ERROR(jobs_.PrepareRoom(request));
  return loop_.Submit(request.job,
                      std::make_shared<Listener>(*this, request.job, std::move(output), arrived, dispatcher));
}

void KeptJobs::Resume(const ResumeRequest& request, std::shared_ptr<GenerationSink> sink, Dispatcher& dispatcher) {
  const absl::Status status = jobs_.Resume(request, sink, clock_.Now());
  if (!status.ok()) WriteFailed(status, *sink);
  Apply(dispatcher);
}

bool KeptJobs::Leave(const Id128& call, const absl::Status& why) { return jobs_.Leave(call, why, clock_.Now()); }

void KeptJobs::Recover(std::vector<JournaledJob> jobs, Dispatcher& dispatcher) {
  // Jobs that run again go in this order: first those whose clients have outputs, then the older ones.
  const auto place = [](const JournaledJob& job) { return std::pair(job.ended_unix_ms, job.fingerprint.empty()); };
  std::stable_sort(jobs.begin(), jobs.end(),
                   [&](const JournaledJob& a, const JournaledJob& b) { return place(a) < place(b); });
  const TimeNs now = clock_.Now();
  const int64_t unix_now_ms = unix_now_ms_();
  std::vector<std::pair<JournaledJob, absl::Status>> given_up;
  int running = 0;
  int ended = 0;
  for (JournaledJob& job : jobs) {
    if (job.result != nullptr) {
      // A wall clock that was set back makes no job older than it is.
      const int64_t age_ms = std::max<int64_t>(0, unix_now_ms - job.ended_unix_ms);
      jobs_.Restore(std::move(job), After(now, -age_ms), now);
      ++ended;
      continue;
    }
    absl::Status status = RunAgain(job, dispatcher);
    if (status.ok()) {
      ++running;
    } else {
      spdlog::warn("the journal's job {} is given up: {}", job.id.ToHex(), std::string(status.message()));
      given_up.emplace_back(std::move(job), std::move(status));
    }
  }
  for (auto& [job, why] : given_up) jobs_.RestoreFailed(std::move(job), why, now);
  if (!jobs.empty()) spdlog::info("journal: {} jobs run again, {} that have ended are kept", running, ended);
  OnTimer(dispatcher);
}

absl::Status KeptJobs::RunAgain(JournaledJob& journaled, Dispatcher& dispatcher) {
  const TimeNs now = clock_.Now();
  if (journaled.runs > kMaxRuns) {
    return absl::InternalError(absl::StrCat(kMaxRuns, " routers took the request up, and none came to its end"));
  }
  if (journaled.fingerprint == kSeveralFingerprints) {
    return absl::UnavailableError(
        "the router that ran it has ended, and its outputs were of workers of unequal numerics, so no worker gives "
        "them again: send the request again");
  }
  BATON_RETURN_IF_ERROR(CheckModel(journaled.request, model_));
  BATON_ASSIGN_OR_RETURN(JobOutput output, JobOutput::Create(*model_.tokenizer, journaled.request.stop));
  auto spec = std::make_shared<JobSpec>(*journaled.request.job);
  spec->is_recovered = true;
  spec->attempts_before = journaled.runs << kAttemptBits;
  spec->fingerprint = journaled.fingerprint;
  // Its client may have more outputs than this router will have when a worker fails, and only workers of the
  // fingerprint give these again.
  if (!journaled.fingerprint.empty()) spec->allows_other_numerics = false;
  spec->arrived = now;
  journaled.request.job = spec;
  BATON_RETURN_IF_ERROR(jobs_.PrepareRoom(journaled.request));
  BATON_RETURN_IF_ERROR(
      loop_.Submit(spec, std::make_shared<Listener>(*this, spec, std::move(output), now, dispatcher)));
  jobs_.Restore(std::move(journaled), /*ended=*/0, now);
  return absl::OkStatus();
}

LiveJobCounts KeptJobs::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

void KeptJobs::OnTimer(Dispatcher& dispatcher) {
  jobs_.OnTimer(clock_.Now());
  Apply(dispatcher);
  absl::MutexLock lock(&mutex_);
  counts_ = jobs_.counts();
}

void KeptJobs::Apply(Dispatcher& dispatcher) {
  for (const LiveJobAction& action : jobs_.TakeActions()) {
    std::visit([&](const auto& a) { Handle(a, dispatcher); }, action);
  }
}

// The journal may outlive this object, and then the loop takes no task any more.
void KeptJobs::Handle(const WriteRequest& action, Dispatcher&) {
  journal_->Write(action.request, [this, loop = &loop_, id = action.request->job->id](const absl::Status& status) {
    loop->PostWhenRoom([this, id, status](Dispatcher& dispatcher) {
      jobs_.OnRequestWritten(id, status, clock_.Now());
      Apply(dispatcher);
    });
  });
}

void KeptJobs::Handle(const WriteFingerprint& action, Dispatcher&) {
  journal_->WriteFingerprint(action.id, action.fingerprint,
                             [this, loop = &loop_, id = action.id](const absl::Status& status) {
                               loop->PostWhenRoom([this, id, status](Dispatcher& dispatcher) {
                                 jobs_.OnFingerprintWritten(id, status, clock_.Now());
                                 Apply(dispatcher);
                               });
                             });
}

void KeptJobs::Handle(const WriteResult& action, Dispatcher&) {
  journal_->WriteResult(action.id, action.result, unix_now_ms_());
}

void KeptJobs::Handle(const EraseRecord& action, Dispatcher&) { journal_->Erase(action.id); }

void KeptJobs::Handle(const CancelJob& action, Dispatcher& dispatcher) {
  dispatcher.Cancel({.job = action.id}, action.why);
}

}  // namespace baton::router
