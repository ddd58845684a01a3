#include "simulator/worker_node.h"

#include <algorithm>
#include <utility>

#include "common/drain.h"

namespace baton::simulator {
namespace {

constexpr int64_t kDrainPollNs = 20 * kNsPerMs;

}  // namespace

WorkerNode::WorkerNode(Simulation& sim, RouterDirectory& routers, PeerDirectory& peers, const WorkerSetup& setup)
    : LoopProcess(sim, setup, fetch_server_, puller_),
      routers_(routers),
      fetch_server_(*this),
      puller_(*this, peers),
      members_(static_cast<size_t>(sim.routers)),
      idle_since_(sim.queue.Now()) {
  if (setup.prefills()) prefill_.emplace(worker_, *this);
  if (setup.decodes()) {
    decode_.emplace(decode_worker::DecodeOptions{.leaves_room_for_prompt = setup.prefills()}, worker_, *this);
  }
  worker_.MakeLoop();
}

bool WorkerNode::HasCalls() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member& member) { return !member.calls.empty(); });
}

void WorkerNode::Begin(const Call& call) {
  const int router = call.link->router->number();
  Member& member = MemberOf(router);
  if (member.drain_accepted) return sim_.Fail("a job starts after drain_accepted");
  const absl::Status begun = owners_.Begin(call.key, static_cast<size_t>(router));
  if (!begun.ok()) return sim_.Fail("an attempt starts twice: " + begun.ToString());
  member.calls[call.key] = call;
}

void WorkerNode::OnPrefill(const Call& call, WorkerJob job, bool solo) {
  if (!prefill_) return sim_.Fail("a decode worker is asked to prefill for another");
  Begin(call);
  if (!solo) handed_over_.insert(call.key);
  PostToLoop([this, job = std::move(job), solo] { prefill_->OnPrefill(job, solo); });
}

void WorkerNode::OnDecode(const Call& call, WorkerJob job, const decode_worker::DecodeSource& source) {
  if (!decode_) return sim_.Fail("a prefill worker is asked to decode");
  Begin(call);
  PostToLoop([this, job = std::move(job), source] { decode_->OnDecode(job, source); });
}

void WorkerNode::OnCancel(const LinkPtr& link, const JobKey& key) {
  const std::map<JobKey, Call>& calls = MemberOf(link->router->number()).calls;
  const auto it = calls.find(key);
  if (it != calls.end()) CancelJob(it->second);
}

void WorkerNode::OnHandOver(const LinkPtr& link, const JobKey& key, const HandOver& hand_over) {
  if (!draining_) return sim_.Fail("a worker that serves is asked to hand a job over");
  if (!MemberOf(link->router->number()).calls.contains(key)) return;
  if (!hand_over.is_taken_back()) hand_overs_[key] = hand_over.next;
  PostToLoop([this, key, hand_over] { decode_->OnHandOver(key, hand_over); });
}

void WorkerNode::CancelJob(const Call& call) {
  PostToLoop([this, side = call.side, key = call.key] {
    const absl::Status why = absl::CancelledError("the router cancelled");
    side == router::Side::kPrefill ? prefill_->OnCancel(key, why) : decode_->OnCancel(key, why);
  });
}

const Call* WorkerNode::FindCall(size_t router, const JobKey& key) const {
  const std::map<JobKey, Call>& calls = members_[router].calls;
  const auto it = calls.find(key);
  return it == calls.end() ? nullptr : &it->second;
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
  const std::optional<size_t> router = owners_.RouterOf(key);
  if (!router.has_value()) return;
  Emit([this, router = *router, key, update] {
    const Call* const call = FindCall(router, key);
    if (call == nullptr) return;
    SendOver(sim_, call->link, &Link::at_worker, &Link::at_router,
             [call = *call, update] { call.link->router->OnUpdate(call, update); });
  });
}

void WorkerNode::SayEnd(const Call& call, const absl::Status& status) {
  const auto say = [call, status] { call.link->router->OnCallEnd(call, status); };
  SendOver(sim_, call.link, &Link::at_worker, &Link::at_router, say);
  if (sim_.Twice()) SendOver(sim_, call.link, &Link::at_worker, &Link::at_router, say);
}

void WorkerNode::End(const JobKey& key, const absl::Status& status) {
  const std::optional<size_t> router = owners_.RouterOf(key);
  if (!router.has_value()) return;
  owners_.End(key);
  Emit([this, router = *router, key, status] {
    const Call* const call = FindCall(router, key);
    if (call == nullptr) return;
    SayEnd(*call, status);
    members_[router].calls.erase(key);
    if (!HasCalls()) idle_since_ = sim_.queue.Now();
  });
}

void WorkerNode::Drain(int64_t timeout_ms) {
  sim_.Trace(setup_.target, " drains");
  draining_ = true;
  for (int router = 0; router < sim_.routers; ++router) SendLoad(router);
  LeaveWhenDrained();
  if (timeout_ms < kNoTimeoutMs) After(timeout_ms * kNsPerMs, [this, timeout_ms] { CutAll(timeout_ms); });
}

// As worker::RouterCalls does; the process ends soon.
void WorkerNode::CutAll(int64_t timeout_ms) {
  sim_.Trace(setup_.target, "'s time to drain is over");
  sim_.Troubled(incarnation());
  for (Member& member : members_) {
    for (const auto& [key, call] : std::exchange(member.calls, {})) {
      SayEnd(call, CutByDrain(key.choice_key(), timeout_ms));
    }
  }
  Leave();
  fetch_server_.CutStreams();
  puller_.CutStreams();
}

void WorkerNode::OnDrainOrdered() {
  if (draining_) return;
  ++sim_.counts.ordered_drains;
  Drain(drain_timeout_ms_);
}

void WorkerNode::OnDrainAccepted(const LinkPtr& link) {
  if (Member* const member = MemberOf(link)) member->drain_accepted = true;
}

void WorkerNode::LeaveWhenDrained() {
  const bool may_get_more = std::any_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.link != nullptr && !member.drain_accepted;
  });
  if (may_get_more || HasCalls() || Load().used_blocks > 0) {
    return After(kDrainPollNs, [this] { LeaveWhenDrained(); });
  }
  Leave();
}

void WorkerNode::Leave() {
  sim_.Trace(setup_.target, " leaves");
  left_ = true;
  Die();
  // It closes its streams behind all that it has said.
  for (const Member& member : members_) {
    if (member.link == nullptr) continue;
    EndLink(sim_, member.link, &Link::at_router, 1, absl::UnavailableError("the worker has left"));
  }
}

void WorkerNode::CheckQuiet() const {
  CheckLoopQuiet();
  fetch_server_.CheckQuiet();
  puller_.CheckQuiet();
  if (prefill_ && prefill_->waiting_prompt_tokens() != 0) {
    sim_.Fail(absl::StrCat(setup_.target, " still counts waiting tokens"));
  }
  if (decode_ && decode_->job_count() != 0) sim_.Fail(absl::StrCat(setup_.target, " still has a job"));
  if (HasCalls()) sim_.Fail(absl::StrCat(setup_.target, " has calls open"));
}

}  // namespace baton::simulator
