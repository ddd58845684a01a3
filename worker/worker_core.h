// Engine, loop, KV server and phases of one worker, wired together. Free of I/O and threads: WorkerProcess surrounds it
// with them, and the simulator runs the same on virtual time.
#ifndef BATON_WORKER_WORKER_CORE_H_
#define BATON_WORKER_WORKER_CORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/block_report.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/kv_pool.h"
#include "common/random.h"
#include "common/work_note.h"
#include "common/worker_job.h"
#include "engine/engine.h"
#include "engine/engine_loop.h"
#include "engine/model_runner.h"
#include "engine/sequence_types.h"
#include "engine/step_gate.h"
#include "kvtransfer/block_access.h"
#include "kvtransfer/fetch_replies.h"
#include "worker/kv_fetcher.h"
#include "worker/kv_server.h"

namespace baton::worker {

// Adds a step in which the sequence had rows to the report about it.
void CountStep(const engine::StepEvent& event, WorkerReport& report);
// Passes on what the step says of the job's prompt, if it says anything.
void UpdatePrompt(const engine::StepEvent& event, const JobKey& key, UpdateSink& updates);

// What a phase holds the blocks of a sequence for, and since when it has its job.
struct Holding {
  BlockHold hold = BlockHold::kEnded;
  TimeNs since = 0;
};

// What a sequence holds its blocks for that computes here.
BlockHold HoldOf(engine::SequenceState state);

// One kind of work on the engine's loop: a policy for its own sequences.
class PhaseCore : public engine::PhasePolicy {
 public:
  // Prompt tokens of jobs that the engine does not know yet.
  virtual int64_t waiting_prompt_tokens() const { return 0; }
  // How many of these jobs wait for nothing but blocks or their grammars.
  virtual int32_t waiting_jobs() const { return 0; }
  // Whether the sequence is one of the phase's.
  virtual bool Owns(engine::SequenceId sequence) const = 0;
  // The sequence is one that the phase owns.
  virtual Holding HoldingOf(const engine::HeldBlocks& held) const = 0;
  // Blocks that stay free beyond those of a new job, unless the pool is idle.
  virtual int32_t headroom_blocks() const { return 0; }
};

struct WorkerCoreOptions {
  Incarnation incarnation;
  engine::EngineOptions engine;
  // What readers need in order to connect: Transport::Address.
  std::string transport_address;
};

// What the core works with and calls. All of it outlives the core.
struct WorkerSurroundings {
  const Clock& clock;
  // The key of the worker's prefix names is drawn from it.
  RandomSource& random;
  engine::ModelRunner& runner;
  KvPool& pool;
  // The worker's end of the Fetch streams that readers open.
  kvtransfer::FetchReplies& replies;
  // How those readers reach the pool.
  kvtransfer::BlockAccess& access;
  KvFetcher& fetcher;
};

struct WorkerLoad {
  int32_t free_blocks = 0;
  int32_t used_blocks = 0;
  int32_t cached_blocks = 0;
  int32_t running = 0;
  int32_t preempted = 0;
  // Jobs that wait for their grammars, for blocks or for their KV.
  int32_t waiting = 0;
  int64_t pending_prompt_tokens = 0;
  // Blocks from this one on were never used.
  int32_t touched_end = 0;

  // No job has or awaits a block.
  bool holds_nothing() const { return used_blocks == 0 && running == 0 && preempted == 0 && waiting == 0; }
};

// Used by one thread, the loop's, once the loop runs; loop() may be called by any then.
class WorkerCore {
 public:
  WorkerCore(const WorkerCoreOptions& options, const WorkerSurroundings& surroundings);

  // Phases add themselves when they are made, before the loop. A step's event goes to the first phase that takes it.
  void AddPhase(PhaseCore& phase) { phases_.push_back(&phase); }
  // Once, by the phase that pulls, if there is one.
  void SetReceiver(KvReceiver& receiver);
  // Once, after the last phase; both as in EngineLoop.
  void MakeLoop(
      std::function<void()> report = [] {}, engine::StepGate* gate = nullptr);

  const WorkerCoreOptions& options() const { return options_; }
  const Clock& clock() const { return clock_; }
  // Whom the engine's step, or the start of a job, is for.
  WorkNote& work() { return work_; }
  const WorkNote& work() const { return work_; }
  engine::Engine& engine() { return engine_; }
  const KvPool& pool() const { return pool_; }
  KvServer& kv_server() { return kv_server_; }
  const KvServer& kv_server() const { return kv_server_; }
  KvFetcher& fetcher() { return fetcher_; }
  KvReceiver& receiver() { return *receiver_; }
  engine::EngineLoop& loop() { return *loop_; }
  const engine::EngineLoop& loop() const { return *loop_; }

  WorkerLoad Load() const;
  // The holders of the blocks of the pool.
  BlockReport Blocks() const;
  // Used blocks that belong to no phase's sequence. 0, unless there is a bug.
  int32_t OrphanedBlocks() const;
  // The largest of the phases. Constant.
  int32_t headroom_blocks() const;

 private:
  const WorkerCoreOptions options_;
  const Clock& clock_;
  const KvPool& pool_;
  KvFetcher& fetcher_;
  WorkNote work_;
  engine::Engine engine_;
  KvServer kv_server_;
  std::vector<PhaseCore*> phases_;
  KvReceiver* receiver_ = nullptr;
  std::optional<engine::EngineLoop> loop_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_WORKER_CORE_H_
