// The prefill phase: which licensed prompt starts when, and what is said about it. A policy on the engine's loop; the
// rules of licence and lease are worker::KvServer's, the arithmetic is the engine's.
//
//   state      | event                              | next       | actions
//   -----------+------------------------------------+------------+-----------------------------------------------------
//   -          | OnPrefill                          | kUnlicensed| KvServer::Offer
//   kUnlicensed| OnLicence                          | kReady     | joins the line
//   kUnlicensed| OnLicence, with a grammar          | kPreparing | joins the line of those whose grammars are compiled
//   kPreparing | among the first                    | kPreparing | ConstraintSource::Prepare
//              | kMaxPreparedPrompts that have not  |            |
//              | started                            |            |
//   kPreparing | its grammar is ready               | kReady     | joins the line
//   kReady     | head of the line, all blocks free, | kComputing | Engine::Reserve and StartPrefill, Update(kStarted)
//              | few enough blocks unfetched        |            |
//   kComputing | layers of a chunk are done         | kComputing | KvServer::AnnounceBegun
//   kComputing | a chunk is done                    | kComputing | KvServer::Announce
//   kComputing | the first token                    | kHeld      | Update(kToken), Update(kFinished), End(OK),
//              |                                    |            | KvServer::Complete
//   before kHeld| OnRevoke                          | kHeld      | Engine::Stop, End(status)
//   kHeld      | OnRelease                          | gone       | Engine::Release
#ifndef BATON_PREFILL_WORKER_PREFILL_CORE_H_
#define BATON_PREFILL_WORKER_PREFILL_CORE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/clock.h"
#include "common/worker_job.h"
#include "engine/engine.h"
#include "engine/token_constraint.h"
#include "worker/kv_server.h"
#include "worker/worker_core.h"

namespace baton::prefill_worker {

class PrefillCore final : public worker::PhaseCore, public worker::KvOwner {
 public:
  // Adds itself to `worker` as a phase and as the owner of the blocks that are served. Both references outlive the
  // core.
  PrefillCore(worker::WorkerCore& worker, UpdateSink& updates);

  // Ends the call at once, through the UpdateSink, when the job is refused.
  void OnPrefill(WorkerJob job, bool solo);
  void OnCancel(const JobKey& key, const absl::Status& why);

  bool Serves(const JobKey& key) const override { return jobs_.contains(key); }
  void OnLicence(const JobKey& key, int32_t first_block) override;
  void OnRevoke(const JobKey& key, const absl::Status& why) override;
  void OnRelease(const JobKey& key) override;
  void OnSettled() override { StartReady(); }

  bool OnStepEvent(const engine::StepEvent& event) override;
  void OnLayers(const engine::LayerEvent& event) override;
  bool Owns(engine::SequenceId sequence) const override { return by_sequence_.contains(sequence); }
  worker::Holding HoldingOf(const engine::HeldBlocks& held) const override;
  // Now, when a prompt that was refused for lack of blocks may find them, since other phases of the worker give blocks
  // back without telling this one, and when a grammar is ready. KvServer has the timers of every job.
  TimeNs NextTimer() const override;
  void OnTimer() override;

  // Tokens of the jobs that wait for a licence, for their grammars or for blocks.
  int64_t waiting_prompt_tokens() const override { return waiting_prompt_tokens_; }
  int32_t waiting_jobs() const override { return static_cast<int32_t>(ready_.size() + preparing_.size()); }

 private:
  enum class State : uint8_t { kUnlicensed, kPreparing, kReady, kComputing, kHeld };
  struct Job {
    WorkerJob job;
    State state = State::kUnlicensed;
    int32_t first_block = 0;
    // Set while the job is one of the kMaxPreparedPrompts, until it starts.
    std::shared_ptr<const engine::PreparedGrammar> grammar;
    // Valid when has_sequence: from kComputing on.
    engine::SequenceId sequence = 0;
    bool has_sequence = false;
    // How many blocks the reader was told of.
    int32_t announced_blocks = 0;
    TimeNs arrived = 0;
    TimeNs started = 0;
    WorkerReport report;
  };

  // Moves those whose grammars are ready into the line.
  void Prepare();
  // Whether Prepare would.
  bool HasPrepared() const;
  void DropGrammar(Job& job);
  void StartReady();
  absl::Status Start(Job& job);
  // How many blocks of the job's prompt a reader gets.
  int32_t HandedOver(const Job& job) const;
  // How many of them are complete once so many tokens of the prompt are computed.
  int32_t ReadyBlocks(const Job& job, int32_t computed_tokens) const;
  // The first one that the reader was not told of.
  static int32_t FirstToAnnounce(const Job& job) { return std::max(job.announced_blocks, job.first_block); }
  void Announce(Job& job, int32_t computed_tokens);
  void OnFirstToken(Job& job, const OutputToken& first);
  void EndCall(Job& job, const absl::Status& status);

  const Clock& clock_;
  engine::Engine& engine_;
  worker::KvServer& kv_server_;
  UpdateSink& updates_;
  engine::ConstraintSource* const constraints_;
  // No prompt starts while more blocks than this wait for their readers.
  const int32_t max_unfetched_blocks_;
  absl::flat_hash_map<JobKey, Job> jobs_;
  absl::flat_hash_map<engine::SequenceId, JobKey> by_sequence_;
  std::deque<JobKey> ready_;
  // Those that wait for their grammars, in the order of their licences. The first ones have them prepared.
  std::deque<JobKey> preparing_;
  // The jobs that have a PreparedGrammar.
  int32_t prepared_ = 0;
  // Blocks that the engine could give when the first prompt in `ready_` was last refused.
  int32_t available_when_refused_ = 0;
  int32_t unfetched_blocks_ = 0;
  int64_t waiting_prompt_tokens_ = 0;
};

}  // namespace baton::prefill_worker

#endif  // BATON_PREFILL_WORKER_PREFILL_CORE_H_
