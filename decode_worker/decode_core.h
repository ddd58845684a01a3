// The decode phase: which jobs get a slot and blocks, when their KV is pulled, what is streamed. A policy on the
// engine's loop; pulling is kvtransfer::KvSink's, the arithmetic is the engine's.
//
//   state      | event                        | next       | actions
//   -----------+------------------------------+------------+-----------------------------------------------------------
//   -          | OnDecode, room and a slot    | kFetching  | Engine::Reserve, Update(kStarted), KvFetcher::Start
//   -          | OnDecode(local), likewise    | kRunning   | Engine::Reserve and StartPrefill, Update(kStarted)
//   -          | OnDecode, no room            | gone       | End(RESOURCE_EXHAUSTED)
//   -          | OnDecode, its grammar is not | kPreparing | ConstraintSource::Prepare; the job has a slot and no blocks
//              | ready, a slot                |            |
//   kPreparing | its grammar is ready         | as OnDecode| as OnDecode
//   kPreparing | OnCancel, deadline           | gone       | End(status)
//   kFetching  | OnCommitted                  | kRunning   | Update(kKvCommitted), Update(token 0), Engine::StartDecode
//   kFetching  | OnCommitted, ended by token 0| gone       | Update(token 0), Update(kFinished), End(OK), release
//   kFetching  | OnFetchFailed                | gone       | End(status), release
//   kFetching  | OnCancel, deadline           | kAbandoned | End(status), KvFetcher::Cancel
//   kAbandoned | OnCommitted, OnFetchFailed   | gone       | release: only now nothing writes the blocks any more
//   kRunning   | a token                      | kRunning   | Update(kToken)
//   kRunning   | the last token               | gone       | Update(kToken), Update(kFinished), End(OK), release
//   kRunning   | OnHandOver                   | kRunning   | (kept for the next token)
//   kRunning   | a token but the last, with a | kFrozen    | Update(kToken), KvServer::Offer, Engine::Freeze,
//              | hand-over                    |            | Update(kFrozen)
//   kRunning   | likewise, Offer is refused   | kRunning   | Update(kToken) (tried again at the next token)
//   kRunning   | OnCancel, deadline           | gone       | End(status), release
//   kFrozen    | OnHandOver that takes it back| kRunning   | KvServer::Cancel, Engine::Thaw
//   kFrozen    | OnLicence                    | kFrozen    | KvServer::Announce of all blocks, KvServer::Complete
//   kFrozen    | OnRelease                    | gone       | End(OK), release
//   kFrozen    | OnRevoke without a licence   | gone       | End(status), release
//   kFrozen    | OnCancel, deadline           | kFrozen    | End(status), KvServer::Cancel; a reader may still read
#ifndef BATON_DECODE_WORKER_DECODE_CORE_H_
#define BATON_DECODE_WORKER_DECODE_CORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/clock.h"
#include "common/kv_origin.h"
#include "common/worker_job.h"
#include "engine/engine.h"
#include "engine/token_constraint.h"
#include "kvtransfer/kv_sink.h"
#include "worker/kv_fetcher.h"
#include "worker/kv_server.h"
#include "worker/worker_core.h"

namespace baton::decode_worker {

struct DecodeOptions {
  // On a mixed worker: blocks for one maximal prompt stay free beyond a new job's, unless the pool is idle.
  bool leaves_room_for_prompt = false;
};

// Where the prompt's KV comes from.
struct DecodeSource {
  // The worker computes the prompt itself.
  bool local = false;
  std::string prefill_target;
  Incarnation prefill_incarnation;
  // The workers that it came through before, in order: the job ran at that worker, which hands it over.
  std::vector<KvOrigin> earlier = {};
};

class DecodeCore final : public worker::PhaseCore, public worker::KvReceiver, public worker::KvOwner {
 public:
  // Adds itself to `worker` as a phase, as the receiver of what is fetched, and as an owner of blocks that are served.
  // Both references outlive the core.
  DecodeCore(const DecodeOptions& options, worker::WorkerCore& worker, UpdateSink& updates);

