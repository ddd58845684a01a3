// Carries out what live_jobs.h decides: submits the jobs that are kept, follows them as the router's loop runs them,
// and writes them to the journal.
#ifndef BATON_ROUTER_KEPT_JOBS_H_
#define BATON_ROUTER_KEPT_JOBS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "router/generation.h"
#include "router/job_loop.h"
#include "router/job_output.h"
#include "router/journal.h"
#include "router/kept_job.h"
#include "router/live_jobs.h"
#include "router/served_model.h"

namespace baton::router {

// Used by the loop alone, but for counts(). It outlives the loop's last task, and its parts outlive it.
class KeptJobs {
 public:
  // The wall clock, in milliseconds.
  using UnixClock = std::function<int64_t()>;

  // `journal` is null where jobs do not outlive the process.
  KeptJobs(const LiveJobsOptions& options, const ServedModel& model, const Clock& clock, JobLoop& loop,
           Journal* journal, UnixClock unix_now_ms = SystemUnixMs);
  ~KeptJobs();

  // The call follows the job that has the request's idempotency key, else a new one. `output` is that job's, and
  // `arrived` is when the call came. The sink hears how it goes, also when it is refused.
  void Generate(KeptRequest request, JobOutput output, TimeNs arrived, std::shared_ptr<GenerationSink> sink,
                Dispatcher& dispatcher);
  void Resume(const ResumeRequest& request, std::shared_ptr<GenerationSink> sink, Dispatcher& dispatcher);
  // As LiveJobs::Leave.
  bool Leave(const Id128& call, const absl::Status& why);
  // Once, first of all: goes on with the jobs of the journal.
  void Recover(std::vector<JournaledJob> jobs, Dispatcher& dispatcher);

  // The counts of the last few tenths of a second. Any thread.
  LiveJobCounts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Listener;

  static int64_t SystemUnixMs();
  absl::Status Start(const KeptRequest& request, JobOutput output, TimeNs arrived, Dispatcher& dispatcher);
  // Why the job cannot go on, if it cannot; then it is still there.
  absl::Status RunAgain(JournaledJob& job, Dispatcher& dispatcher);
  void OnTimer(Dispatcher& dispatcher);
  void Apply(Dispatcher& dispatcher);
  void Handle(const WriteRequest& action, Dispatcher& dispatcher);
  void Handle(const WriteFingerprint& action, Dispatcher& dispatcher);
  void Handle(const WriteResult& action, Dispatcher& dispatcher);
  void Handle(const EraseRecord& action, Dispatcher& dispatcher);
  void Handle(const CancelJob& action, Dispatcher& dispatcher);

  const ServedModel& model_;
  const Clock& clock_;
  JobLoop& loop_;
  Journal* const journal_;
  const UnixClock unix_now_ms_;
  LiveJobs jobs_;
  mutable absl::Mutex mutex_;
  LiveJobCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::router

#endif  // BATON_ROUTER_KEPT_JOBS_H_
