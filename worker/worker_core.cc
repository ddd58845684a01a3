#include "worker/worker_core.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace baton::worker {
namespace {

kvtransfer::KvSourceOptions SourceOptions(const WorkerCoreOptions& options, const WorkerSurroundings& surroundings) {
  return {.incarnation = options.incarnation,
          .fingerprint = surroundings.runner.fingerprint(),
          .transport_address = options.transport_address,
          .block_bytes = surroundings.pool.block_bytes()};
}

engine::PrefixNames DrawPrefixNames(RandomSource& random) {
  const Id128 key = random.NextId();
  return engine::PrefixNames({.first = key.high, .second = key.low});
}

}  // namespace

void CountStep(const engine::StepEvent& event, WorkerReport& report) {
  ++report.steps;
  report.batch_sequences += event.step_sequences;
  report.max_batch_sequences = std::max<int64_t>(report.max_batch_sequences, event.step_sequences);
  report.preemptions = event.preemptions;
}

void UpdatePrompt(const engine::StepEvent& event, const JobKey& key, UpdateSink& updates) {
  if (event.prompt.empty()) return;
  WorkerUpdate update{.kind = WorkerUpdate::Kind::kPrompt};
  update.first_prompt = event.first_prompt;
  update.prompt.assign(event.prompt.begin(), event.prompt.end());
  updates.Update(key, update);
}

BlockHold HoldOf(engine::SequenceState state) {
  switch (state) {
    case engine::SequenceState::kReserved:
    case engine::SequenceState::kPrefill:
      return BlockHold::kPrefilling;
    case engine::SequenceState::kDecode:
      return BlockHold::kDecoding;
    case engine::SequenceState::kPreempted:
      return BlockHold::kPreempted;
    case engine::SequenceState::kFinished:
      break;
  }
  return BlockHold::kEnded;
}

WorkerCore::WorkerCore(const WorkerCoreOptions& options, const WorkerSurroundings& surroundings)
    : options_(options),
      clock_(surroundings.clock),
      pool_(surroundings.pool),
      fetcher_(surroundings.fetcher),
      engine_(options.engine, surroundings.runner, surroundings.pool, DrawPrefixNames(surroundings.random), &work_),
      kv_server_(SourceOptions(options, surroundings), surroundings.clock, engine_, surroundings.replies,
                 surroundings.access) {}

void WorkerCore::SetReceiver(KvReceiver& receiver) {
  BATON_CHECK(receiver_ == nullptr) << "one phase of a worker pulls";
  receiver_ = &receiver;
}

void WorkerCore::MakeLoop(std::function<void()> report, engine::StepGate* gate) {
  std::vector<engine::PhasePolicy*> policies = {&kv_server_};
  policies.insert(policies.end(), phases_.begin(), phases_.end());
  loop_.emplace(engine_, clock_, std::move(policies), std::move(report), gate);
}

WorkerLoad WorkerCore::Load() const {
  const engine::EngineLoad load = engine_.Load();
  int64_t pending_prompt_tokens = load.pending_prompt_tokens;
  int32_t waiting = load.reserved;
  for (const PhaseCore* phase : phases_) {
    pending_prompt_tokens += phase->waiting_prompt_tokens();
    waiting += phase->waiting_jobs();
  }
  return {.free_blocks = load.free_blocks,
          .used_blocks = load.used_blocks,
          .cached_blocks = load.cached_blocks,
          .running = load.running,
          .preempted = load.preempted,
          .waiting = waiting,
          .pending_prompt_tokens = pending_prompt_tokens,
          .touched_end = load.touched_end};
}

BlockReport WorkerCore::Blocks() const {
  const engine::EngineLoad load = engine_.Load();
  const TimeNs now = clock_.Now();
  BlockReport report = {.free_blocks = load.free_blocks, .cached_blocks = load.cached_blocks, .holders = {}};
  for (const engine::HeldBlocks& held : engine_.Held()) {
    BlockHolder& holder =
        report.holders.emplace_back(BlockHolder{.key = held.job, .blocks = held.blocks, .own_blocks = held.own_blocks});
    const auto phase = std::find_if(phases_.begin(), phases_.end(),
                                    [&held](const PhaseCore* one) { return one->Owns(held.sequence); });
    if (phase == phases_.end()) continue;
    const Holding holding = (*phase)->HoldingOf(held);
    holder.hold = holding.hold;
    holder.held_ms = (now - holding.since) / kNsPerMs;
  }
  return report;
}

int32_t WorkerCore::OrphanedBlocks() const {
  return engine_.OrphanedBlocks([this](engine::SequenceId sequence) {
    return std::any_of(phases_.begin(), phases_.end(),
                       [sequence](const PhaseCore* phase) { return phase->Owns(sequence); });
  });
}

int32_t WorkerCore::headroom_blocks() const {
  int32_t blocks = 0;
  for (const PhaseCore* phase : phases_) blocks = std::max(blocks, phase->headroom_blocks());
  return blocks;
}

}  // namespace baton::worker