  // Ends the call at once, through the UpdateSink, when the job is refused.
  void OnDecode(WorkerJob job, const DecodeSource& source);
  void OnCancel(const JobKey& key, const absl::Status& why);
  // Ignored for a job that does not decode here: its end is on the way.
  void OnHandOver(const JobKey& key, const HandOver& hand_over);
  void OnCommitted(const kvtransfer::Committed& committed) override;
  void OnFetchFailed(const kvtransfer::FetchFailed& failed) override;

  // Whether the attempt goes on elsewhere, with KV that is read here.
  bool Serves(const JobKey& key) const override { return handed_over_.contains(key); }
  void OnLicence(const JobKey& key, int32_t first_block) override;
  void OnRevoke(const JobKey& key, const absl::Status& why) override;
  void OnRelease(const JobKey& key) override;
  void OnSettled() override {}

  bool OnStepEvent(const engine::StepEvent& event) override;
  bool Owns(engine::SequenceId sequence) const override { return by_sequence_.contains(sequence); }
  worker::Holding HoldingOf(const engine::HeldBlocks& held) const override;
  void OnTimer() override;
  TimeNs NextTimer() const override;

  int32_t waiting_jobs() const override { return static_cast<int32_t>(preparing_.size()); }
  int32_t headroom_blocks() const override { return headroom_blocks_; }

  int32_t job_count() const { return static_cast<int32_t>(jobs_.size()); }

 private:
  enum class State : uint8_t { kPreparing, kFetching, kAbandoned, kRunning, kFrozen };
  // What goes to the worker that goes on.
  struct Frozen {
    std::vector<BlockId> blocks;
    OutputToken last;
    bool licensed = false;
    bool call_ended = false;
  };
  struct Job {
    WorkerJob job;
    DecodeSource source;
    State state = State::kPreparing;
    // The job holds it in kPreparing; it is null where there is nothing to wait for.
    std::shared_ptr<const engine::PreparedGrammar> grammar;
    // Valid once the job has left kPreparing.
    engine::SequenceId sequence = 0;
    TimeNs started = 0;
    TimeNs running_since = 0;
    std::string kv_digest;
    WorkerReport report;
    // What the router has asked for.
    std::optional<HandOver> hand_over;
    // In kFrozen.
    Frozen frozen;
  };

  absl::Status FindSlot(const JobKey& key) const;
  std::shared_ptr<const engine::PreparedGrammar> Prepare(const WorkerJob& job);
  // The job leaves kPreparing, and may be gone.
  void Begin(const JobKey& key);
  absl::StatusOr<engine::SequenceId> Reserve(const Job& job);
  void Fetch(const Job& job, int32_t cached_tokens);
  bool IsPrepared(const JobKey& key) const { return jobs_.at(key).grammar->is_ready(); }
  // Streams the token; the last one ends the job, which must not be used afterwards.
  void OnToken(Job& job, const OutputToken& token);
  void FinishJob(Job& job);
  void Freeze(Job& job, const OutputToken& last);
  void TakeBack(Job& job);
  Job& JobOf(const JobKey& next) { return jobs_.at(handed_over_.at(next)); }
  void EndCall(const JobKey& key, TimeNs deadline, const absl::Status& status);
  void Forget(const JobKey& key);

  const Clock& clock_;
  engine::Engine& engine_;
  worker::KvFetcher& fetcher_;
  worker::KvServer& kv_server_;
  // Jobs at once, whatever their state.
  const int32_t max_sequences_;
  const int32_t headroom_blocks_;
  engine::ConstraintSource* const constraints_;
  UpdateSink& updates_;
  absl::flat_hash_map<JobKey, Job> jobs_;
  absl::flat_hash_map<engine::SequenceId, JobKey> by_sequence_;
  // The jobs that wait for their grammars, in the order in which they came.
  std::vector<JobKey> preparing_;
  // The jobs in kFrozen, by the attempt that goes on.
  absl::flat_hash_map<JobKey, JobKey> handed_over_;
  // Deadlines of the jobs whose call is open.
  std::set<std::pair<TimeNs, JobKey>> deadlines_;
};

}  // namespace baton::decode_worker

#endif  // BATON_DECODE_WORKER_DECODE_CORE_H_
