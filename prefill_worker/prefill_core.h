// The prefill phase: which licensed prompt starts when, and what is said about it. A policy on the engine's loop; the
// rules of licence and lease are kvtransfer::KvSource's, the arithmetic is the engine's.
//
//   state      | event                              | next       | actions
//   -----------+------------------------------------+------------+-----------------------------------------------------
//   -          | OnPrefill                          | kUnlicensed| KvSource::OnPrefill
//   kUnlicensed| GrantLicence                       | kReady     | joins the line
//   kReady     | head of the line, all blocks free, | kComputing | Engine::Reserve and StartPrefill, Update(kStarted)
//              | few enough blocks unfetched        |            |
//   kComputing | a chunk is done                    | kComputing | digests, KvSource::OnBlocksComputed
//   kComputing | the first token                    | kHeld      | Update(kToken), Update(kFinished), End(OK),
//              |                                    |            | KvSource::OnPromptFinished
//   before kHeld| Revoke                            | kHeld      | Engine::Stop, End(status)
//   kHeld      | ReleaseBlocks                      | gone       | Engine::Release
#ifndef BATON_PREFILL_WORKER_PREFILL_CORE_H_
#define BATON_PREFILL_WORKER_PREFILL_CORE_H_

#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/clock.h"
#include "common/worker_job.h"
#include "engine/engine.h"
#include "engine/engine_loop.h"
#include "kvtransfer/fetch_replies.h"
#include "kvtransfer/kv_source.h"

namespace baton::prefill_worker {

struct PrefillOptions {
  // No prompt starts while more blocks than this wait for their readers.
  int32_t max_unfetched_blocks = 0;
};

class PrefillCore final : public engine::PhasePolicy {
 public:
  // All references outlive the core.
  PrefillCore(const PrefillOptions& options, const Clock& clock, engine::Engine& engine, kvtransfer::KvSource& source,
              UpdateSink& updates, kvtransfer::FetchReplies& replies);

  // Ends the call at once, through the UpdateSink, when the job is refused.
  void OnPrefill(WorkerJob job, bool solo);
  void OnCancel(const JobKey& key, const absl::Status& why);

  void OnFetchOpen(kvtransfer::FetchStreamId stream, const kvtransfer::FetchOpen& open);
  void OnFetchRenew(kvtransfer::FetchStreamId stream, const kvtransfer::FetchRenew& renew);
  void OnFetchRelease(kvtransfer::FetchStreamId stream);
  void OnFetchClosed(kvtransfer::FetchStreamId stream);

  bool OnStepEvent(const engine::StepEvent& event) override;
  void OnTimer() override;
  TimeNs NextTimer() const override;

  // Prompt tokens of jobs that wait for a licence or for blocks.
  int64_t waiting_prompt_tokens() const { return waiting_prompt_tokens_; }

 private:
  enum class State : uint8_t { kUnlicensed, kReady, kComputing, kHeld };
  struct Job {
    WorkerJob job;
    State state = State::kUnlicensed;
    int32_t first_block = 0;
    // Valid from kComputing on, unless revoked before.
    engine::SequenceId sequence = 0;
    bool has_sequence = false;
    // Blocks that the reader was told of.
    int32_t announced_blocks = 0;
    TimeNs arrived = 0;
    TimeNs started = 0;
  };

  void Apply();
  void Handle(const kvtransfer::GrantLicence& action);
  void Handle(const kvtransfer::Revoke& action);
  void Handle(const kvtransfer::ReleaseBlocks& action);
  void Handle(const kvtransfer::SendReply& action);
  void Handle(const kvtransfer::CloseStream& action);
  void StartReady();
  absl::Status Start(Job& job);
  // Blocks of the job's prompt that a reader gets.
  int32_t HandedOver(const Job& job) const;
  void Announce(Job& job, int32_t computed_tokens);
  void OnFirstToken(Job& job, const OutputToken& first);
  void EndCall(Job& job, const absl::Status& status);

  const PrefillOptions options_;
  const Clock& clock_;
  engine::Engine& engine_;
  kvtransfer::KvSource& source_;
  UpdateSink& updates_;
  kvtransfer::FetchReplies& replies_;
  absl::flat_hash_map<JobKey, Job> jobs_;
  absl::flat_hash_map<engine::SequenceId, JobKey> by_sequence_;
  std::deque<JobKey> ready_;
  int32_t unfetched_blocks_ = 0;
  int64_t waiting_prompt_tokens_ = 0;
};

}  // namespace baton::prefill_worker

#endif  // BATON_PREFILL_WORKER_PREFILL_CORE_H_
