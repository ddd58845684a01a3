#include "simulator/loop_process.h"

#include <algorithm>
#include <utility>

namespace baton::simulator {
namespace {

constexpr uint8_t kGarbage = 0xa5;

// Readers find the memory by the incarnation.
worker::WorkerCoreOptions CoreOptions(const Incarnation& incarnation, const WorkerSetup& setup) {
  return {.incarnation = incarnation,
          .engine = {.chunk_tokens = setup.chunk_tokens, .max_sequences = setup.max_sequences, .eos_ids = {kEosId}},
          .transport_address = incarnation.ToHex()};
}

}  // namespace

LoopProcess::LoopProcess(Simulation& sim, const WorkerSetup& setup, kvtransfer::FetchReplies& replies,
                         worker::KvFetcher& fetcher)
    : Process(sim),
      setup_(setup),
      runner_(std::make_unique<engine::FakeModel>(sim.model)),
      memory_(static_cast<size_t>(setup.block_count) * runner_->kv_layout().block_bytes(), kGarbage),
      pool_(absl::MakeSpan(memory_), runner_->kv_layout().block_bytes()),
      worker_(CoreOptions(sim.random.NextId(), setup), {.clock = sim.queue,
                                                        .random = sim.random,
                                                        .runner = *runner_,
                                                        .pool = pool_,
                                                        .replies = replies,
                                                        .access = access_,
                                                        .fetcher = fetcher}) {}

void LoopProcess::PostToLoop(Task task) {
  if (!alive()) return;
  if (!worker_.loop().Post(std::move(task))) return sim_.Fail("a worker's mailbox is full");
  ScheduleRun(std::max(sim_.queue.Now(), busy_until_));
}

void LoopProcess::ScheduleRun(TimeNs at) {
  if (next_run_ <= at) return;
  next_run_ = at;
  At(at, [this, at] {
    if (next_run_ != at) return;
    next_run_ = kNever;
    // The task was posted by a round that is not over yet.
    if (busy_until_ > sim_.queue.Now()) return ScheduleRun(busy_until_);
    RunOnce();
  });
}

void LoopProcess::RunOnce() {
  const bool stepped = worker_.loop().RunOnce();
  busy_since_ = busy_until_ = sim_.queue.Now();
  if (stepped) {
    ++steps_;
    busy_until_ += sim_.Between(10'000, sim_.pace.max_step_ns * (sim_.Chance(2) ? 10 : 1));
  }
  if (!effects_.empty()) {
    At(busy_until_, [effects = std::exchange(effects_, {})] {
      for (const Task& effect : effects) effect();
    });
  }
  const worker::WorkerLoad load = worker_.Load();
  load_ = {.free_blocks = load.free_blocks,
           .used_blocks = load.used_blocks,
           .cached_blocks = load.cached_blocks,
           .running = load.running + load.preempted,
           .pending_prompt_tokens = load.pending_prompt_tokens};
  sim_.counts.preemptions += std::max(0, load.preempted - preempted_);
  preempted_ = load.preempted;
  if (const TimeNs next = worker_.loop().NextRun(); next != kNever) ScheduleRun(std::max(next, busy_until_));
}

void LoopProcess::Stall(int64_t ns) {
  if (busy_until_ <= sim_.queue.Now()) busy_since_ = busy_until_ = sim_.queue.Now();
  busy_until_ += ns;
}

router::WorkerLoad LoopProcess::Load() const {
  router::WorkerLoad load = load_;
  load.steps = steps_;
  load.step_age_ms = busy_until_ > sim_.queue.Now() ? (sim_.queue.Now() - busy_since_) / kNsPerMs : 0;
  return load;
}

void LoopProcess::CheckLoopQuiet() const {
  const worker::WorkerLoad load = worker_.Load();
  if (load.used_blocks != 0) sim_.Fail(absl::StrCat(setup_.target, " still uses ", load.used_blocks, " blocks"));
  if (load.running + load.preempted != 0) sim_.Fail(absl::StrCat(setup_.target, " still runs a sequence"));
}

}  // namespace baton::simulator
