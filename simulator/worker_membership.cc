// What a simulated worker is to each of its routers: how it joins, and what it says of itself.
#include <utility>

#include "simulator/worker_node.h"

namespace baton::simulator {
namespace {

constexpr int64_t kHeartbeatNs = 200 * kNsPerMs;
// A worker without a link tries again within this time.
constexpr int64_t kMaxBackoffMs = 300;

}  // namespace

void WorkerNode::Start() {
  for (int router = 0; router < sim_.routers; ++router) Connect(router);
}

WorkerNode::Member* WorkerNode::MemberOf(const LinkPtr& link) {
  Member& member = MemberOf(link->router->number());
  return member.link == link ? &member : nullptr;
}

void WorkerNode::ConnectSoon(int router) {
  After(sim_.MsBetween(1, kMaxBackoffMs), [this, router] { Connect(router); });
}

router::WorkerInfo WorkerNode::Info(const Member& member) const {
  return {.id = {},
          .incarnation = incarnation(),
          .resumes = member.last,
          .role = setup_.role,
          .target = setup_.target,
          .model = "fake",
          .fingerprint = runner_->fingerprint(),
          .total_blocks = setup_.block_count,
          .max_sequences = setup_.max_sequences,
          .chunk_tokens = setup_.chunk_tokens,
          .context_length = runner_->context_length(),
          .groups = runner_->kv_layout().groups(),
          .headroom_blocks = worker_.headroom_blocks()};
}

void WorkerNode::Connect(int number) {
  if (draining_) return;
  Member& member = MemberOf(number);
  RouterNode* router = routers_.FindRouter(number);
  const bool hangs = Load().step_age_ms > setup_.engine_stall_ms;
  if (router == nullptr || hangs || sim_.queue.Now() < member.unreachable_until) return ConnectSoon(number);
  const LinkPtr link = std::make_shared<Link>();
  member.link = link;
  link->router = router;
  link->worker = this;
  link->at_router.process = router;
  link->at_worker.process = this;
  link->at_router.to_here.Send(sim_, [link, info = Info(member)] {
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
  Member* const member = MemberOf(link);
  if (member == nullptr) return;
  member->joined = true;
  member->block_reports.Start(sim_.queue.Now());
  if (!member->last.is_zero()) ++sim_.counts.rejoins;
  member->last = link->membership;
  sim_.Trace(setup_.target, " has joined ", link->router->name());
  Heartbeat(link);
}

void WorkerNode::Heartbeat(const LinkPtr& link) {
  Member* const member = MemberOf(link);
  if (member == nullptr) return;
  SendLoad(link->router->number());
  After(kHeartbeatNs, [this, link] { Heartbeat(link); });
}

void WorkerNode::SendLoad(int router) {
  const Member& member = MemberOf(router);
  if (!member.joined) return;
  router::WorkerLoad load = Load();
  if (draining_) load.state = router::WorkerState::kDraining;
  const LinkPtr link = member.link;
  SendOver(sim_, link, &Link::at_worker, &Link::at_router, [link, load, blocks = DueBlocks(router)] {
    link->router->OnLoad(link, load);
    if (blocks.has_value()) link->router->OnBlocks(link, *blocks);
  });
  if (!sim_.Twice()) return;
  SendOver(sim_, link, &Link::at_worker, &Link::at_router, [link, load] { link->router->OnLoad(link, load); });
}

// In a message with the load, which the simulation sends anyway: no seed's course depends on the reports.
std::optional<BlockReport> WorkerNode::DueBlocks(int router) {
  Member& member = MemberOf(router);
  const TimeNs now = sim_.queue.Now();
  const int64_t steps = Load().steps;
  const bool turns = busy_until() <= now || steps != member.steps_at_blocks;
  if (!turns || !member.block_reports.IsDue(now, worker_.Load().holds_nothing())) return std::nullopt;
  member.steps_at_blocks = steps;
  const BlockReport report = worker_.Blocks();
  BlockReport part = worker::PartOf(report, static_cast<size_t>(router), [this](const JobKey& key) {
    const std::optional<size_t> owner = owners_.RouterOf(key);
    return owner.has_value() && members_[*owner].joined ? owner : std::nullopt;
  });
  owners_.KeepOnly(worker::HoldersOf(report));
  if (!member.block_reports.OnReport(now, part)) return std::nullopt;
  return part;
}

void WorkerNode::OnLinkEnd(const LinkPtr& link, const absl::Status& status) {
  Member* const member = MemberOf(link);
  if (member == nullptr) return;
  sim_.Trace(setup_.target, ": its link to ", link->router->name(), " has ended: ", status.ToString());
  // This router has forgotten these jobs, or will.
  for (const auto& [key, call] : std::exchange(member->calls, {})) CancelJob(call);
  if (!HasCalls()) idle_since_ = sim_.queue.Now();
  member->joined = false;
  member->block_reports.Stop();
  member->link = nullptr;
  if (!draining_) ConnectSoon(link->router->number());
}

}  // namespace baton::simulator
