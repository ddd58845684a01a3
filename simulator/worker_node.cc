#include "simulator/worker_node.h"

#include <algorithm>
#include <utility>

#include "common/drain.h"

namespace baton::simulator {
namespace {

// As often as leases of the simulation are shorter than those of real workers.
constexpr int64_t kBlockReportIntervalMs = 1'000;
constexpr int64_t kHeartbeatNs = 200 * kNsPerMs;
// A worker without a link tries again within this time.
constexpr int64_t kMaxBackoffMs = 300;
constexpr int64_t kDrainPollNs = 20 * kNsPerMs;

}  // namespace

WorkerNode::WorkerNode(Simulation& sim, RouterDirectory& routers, PeerDirectory& peers, const WorkerSetup& setup)
    : LoopProcess(sim, setup, fetch_server_, puller_),
      routers_(routers),
      fetch_server_(*this),
      puller_(*this, peers),
      idle_since_(sim.queue.Now()) {
  if (setup.prefills()) prefill_.emplace(worker_, *this);
  if (setup.decodes()) {
    decode_.emplace(decode_worker::DecodeOptions{.leaves_room_for_prompt = setup.prefills()}, worker_, *this);
  }
  worker_.MakeLoop();
}

void WorkerNode::Start() { Connect(); }

void WorkerNode::ConnectSoon() {
  After(sim_.MsBetween(1, kMaxBackoffMs), [this] { Connect(); });
}

void WorkerNode::Connect() {
  if (draining_) return;
  RouterNode* router = routers_.FindRouter();
  const bool hangs = Load().step_age_ms > setup_.engine_stall_ms;
  if (router == nullptr || hangs || sim_.queue.Now() < unreachable_until_) return ConnectSoon();
  const KvGroups groups = runner_->kv_layout().groups();
  const router::WorkerInfo info{.id = {},
                                .incarnation = incarnation(),
                                .resumes = last_membership_,
                                .role = setup_.role,
                                .target = setup_.target,
                                .model = "fake",
                                .fingerprint = runner_->fingerprint(),
                                .total_blocks = setup_.block_count,
                                .max_sequences = setup_.max_sequences,
                                .chunk_tokens = setup_.chunk_tokens,
                                .context_length = runner_->context_length(),
                                .groups = groups,
                                .headroom_blocks = worker_.headroom_blocks()};
  link_ = std::make_shared<Link>();
  link_->router = router;
  link_->worker = this;
  link_->at_router.process = router;
  link_->at_worker.process = this;
  link_->at_router.to_here.Send(sim_, [link = link_, info] {
    if (link->lost) return;
    if (!link->router->alive()) {
      return BreakLink(link->worker->sim(), link, &Link::at_worker, 0, absl::UnavailableError("nobody listens there"));
    }
    link->router->OnConnection(link);
    link->router->Reach([link, info] {
      if (!link->at_router.over) link->router->OnHello(link, info);
    });
  });
}

void WorkerNode::OnAccepted(const LinkPtr& link) {
  joined_ = true;
  if (!last_membership_.is_zero()) ++sim_.counts.rejoins;
  last_membership_ = link->membership;
  sim_.Trace(setup_.target, " has joined");
  Heartbeat(link);
}

void WorkerNode::Heartbeat(const LinkPtr& link) {
  if (link != link_) return;
  SendLoad();
  After(kHeartbeatNs, [this, link] { Heartbeat(link); });
}

void WorkerNode::SendLoad() {
  if (!joined_) return;
  router::WorkerLoad load = Load();
  if (draining_) load.state = router::WorkerState::kDraining;
  SendOver(sim_, link_, &Link::at_worker, &Link::at_router, [link = link_, load, blocks = DueBlocks()] {
    link->router->OnLoad(link, load);
    if (blocks.has_value()) link->router->OnBlocks(link, *blocks);
  });
  if (!sim_.Twice()) return;
  SendOver(sim_, link_, &Link::at_worker, &Link::at_router, [link = link_, load] { link->router->OnLoad(link, load); });
}

// In a message with the load, which the simulation sends anyway: no seed's course depends on the reports.
std::optional<BlockReport> WorkerNode::DueBlocks() {
  const TimeNs now = sim_.queue.Now();
  const int64_t steps = Load().steps;
  const bool turns = busy_until() <= now || steps != steps_at_blocks_;
  if (now < next_blocks_ || !turns) return std::nullopt;
  next_blocks_ = baton::After(now, kBlockReportIntervalMs);
  steps_at_blocks_ = steps;
  return worker_.Blocks();
}

void WorkerNode::OnLinkEnd(const LinkPtr& link, const absl::Status& status) {
  if (link != link_) return;
  sim_.Trace(setup_.target, ": its link has ended: ", status.ToString());
  // The router has forgotten these jobs, or will.
  for (const auto& [key, call] : std::exchange(calls_, {})) CancelJob(call);
  idle_since_ = sim_.queue.Now();
  joined_ = false;
  link_ = nullptr;
  if (!draining_) ConnectSoon();
}

void WorkerNode::OnPrefill(const Call& call, WorkerJob job, bool solo) {
  if (!prefill_) return sim_.Fail("a decode worker is asked to prefill for another");
  if (drain_accepted_) return sim_.Fail("a job starts after drain_accepted");
  calls_[call.key] = call;
  if (!solo) handed_over_.insert(call.key);
  PostToLoop([this, job = std::move(job), solo] { prefill_->OnPrefill(job, solo); });
}

void WorkerNode::OnDecode(const Call& call, WorkerJob job, const decode_worker::DecodeSource& source) {
  if (!decode_) return sim_.Fail("a prefill worker is asked to decode");
  if (drain_accepted_) return sim_.Fail("a job starts after drain_accepted");
  calls_[call.key] = call;
  PostToLoop([this, job = std::move(job), source] { decode_->OnDecode(job, source); });
}

void WorkerNode::OnCancel(const JobKey& key) {
  const auto it = calls_.find(key);
  if (it != calls_.end()) CancelJob(it->second);
}

void WorkerNode::OnHandOver(const JobKey& key, const HandOver& hand_over) {
  if (!draining_) return sim_.Fail("a worker that serves is asked to hand a job over");
  if (!calls_.contains(key)) return;
  if (!hand_over.is_taken_back()) hand_overs_[key] = hand_over.next;
  PostToLoop([this, key, hand_over] { decode_->OnHandOver(key, hand_over); });
}

void WorkerNode::CancelJob(const Call& call) {
  PostToLoop([this, side = call.side, key = call.key] {
    const absl::Status why = absl::CancelledError("the router cancelled");
    side == router::Side::kPrefill ? prefill_->OnCancel(key, why) : decode_->OnCancel(key, why);
  });
}

void WorkerNode::Update(const JobKey& key, const WorkerUpdate& update) {
  if (update.kind == WorkerUpdate::Kind::kStarted) {
    if (handed_over_.contains(key)) sim_.Acquire(key, Hold::kPrefillBlocks);
    if (update.cached_tokens > 0) ++sim_.counts.prefix_hits;
  }
  if (update.kind == WorkerUpdate::Kind::kFrozen) {
    ++sim_.counts.moves;
    sim_.FindsKv(hand_overs_.at(key));
    sim_.Trace(setup_.target, " hands ", key.ToString(), " over behind token ", update.token.index);
  }
  if (update.kind == WorkerUpdate::Kind::kKvCommitted && sim_.Finds(key)) ++sim_.counts.moved;
  Emit([this, key, update] {
    const auto it = calls_.find(key);
    if (it == calls_.end()) return;
    SendOver(sim_, link_, &Link::at_worker, &Link::at_router,
             [call = it->second, update] { call.link->router->OnUpdate(call, update); });
  });
}

void WorkerNode::SayEnd(const Call& call, const absl::Status& status) {
  const auto say = [call, status] { call.link->router->OnCallEnd(call, status); };
  SendOver(sim_, link_, &Link::at_worker, &Link::at_router, say);
  if (sim_.Twice()) SendOver(sim_, link_, &Link::at_worker, &Link::at_router, say);
}

void WorkerNode::End(const JobKey& key, const absl::Status& status) {
  Emit([this, key, status] {
    const auto it = calls_.find(key);
    if (it == calls_.end()) return;
    SayEnd(it->second, status);
    calls_.erase(it);
    if (calls_.empty()) idle_since_ = sim_.queue.Now();
  });
}

void WorkerNode::Drain(int64_t timeout_ms) {
  sim_.Trace(setup_.target, " drains");
  draining_ = true;
  SendLoad();
  LeaveWhenDrained();
  if (timeout_ms < kNoTimeoutMs) After(timeout_ms * kNsPerMs, [this, timeout_ms] { CutAll(timeout_ms); });
}

// As worker::RouterCalls does; the process ends soon.
void WorkerNode::CutAll(int64_t timeout_ms) {
  sim_.Trace(setup_.target, "'s time to drain is over");
  sim_.Troubled(incarnation());
  for (const auto& [key, call] : std::exchange(calls_, {})) {
    SayEnd(call, CutByDrain(key.choice_key(), timeout_ms));
  }
  Leave();
  fetch_server_.CutStreams();
  puller_.CutStreams();
}

void WorkerNode::OnDrainAccepted(const LinkPtr& link) {
  if (link == link_) drain_accepted_ = true;
}

void WorkerNode::LeaveWhenDrained() {
  const bool may_get_more = link_ != nullptr && !drain_accepted_;
  if (may_get_more || !calls_.empty() || Load().used_blocks > 0) {
    return After(kDrainPollNs, [this] { LeaveWhenDrained(); });
  }
  Leave();
}

void WorkerNode::Leave() {
  sim_.Trace(setup_.target, " leaves");
  left_ = true;
  Die();
  // It closes its stream behind all that it has said.
  if (link_ != nullptr) EndLink(sim_, link_, &Link::at_router, 1, absl::UnavailableError("the worker has left"));
}

void WorkerNode::CheckQuiet() const {
  CheckLoopQuiet();
  fetch_server_.CheckQuiet();
  puller_.CheckQuiet();
  if (prefill_ && prefill_->waiting_prompt_tokens() != 0) {
    sim_.Fail(absl::StrCat(setup_.target, " still counts waiting tokens"));
  }
  if (decode_ && decode_->job_count() != 0) sim_.Fail(absl::StrCat(setup_.target, " still has a job"));
  if (!calls_.empty()) sim_.Fail(absl::StrCat(setup_.target, " has ", calls_.size(), " calls open"));
}

}  // namespace baton::simulator
