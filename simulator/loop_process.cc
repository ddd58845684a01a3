#include "simulator/loop_process.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace baton::simulator {
namespace {

constexpr uint8_t kGarbage = 0xa5;
// How many grammars are not compiled yet, and how many masks take long: one in so many.
constexpr uint64_t kOneCompiledIn = 2;
constexpr uint64_t kOneLongMaskIn = 10;
constexpr int64_t kMaxCompileMs = 100;
constexpr int64_t kMaxMaskMs = 50;

// Notes whom each step is for, and one that is ahead, as the process would say it when it dies of the step.
class NotingModel final : public engine::FakeModel {
 public:
  // `steps_ahead` counts on.
  NotingModel(const engine::FakeModelOptions& options, std::function<void()> on_step, int64_t& steps_ahead)
      : FakeModel(options), on_step_(std::move(on_step)), steps_ahead_(steps_ahead) {}

  void Submit(const engine::StepBatch& batch, const engine::StepOutputs& outputs) override {
    steps_ahead_ += TakesStepAhead() ? 1 : 0;
    FakeModel::Submit(batch, outputs);
  }

  void Complete() override {
    on_step_();
    FakeModel::Complete();
  }

 private:
  const std::function<void()> on_step_;
  int64_t& steps_ahead_;
};

// Readers find the memory by the incarnation.
worker::WorkerCoreOptions CoreOptions(const Incarnation& incarnation, const WorkerSetup& setup,
                                      engine::ConstraintSource& grammars) {
  return {.incarnation = incarnation,
          .engine = {.chunk_tokens = setup.chunk_tokens,
                     .max_sequences = setup.max_sequences,
                     .eos_ids = {kEosId},
                     .constraints = &grammars},
          .transport_address = incarnation.ToHex()};
}

}  // namespace

LoopProcess::LoopProcess(Simulation& sim, const WorkerSetup& setup, kvtransfer::FetchReplies& replies,
                         worker::KvFetcher& fetcher)
    : Process(sim),
      setup_(setup),
      runner_(std::make_unique<NotingModel>(
          sim.model, [this] { at_work_ = worker_.work().Read(); }, sim.counts.steps_ahead)),
      memory_(static_cast<size_t>(setup.block_count) * runner_->kv_layout().block_bytes(), kGarbage),
      pool_(absl::MakeSpan(memory_), runner_->kv_layout().block_bytes()),
      grammars_(
          sim.model.vocab_size, kEosId,
          [this](const Task& make_ready) { Prepare(kOneCompiledIn, kMaxCompileMs, make_ready); },
          [this](const Task& make_ready) { Prepare(kOneLongMaskIn, kMaxMaskMs, make_ready); }),
      worker_(CoreOptions(sim.random.NextId(), setup, grammars_), {.clock = clock(),
                                                                   .random = sim.random,
                                                                   .runner = *runner_,
                                                                   .pool = pool_,
                                                                   .replies = replies,
                                                                   .access = access_,
                                                                   .fetcher = fetcher}) {}

void LoopProcess::Prepare(uint64_t one_in, int64_t most_ms, const Task& make_ready) {
  if (sim_.grammar_random.Below(one_in) != 0) return make_ready();
  ++sim_.counts.grammar_waits;
  const auto ns = static_cast<int64_t>(sim_.grammar_random.Below(static_cast<uint64_t>(most_ms * kNsPerMs)));
  After(ns, [this, make_ready] { PostToLoop(make_ready); });
}

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
    const int64_t ns = sim_.Between(10'000, sim_.pace.max_step_ns * (sim_.Chance(2) ? 10 : 1));
    busy_until_ += sim_.queue.Now() < slow_until_ ? slow_factor_ * ns : ns;
    OnStep();
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
  const TimeNs next = clock().ToVirtual(worker_.loop().NextRun());
  if (next != kNever) ScheduleRun(std::max(next, busy_until_));
}

void LoopProcess::Stall(int64_t ns) {
  if (busy_until_ <= sim_.queue.Now()) {
    busy_since_ = busy_until_ = sim_.queue.Now();
    at_work_.clear();
  }
  busy_until_ += ns;
}

void LoopProcess::Slow(int64_t ns, int64_t factor) {
  slow_until_ = sim_.queue.Now() + ns;
  slow_factor_ = factor;
}

void LoopProcess::LeapLoopClock(int64_t ns) {
  LeapClock(ns);
  ScheduleRun(std::max(sim_.queue.Now(), busy_until_));
}

std::vector<JobKey> LoopProcess::AtWork() const {
  return busy_until_ > sim_.queue.Now() ? at_work_ : std::vector<JobKey>();
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
