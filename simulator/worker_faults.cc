// What befalls a simulated worker.
#include <algorithm>

#include "simulator/worker_node.h"

namespace baton::simulator {
namespace {

// The router notices that a worker has died within this time.
constexpr int64_t kMaxWorkerNoticeMs = 150;
// The ends of a half-open link notice within this time, the router perhaps long after it has given the worker up.
constexpr int64_t kMaxHalfOpenNoticeMs = 12'000;
// After a worker's last trouble its jobs may fail for this long.
constexpr int64_t kAftermathNs = 300 * kNsPerMs;
constexpr int kSegmentationFault = 11;

}  // namespace

void WorkerNode::Crash() {
  sim_.Trace(setup_.target, " crashes");
  sim_.Troubled(incarnation());
  Die();
  fetch_server_.CutStreams();
  puller_.CutStreams();
  for (const Member& member : members_) {
    if (member.link == nullptr) continue;
    // The machine itself may be gone, so that nobody closes the connection.
    const int64_t notice_ms = sim_.Chance(80) ? kMaxWorkerNoticeMs : kMaxHalfOpenNoticeMs;
    const absl::Status broken = absl::UnavailableError("the connection to the worker broke");
    BreakLink(sim_, member.link, &Link::at_router, notice_ms, broken);
  }
}

void WorkerNode::Hang(int64_t pause_ns) {
  sim_.Trace(setup_.target, " is paused for ", pause_ns / kNsPerMs, " ms");
  Pause(pause_ns);
  sim_.Troubled(incarnation(), wake() + kAftermathNs);
}

void WorkerNode::FallSilent(int router, int64_t ns) {
  const LinkPtr link = MemberOf(router).link;
  if (link == nullptr) return;
  sim_.Trace(setup_.target, " is silent to ", link->router->name(), " for ", ns / kNsPerMs, " ms");
  const TimeNs until = sim_.queue.Now() + ns;
  sim_.Troubled(LinkName(router), until + kAftermathNs);
  const int64_t both = sim_.Between(0, 2);
  if (both != 1) link->at_router.to_here.HoldUntil(until);
  if (both != 2) link->at_worker.to_here.HoldUntil(until);
}

void WorkerNode::Partition(int router, int64_t ns) {
  Member& member = MemberOf(router);
  const LinkPtr link = member.link;
  if (link == nullptr) return;
  sim_.Trace(setup_.target, "'s link to ", link->router->name(), " is half open, for ", ns / kNsPerMs, " ms");
  member.unreachable_until = sim_.queue.Now() + ns;
  link->lost = true;
  // It ends when the worker joins again.
  sim_.Troubled(LinkName(router), member.unreachable_until + 2 * kMaxHalfOpenNoticeMs * kNsPerMs);
  const absl::Status broken = absl::UnavailableError("the connection timed out");
  BreakLink(sim_, link, &Link::at_router, kMaxHalfOpenNoticeMs, broken);
  BreakLink(sim_, link, &Link::at_worker, sim_.Chance(50) ? 1'000 : kMaxHalfOpenNoticeMs, broken);
}

void WorkerNode::StallEngine(int64_t ns) {
  sim_.Trace(setup_.target, "'s engine stalls for ", ns / kNsPerMs, " ms");
  Stall(ns);
  sim_.Troubled(incarnation(), busy_until() + kAftermathNs);
}

void WorkerNode::DieOfOwnFault() {
  const router::WorkerFault fault = {.signal = kSegmentationFault, .at_work = AtWork()};
  sim_.Trace(setup_.target, " dies of a fault of its own, in a step of ", fault.at_work.size());
  for (const Member& member : members_) {
    if (!member.joined) continue;
    SendOver(sim_, member.link, &Link::at_worker, &Link::at_router,
             [link = member.link, fault] { link->router->OnFault(link, fault); });
  }
  Crash();
}

void WorkerNode::SuspendMachine(int64_t ns) {
  sim_.Trace(setup_.target, " is suspended for ", ns / kNsPerMs, " ms");
  Suspend(ns);
  sim_.Troubled(incarnation(), wake() + kAftermathNs);
}

void WorkerNode::LeapClock(int64_t ns) {
  sim_.Trace(setup_.target, "'s clock leaps by ", ns / kNsPerMs, " ms");
  sim_.leapt.insert(incarnation());
  LeapLoopClock(ns);
  puller_.OnClockLeap();
  sim_.Troubled(incarnation(), sim_.queue.Now() + kAftermathNs);
}

void WorkerNode::SlowDown(int64_t ns, int64_t factor) {
  sim_.Trace(setup_.target, " is ", factor, " times slower for ", ns / kNsPerMs, " ms");
  Slow(ns, factor);
  // The last of these steps ends later.
  sim_.Troubled(incarnation(), sim_.queue.Now() + ns + 10 * factor * sim_.pace.max_step_ns + kAftermathNs);
}

void WorkerNode::BreakConnection(int router) {
  const LinkPtr link = MemberOf(router).link;
  if (link == nullptr) return;
  sim_.Trace(setup_.target, "'s link to ", link->router->name(), " breaks");
  sim_.Troubled(LinkName(router), sim_.queue.Now() + kMaxWorkerNoticeMs * kNsPerMs + kAftermathNs);
  link->lost = true;
  const absl::Status broken = absl::UnavailableError("the connection broke");
  BreakLink(sim_, link, &Link::at_router, kMaxWorkerNoticeMs, broken);
  BreakLink(sim_, link, &Link::at_worker, kMaxWorkerNoticeMs, broken);
}

void WorkerNode::PartitionOneWay(int router, int64_t ns, bool to_router) {
  Member& member = MemberOf(router);
  const LinkPtr link = member.link;
  if (link == nullptr) return;
  sim_.Trace(setup_.target, to_router ? " is not heard by " : " hears nothing of ", link->router->name(), ", for ",
             ns / kNsPerMs, " ms");
  member.unreachable_until = sim_.queue.Now() + ns;
  (to_router ? link->at_router : link->at_worker).deaf = true;
  sim_.Troubled(LinkName(router), member.unreachable_until + 2 * kMaxHalfOpenNoticeMs * kNsPerMs);
  const absl::Status broken = absl::UnavailableError("the connection timed out");
  BreakLink(sim_, link, &Link::at_router, kMaxHalfOpenNoticeMs, broken);
  BreakLink(sim_, link, &Link::at_worker, kMaxHalfOpenNoticeMs, broken);
}

// The others' streams carry on.
void WorkerNode::OnPairCut(const PairCut& cut) {
  sim_.Trace(cut.to_source ? "nothing" : "all", " gets from ", cut.reader, " to ", cut.source, ", and ",
             cut.to_reader ? "nothing" : "all", " back");
  puller_.OnPairCut(cut);
}

void WorkerNode::OnStep() {
  if (sim_.poison.empty()) return;
  const std::vector<JobKey> at_work = AtWork();
  const bool poisoned =
      std::any_of(at_work.begin(), at_work.end(), [this](const JobKey& key) { return sim_.poison.contains(key.job); });
  if (!poisoned) return;
  After(sim_.Between(0, busy_until() - sim_.queue.Now() - 1), [this] { sim_.on_poisoned(incarnation()); });
}

}  // namespace baton::simulator
