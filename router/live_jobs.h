// The jobs that outlive their clients' calls: those with an idempotency key, and those that the client wants to resume.
// Each keeps its outputs, so that any number of calls can follow it, from any index on. Events in, actions out; used by
// one thread, the router's loop. The dispatcher knows nothing of it: to it, such a job is one like all others.
//
//   a kept job  | event                          | next        | what happens
//   ------------+--------------------------------+-------------+-------------------------------------------------------
//   -           | Begin                          | kUnwritten  | WriteRequest; without a journal: as kShown at once
//   -           | Restore                        | kWritten,   | one whose outputs somebody has seen, or that has ended:
//               |                                | kShown      | kShown
//   -           | RestoreFailed                  | failed      | EraseRecord; who resumes it gets the error
//   kUnwritten  | its request is in the journal  | kWritten    | its followers hear that it is accepted
//   kWritten    | output 0                       | kMarking    | WriteFingerprint
//   kMarking    | the fingerprint is there       | kShown      | its followers get the outputs
//   kShown      | an output                      | kShown      | likewise
//   kMarking,   | the first output of other      | kMarking    | WriteFingerprint of several: no router can compute this
//   kShown      | numerics                       |             | output and those before it again
//   any         | the journal cannot write       | failed      | CancelJob, unless it has ended; EraseRecord, unless it
//               |                                |             | is the request that it cannot write
//   any         | it ends well                   | (the same)  | WriteResult; those who follow in kShown get the end
//   any         | it ends with an error          | failed      | its followers get the error; its key is free;
//               |                                |             | EraseRecord, unless the router ends: then the next
//               |                                |             | router takes the job up
//   any, runs   | nobody has followed it for     | (the same)  | CancelJob
//               | unfollowed_ms                  |             |
//   any, ended  | retention_ms have passed, and  | -           | EraseRecord
//               | it waits for no write; or its  |             |
//               | room is needed                 |             |
//
// So a client has seen nothing of a job that a restart could change: not its id before the request is written, and no
// output before it is written which workers compute these very outputs, or that none does.
//
// A follower that does not read waits with what the job keeps anyway, and holds up nobody. It is cut when the job is
// forgotten.
#ifndef BATON_ROUTER_LIVE_JOBS_H_
#define BATON_ROUTER_LIVE_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/limits.h"
#include "router/generation.h"
#include "router/kept_job.h"

namespace baton::router {

inline constexpr int64_t kStateRetentionMs = 600'000;

struct LiveJobsOptions {
  // Without one, jobs live as long as the router.
  bool has_journal = false;
  // How long a job is kept after its end.
  int64_t retention_ms = kStateRetentionMs;
  int64_t unfollowed_ms = kMaxUnfollowedMs;
  // With those that have ended, of which the oldest go first; of the tenant that has the most.
  size_t max_jobs = kMaxKeptJobs;
  // Jobs grow while they run, so a new one is refused at the bound, and no running one is cut.
  size_t max_bytes = kMaxKeptBytes;
};

// What the owner carries out, in order.
struct WriteRequest {
  std::shared_ptr<const KeptRequest> request;
};
struct WriteFingerprint {
  JobId id;
  std::string fingerprint;
};
struct WriteResult {
  JobId id;
  std::shared_ptr<const KeptResult> result;
};
struct EraseRecord {
  JobId id;
};
// OnEnd follows.
struct CancelJob {
  JobId id;
  absl::Status why;
};
using LiveJobAction = std::variant<WriteRequest, WriteFingerprint, WriteResult, EraseRecord, CancelJob>;

struct LiveJobCounts {
  int64_t running = 0;
  int64_t ended = 0;
  int64_t bytes = 0;
  // Since the beginning: calls that follow by an idempotency key, and by Resume; jobs that went because their room was
  // needed, and that were cancelled because nobody followed them.
  int64_t joined = 0;
  int64_t resumed = 0;
  int64_t evicted = 0;
  int64_t unfollowed = 0;
};

class LiveJobs {
 public:
  explicit LiveJobs(const LiveJobsOptions& options) : options_(options) {}

  // A call that follows a job.
  struct Follower {
    // Names the call to Leave. The one that began the job has the job's id.
    Id128 call;
    std::shared_ptr<GenerationSink> sink;
    // As in ResumeRequest.
    int32_t next_index = 0;
    std::optional<int64_t> text_bytes = 0;
  };

  // The job that has the request's idempotency key; nullopt: none has. ALREADY_EXISTS: one of another body has.
  absl::StatusOr<std::optional<JobId>> FindKey(const KeptRequest& request) const;
  // Makes room for the job, which may begin next. RESOURCE_EXHAUSTED: there is none.
  absl::Status PrepareRoom(const KeptRequest& request);
  // A new job, with an id and a key that no other one has.
  void Begin(KeptRequest request, TimeNs now);
  // A job that the journal had; those that have ended come in the order in which they did. `ended`: when that was, on
  // this router's clock.
  void Restore(JournaledJob job, TimeNs ended, TimeNs now);
  // A job that the journal had and that does not run again, after all that have ended: its clients are told why.
  void RestoreFailed(JournaledJob job, const absl::Status& why, TimeNs now);

