#include "simulator/worker_node.h"

#include <algorithm>
#include <utility>

#include "engine/testing/fake_model.h"

namespace baton::simulator {
namespace {

constexpr int64_t kHeartbeatNs = 100 * kNsPerMs;
// Peers of a dead process notice within this time.
constexpr int64_t kMaxWorkerNoticeMs = 150;
constexpr uint8_t kGarbage = 0xa5;

// PlantedBug::kResumedTooLate. A decode worker that prefills nothing itself runs several rows of one sequence only
// after a preemption: the first of them is skipped, as if it had been computed already.
class TooLateModel final : public engine::FakeModel {
 public:
  using FakeModel::FakeModel;

  void Forward(const engine::StepBatch& batch, absl::Span<float> logits, absl::Span<float> hidden_states) override {
    std::vector<engine::SequenceSlice> slices(batch.slices.begin(), batch.slices.end());
    for (engine::SequenceSlice& slice : slices) {
      if (slice.row_count < 2) continue;
      ++slice.first_row;
      ++slice.first_position;
      --slice.row_count;
    }
    engine::StepBatch late = batch;
    late.slices = slices;
    FakeModel::Forward(late, logits, hidden_states);
  }
};

std::unique_ptr<engine::ModelRunner> MakeModel(const Simulation& sim, router::WorkerRole role) {
  if (sim.bug == PlantedBug::kResumedTooLate && role == router::WorkerRole::kDecode) {
    return std::make_unique<TooLateModel>(sim.model);
  }
  return std::make_unique<engine::FakeModel>(sim.model);
}

// Readers find the memory by the incarnation.
worker::WorkerCoreOptions CoreOptions(const Incarnation& incarnation, const WorkerSetup& setup) {
  return {.incarnation = incarnation,
          .engine = {.chunk_tokens = setup.chunk_tokens, .max_sequences = setup.max_sequences, .eos_ids = {kEosId}},
          .transport_address = incarnation.ToHex()};
}

}  // namespace

WorkerNode::WorkerNode(Simulation& sim, RouterNode& router, const WorkerSetup& setup)
    : sim_(sim),
      router_(router),
      setup_(setup),
      model_(MakeModel(sim, setup.role)),
      memory_(static_cast<size_t>(setup.block_count) * model_->kv_layout().block_bytes(), kGarbage),
      pool_(absl::MakeSpan(memory_), model_->kv_layout().block_bytes()),
      worker_(CoreOptions(sim.random.NextId(), setup),
              {.clock = sim.queue, .runner = *model_, .pool = pool_, .replies = *this, .fetcher = *this}) {}

void WorkerNode::Join() {
  const router::WorkerInfo info{.id = incarnation(),
                                .role = setup_.role,
                                .target = setup_.target,
                                .model = "fake",
                                .fingerprint = model_->fingerprint(),
                                .total_blocks = setup_.block_count,
                                .max_sequences = setup_.max_sequences,
                                .chunk_tokens = setup_.chunk_tokens,
                                .context_length = model_->context_length(),
                                .pid = 1,
                                .groups = model_->kv_layout().groups()};
  join_.Send(sim_, [this, info] {
    router_.Post([this, info](router::Dispatcher& dispatcher) {
      if (!dispatcher.OnWorkerJoin(info).ok()) sim_.Fail("a worker could not join");
    });
  });
  Heartbeat();
}

void WorkerNode::Heartbeat() {
  if (!alive_) return;
  join_.Send(sim_, [this, load = load_] {
    router_.Post([id = incarnation(), load](router::Dispatcher& dispatcher) { dispatcher.OnWorkerLoad(id, load); });
  });
  sim_.queue.After(kHeartbeatNs, [this] { Heartbeat(); });
}

void WorkerNode::Crash() {
  sim_.Trace(setup_.target, " crashes");
  alive_ = false;
  CutStreams();
  for (const auto& [key, call] : calls_) {
    const auto notice = [this, call = call] {
      router_.DeliverEnd(call, absl::UnavailableError("the connection broke"));
    };
    // Messages on their way arrive before the notice, or are lost.
    if (sim_.Chance(50)) {
      call->to_router.SendLater(sim_, sim_.MsBetween(0, kMaxWorkerNoticeMs), notice);
    } else {
      sim_.queue.After(sim_.Between(0, kNsPerMs), notice);
    }
  }
  calls_.clear();
  join_.SendLater(sim_, sim_.MsBetween(0, kMaxWorkerNoticeMs), [this] {
    router_.Post([id = incarnation()](router::Dispatcher& dispatcher) {
      dispatcher.OnWorkerLost(id, absl::UnavailableError("the join stream broke"));
    });
  });
}

void WorkerNode::CancelCall(const std::shared_ptr<Call>& call) {
  if (!alive_) return;
  calls_.erase(call->key);
  PostToLoop([this, key = call->key] { CancelJob(key); });
}

void WorkerNode::Update(const JobKey& key, const WorkerUpdate& update) {
  if (update.kind == WorkerUpdate::Kind::kStarted && update.cached_tokens > 0) ++sim_.counts.prefix_hits;
  Emit([this, key, update] {
    const auto it = calls_.find(key);
    if (it == calls_.end()) return;
    const std::shared_ptr<Call> call = it->second;
    call->to_router.Send(sim_, [this, call, update] { router_.DeliverUpdate(call, update); });
  });
}

void WorkerNode::End(const JobKey& key, const absl::Status& status) {
  Emit([this, key, status] {
    const auto it = calls_.find(key);
    if (it == calls_.end()) return;
    const std::shared_ptr<Call> call = it->second;
    calls_.erase(it);
    call->to_router.Send(sim_, [this, call, status] { router_.DeliverEnd(call, status); });
  });
}

void WorkerNode::PostToLoop(Task task) {
  if (!alive_) return;
  if (!worker_.loop().Post(std::move(task))) return sim_.Fail("a worker's mailbox is full");
  ScheduleRun(std::max(sim_.queue.Now(), busy_until_));
}

void WorkerNode::ScheduleRun(TimeNs at) {
  if (next_run_ <= at) return;
  next_run_ = at;
  sim_.queue.At(at, [this, at] {
    if (!alive_ || next_run_ != at) return;
    next_run_ = kNever;
    // The task was posted by a round that is not over yet.
    if (busy_until_ > at) return ScheduleRun(busy_until_);
    RunOnce();
  });
}

void WorkerNode::RunOnce() {
  const bool stepped = worker_.loop().RunOnce();
  busy_until_ = sim_.queue.Now();
  if (stepped) busy_until_ += sim_.Between(10'000, sim_.pace.max_step_ns * (sim_.Chance(2) ? 10 : 1));
  if (!effects_.empty()) {
    sim_.queue.At(busy_until_, [this, effects = std::exchange(effects_, {})] {
      if (!alive_) return;
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

void WorkerNode::Reply(kvtransfer::FetchStreamId, const kvtransfer::FetchReply&) {
  sim_.Fail("a worker that serves no blocks answers a reader");
}

void WorkerNode::Close(kvtransfer::FetchStreamId, const absl::Status&) {
  sim_.Fail("a worker that serves no blocks answers a reader");
}

void WorkerNode::Start(const kvtransfer::FetchSpec&) { sim_.Fail("a worker that pulls nothing fetches"); }

void WorkerNode::Cancel(const JobKey&, const absl::Status&) { sim_.Fail("a worker that pulls nothing fetches"); }

void WorkerNode::CheckQuiet() const {
  const worker::WorkerLoad load = worker_.Load();
  if (load.used_blocks != 0) sim_.Fail(absl::StrCat(setup_.target, " still uses ", load.used_blocks, " blocks"));
  if (load.running + load.preempted != 0) sim_.Fail(absl::StrCat(setup_.target, " still runs a sequence"));
  if (!calls_.empty()) sim_.Fail(absl::StrCat(setup_.target, " has ", calls_.size(), " calls open"));
}

}  // namespace baton::simulator