  // Adds a follower, which hears at once what is there. NOT_FOUND: no such job, or one of another owner;
  // INVALID_ARGUMENT: the job has ended, and has no such index. Then the sink hears nothing from here.
  absl::Status Join(const JobId& job, Follower follower, TimeNs now);
  absl::Status Resume(const ResumeRequest& request, std::shared_ptr<GenerationSink> sink, TimeNs now);
  // Ends the call with `why`; its job runs on. False: it follows no job, and has begun none.
  bool Leave(const Id128& call, const absl::Status& why, TimeNs now);

  // These ignore unknown jobs. `text` is what became certain with the token.
  // `fingerprint` is that of the workers that give the outputs; empty: unknown.
  void OnToken(const JobId& id, const OutputToken& token, std::string_view text, const std::string& fingerprint,
               TimeNs now);
  // The job has ended well, with text that was held back, on workers of the fingerprint.
  void OnFinished(const JobId& id, std::string_view tail, GenerationFinished finished, const std::string& fingerprint,
                  TimeNs now);
  // `job` as in GenerationFailed.
  void OnFailed(const JobId& id, const absl::Status& why, std::shared_ptr<const JobResult> job, TimeNs now);
  // The journal has the request, or the fingerprint; or it cannot write that.
  void OnRequestWritten(const JobId& id, const absl::Status& status, TimeNs now);
  void OnFingerprintWritten(const JobId& id, const absl::Status& status, TimeNs now);
  // Forgets what is over, cancels what nobody follows, and gives those more who had no room before. To be called a few
  // times a second.
  void OnTimer(TimeNs now);

  std::vector<LiveJobAction> TakeActions() { return std::exchange(actions_, {}); }
  LiveJobCounts counts() const;

 private:
  enum class Gate : uint8_t { kUnwritten, kWritten, kMarking, kShown };

  struct FollowerState : Follower {
    bool was_accepted = false;
    bool follows = false;
  };

  struct Job {
    std::shared_ptr<const KeptRequest> request;
    // Grows while the job runs.
    std::shared_ptr<KeptResult> result = std::make_shared<KeptResult>();
    Gate gate = Gate::kShown;
    // The journal may have it.
    bool has_record = false;
    bool has_ended = false;
    // Its status is not OK: the job has failed.
    GenerationFailed failure;
    std::list<FollowerState> followers;
    // Since when nobody has followed the job.
    TimeNs unfollowed_since = 0;
    bool was_cancelled = false;
    // Why the journal could not keep it.
    absl::Status write_failure;
    // The fingerprint of the workers that gave the outputs, or kSeveralFingerprints.
    std::string fingerprint;
    // WriteFingerprint actions that the journal has not answered.
    int marks = 0;
    TimeNs ended_at = 0;
    std::list<JobId>::iterator ended_place;
    size_t bytes = 0;
    // Its tenant's, in jobs_of_.
    int64_t* tenants_jobs = nullptr;

    bool has_finished() const { return has_ended && failure.status.ok(); }
    // It has ended, and the journal has yet to say whether its followers may hear that.
    bool awaits_journal() const { return has_finished() && (gate == Gate::kUnwritten || gate == Gate::kMarking); }
  };
  // Owner, stated tenant and key.
  using Key = std::tuple<std::string, std::string, std::string>;

  static Key KeyOf(const KeptRequest& request);
  static size_t BytesOf(const KeptRequest& request);
  Job& Add(std::shared_ptr<const KeptRequest> request);
  Job* Find(const JobId& id);
  bool MakeRoom(size_t bytes);
  void Count(Job& job, size_t bytes);
  void End(Job& job, TimeNs at);
  void Fail(Job& job, GenerationFailed failure, TimeNs now);
  void FreeKey(const Job& job);
  // The outputs are those of workers with this fingerprint; kSeveralFingerprints stays.
  void Mark(Job& job, const std::string& fingerprint);
  // The journal could not write what the followers wait for.
  void OnWriteFailed(Job& job, const absl::Status& why, TimeNs now);
  void EraseRecordOf(Job& job);
  // The id is a copy, because that of the list dies.
  void Forget(JobId id);
  // live_jobs_followers.cc:
  absl::Status Follow(Job& job, FollowerState follower, TimeNs now);
  static void WriteFailure(GenerationSink& sink, const GenerationFailed& failure);
  // Gives all followers what they may have.
  void FeedAll(Job& job, TimeNs now);
  // True: the follower has its end.
  bool Feed(const Job& job, FollowerState& follower);
  // False: the sink had no room after all.
  static bool FeedOutputs(const Job& job, FollowerState& follower);
  // The first byte of the text that the follower lacks.
  static size_t TextAt(const KeptResult& result, const FollowerState& follower);

  const LiveJobsOptions options_;
  // In an order that does not depend on the process, so that a run of the simulator can be repeated.
  std::map<JobId, Job> jobs_;
  absl::flat_hash_map<Key, JobId> keys_;
  absl::flat_hash_map<Id128, JobId> calls_;
  absl::node_hash_map<std::string, int64_t> jobs_of_;
  // Oldest first.
  std::list<JobId> ended_;
  LiveJobCounts counts_;
  std::vector<LiveJobAction> actions_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_LIVE_JOBS_H_
