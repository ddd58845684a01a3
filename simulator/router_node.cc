#include "simulator/router_node.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "simulator/worker_node.h"

namespace baton::simulator {
namespace {

// The workers of a dead router notice within this time.
constexpr int64_t kMaxRouterNoticeMs = 300;

WorkerJob JobAt(const router::JobSpec& spec, const JobKey& key, const Id128& secret, int64_t time_left_ns, TimeNs now) {
  return {.key = key,
          .secret = secret,
          .prompt = spec.prompt,
          .emitted = spec.emitted,
          .sampling = spec.sampling,
          .tenant = spec.tenant,
          .deadline = spec.deadline == kNever ? kNever : now + time_left_ns,
          .want_kv_digest = spec.want_kv_digest,
          .alone_outputs = spec.alone_outputs};
}

const char* Name(router::Side side) { return side == router::Side::kPrefill ? "prefill " : "decode "; }

}  // namespace

RouterNode::RouterNode(Simulation& sim, int number, const router::DispatcherOptions& options, JobListener& listener)
    : Process(sim),
      number_(number),
      name_(absl::StrCat("router-", number)),
      dispatcher_(options, clock(), sim.random),
      listener_(listener) {}

void RouterNode::FromClient(LoopTask task) {
  Reach([this, task = std::move(task)] { Post(task); });
}

void RouterNode::Post(LoopTask task) {
  mailbox_.push_back(std::move(task));
  // Sometimes several events meet in one turn.
  ScheduleRun(sim_.queue.Now() + sim_.Between(0, 200'000));
}

void RouterNode::ScheduleRun(TimeNs at) {
  if (next_run_ <= at) return;
  next_run_ = at;
  At(at, [this, at] {
    if (next_run_ == at) RunOnce();
  });
}

void RouterNode::RunOnce() {
  next_run_ = kNever;
  for (auto& task : std::exchange(mailbox_, {})) task(dispatcher_);
  if (dispatcher_.NextTimer() <= clock().Now()) dispatcher_.OnTimer();
  for (Periodic& periodic : periodic_) {
    if (periodic.next > clock().Now()) continue;
    periodic.task(dispatcher_);
    periodic.next = baton::After(clock().Now(), periodic.interval_ms);
  }
  for (auto actions = dispatcher_.TakeActions(); !actions.empty(); actions = dispatcher_.TakeActions()) {
    for (const router::DispatchAction& action : actions) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
  }
  for (const LinkPtr& link : std::exchange(drains_, {})) {
    Send(link, [link] { link->worker->OnDrainAccepted(link); });
  }
  TimeNs next = clock().ToVirtual(dispatcher_.NextTimer());
  for (const Periodic& periodic : periodic_) next = std::min(next, clock().ToVirtual(periodic.next));
  if (next != kNever) ScheduleRun(std::max(next, sim_.queue.Now()));
}

void RouterNode::Send(const LinkPtr& link, simulator::Task handle) {
  SendOver(sim_, link, &Link::at_router, &Link::at_worker, std::move(handle));
}

void RouterNode::Close(const LinkPtr& link, const absl::Status& why) {
  Send(link, [link, why] {
    link->at_worker.over = true;
    link->worker->OnLinkEnd(link, why);
  });
  link->at_router.over = true;
}

void RouterNode::OnHello(const LinkPtr& link, router::WorkerInfo info) {
  Post([this, link, info = std::move(info)](router::Dispatcher& dispatcher) { Join(dispatcher, link, info); });
}

void RouterNode::Join(router::Dispatcher& dispatcher, const LinkPtr& link, router::WorkerInfo info) {
  std::erase(joining_, link);
  if (link->at_router.over) return;
  info.id = sim_.random.NextId();
  if (absl::Status refused = dispatcher.OnWorkerJoin(info); !refused.ok()) {
    sim_.Trace(name_, ": ", info.target, " may not join: ", refused.ToString());
    return Close(link, refused);
  }
  link->membership = info.id;
  members_[info.id] = link;
  Send(link, [link] { link->worker->OnAccepted(link); });
}

void RouterNode::OnLoad(const LinkPtr& link, const router::WorkerLoad& load) {
  Post([this, link, load](router::Dispatcher& dispatcher) {
    dispatcher.OnWorkerLoad(link->membership, load);
    // The worker may leave once it has this, so the starts of this turn come first.
    if (load.state == router::WorkerState::kDraining) drains_.push_back(link);
  });
}

void RouterNode::OnBlocks(const LinkPtr& link, const BlockReport& report) {
  Post([this, link, report](router::Dispatcher& dispatcher) {
    ++sim_.counts.block_reports;
    if (report.other_routers_blocks > 0) ++sim_.counts.others_blocks;
    const router::LedgerNews news = dispatcher.OnWorkerBlocks(link->membership, report);
    if (news.empty()) return;
    const std::string whose = news.orphans.empty() ? "" : news.orphans.front().key.ToString();
    sim_.Fail(absl::StrCat(link->worker->setup().target, " holds blocks for nobody: ", news.orphans.size(), " orphans ",
                           whose, ", ", news.unaccounted_blocks, " blocks unaccounted"));
  });
}

void RouterNode::OnUpdate(const Call& call, const WorkerUpdate& update) {
  Post([call, update](router::Dispatcher& dispatcher) { dispatcher.OnWorkerUpdate(call.side, call.key, update); });
}

void RouterNode::OnCallEnd(const Call& call, const absl::Status& status) {
  sim_.Trace(name_, ": ", Name(call.side), call.key.ToString(), " ended: ", status.ToString());
  Post([call, status](router::Dispatcher& dispatcher) { dispatcher.OnWorkerEnd(call.side, call.key, status); });
}

void RouterNode::OnLinkEnd(const LinkPtr& link, const absl::Status& status) {
  Post([this, link, status](router::Dispatcher& dispatcher) {
    members_.erase(link->membership);
    dispatcher.OnWorkerLost(link->membership, status);
  });
}

void RouterNode::OnFault(const LinkPtr& link, const router::WorkerFault& fault) {
  Post([this, link, fault](router::Dispatcher& dispatcher) {
    if (members_.erase(link->membership) == 0) return;
    for (const JobKey& key : fault.at_work) listener_.OnDeath(key, *this);
    Close(link, absl::UnavailableError("the worker dies"));
    dispatcher.OnWorkerFault(link->membership, fault);
  });
}

std::shared_ptr<const router::JobSpec> RouterNode::ByOwnClock(
    const std::shared_ptr<const router::JobSpec>& spec) const {
  if (spec->deadline == kNever || clock().ahead_ns() == 0) return spec;
  auto own = std::make_shared<router::JobSpec>(*spec);
  own->deadline += clock().ahead_ns();
  return own;
}

void RouterNode::LeapRouterClock(int64_t ns) {
  sim_.Trace(name_, "'s clock leaps by ", ns / kNsPerMs, " ms");
  sim_.leapt.insert(Simulation::RouterName(number_));
  LeapClock(ns);
  ScheduleRun(sim_.queue.Now());
}

void RouterNode::OrderDrain(const Incarnation& worker) {
  sim_.Trace(name_, ": an operator orders a drain");
  FromClient([this, worker](router::Dispatcher& dispatcher) {
    if (dispatcher.OrderDrain(worker.ToHex()).ok()) ordered_drains_.insert(worker);
  });
}

bool RouterNode::Ejects(const WorkerNode& worker) const {
  return std::any_of(members_.begin(), members_.end(), [&](const auto& member) {
    return member.second->worker == &worker && dispatcher_.health().IsEjected(member.first);
  });
}

void RouterNode::CheckQuiet() const {
  if (dispatcher_.open_calls() != 0) sim_.Fail(name_ + " has open calls");
  if (dispatcher_.queued_jobs() + dispatcher_.running_jobs() + dispatcher_.paused_jobs() != 0) {
    sim_.Fail(name_ + " has jobs");
  }
  for (const auto& [worker, assigned] : dispatcher_.assigned()) {
    if (assigned.jobs != 0 || assigned.reserved_blocks != 0 || assigned.uncomputed_prompt_tokens != 0) {
      sim_.Fail(name_ + " still counts work as assigned");
    }
  }
  if (kept_ == nullptr) return;
  if (!kept_listeners_.empty()) sim_.Fail(name_ + " still listens to jobs");
  const router::LiveJobCounts counts = kept_->counts();
  if (counts.running + counts.ended + counts.bytes != 0) sim_.Fail(name_ + " still keeps jobs");
  if (disk_->jobs() != 0) sim_.Fail(absl::StrCat("the journal of ", name_, " still has ", disk_->jobs(), " jobs"));
}

void RouterNode::Crash() {
  sim_.Trace(name_, " crashes");
  Die();
  const absl::Status broken = absl::UnavailableError("the connection to the router broke");
  for (const auto& [id, link] : members_) BreakLink(sim_, link, &Link::at_worker, kMaxRouterNoticeMs, broken);
  for (const LinkPtr& link : joining_) BreakLink(sim_, link, &Link::at_worker, kMaxRouterNoticeMs, broken);
}

void RouterNode::Open(const router::WorkerId& worker, const Incarnation& incarnation, router::Side side,
                      const JobKey& key, std::function<void(WorkerNode&, const Call&)> start) {
  listener_.OnPlaced(key, incarnation);
  const auto it = members_.find(worker);
  // The worker was lost in the same turn.
  if (it == members_.end()) return;
  const Call call{.side = side, .key = key, .link = it->second};
  Send(call.link, [call, start = std::move(start)] { start(*call.link->worker, call); });
}

void RouterNode::Handle(const router::StartPrefill& action) {
  sim_.Trace(name_, ": prefill ", action.key.ToString(), " at ", action.target, action.solo ? " solo" : "");
  const int64_t left = action.job->deadline == kNever ? 0 : action.job->deadline - clock().Now();
  const auto start = [action, left](WorkerNode& worker, const Call& call) {
    worker.OnPrefill(call, JobAt(*action.job, action.key, action.secret, left, worker.clock().Now()), action.solo);
  };
  Open(action.worker, action.incarnation, router::Side::kPrefill, action.key, start);
}

void RouterNode::Handle(const router::StartDecode& action) {
  sim_.Trace(name_, ": decode ", action.key.ToString(), " at ", action.target, action.local_prefill ? " local" : "");
  if (action.local_prefill) ++sim_.counts.local;
  if (action.key.attempt > action.job->attempts_before + 1) ++sim_.counts.retries;
  // The worker that hands the job over has a part in it.
  if (sim_.Finds(action.key)) listener_.OnPlaced(action.key, action.prefill_incarnation);
  const int64_t left = action.job->deadline == kNever ? 0 : action.job->deadline - clock().Now();
  const auto start = [action, left](WorkerNode& worker, const Call& call) {
    worker.OnDecode(call, JobAt(*action.job, action.key, action.secret, left, worker.clock().Now()),
                    {.local = action.local_prefill,
                     .prefill_target = action.prefill_target,
                     .prefill_incarnation = action.prefill_incarnation,
                     .earlier = action.earlier});
  };
  Open(action.worker, action.incarnation, router::Side::kDecode, action.key, start);
}

void RouterNode::Handle(const router::CancelAttempt& action) {
  const auto it = members_.find(action.worker);
  if (it == members_.end()) return;
  const auto cancel = [link = it->second, key = action.key] { link->worker->OnCancel(link, key); };
  Send(it->second, cancel);
  if (sim_.Twice()) Send(it->second, cancel);
}

void RouterNode::Handle(const router::HandOverAttempt& action) {
  const auto it = members_.find(action.worker);
  if (it == members_.end()) return;
  sim_.Trace(name_, ": ", it->second->worker->setup().target, " is asked to ",
             action.hand_over.is_taken_back() ? "keep " : "hand over ", action.key.ToString());
  const auto ask = [link = it->second, action] { link->worker->OnHandOver(link, action.key, action.hand_over); };
  Send(it->second, ask);
  if (sim_.Twice()) Send(it->second, ask);
}

void RouterNode::Handle(const router::DrainWorker& action) {
  const auto it = members_.find(action.worker);
  if (it == members_.end()) return;
  if (ordered_drains_.erase(it->second->worker->incarnation()) == 0) sim_.Fail("a drain that nobody has ordered");
  Send(it->second, [link = it->second] { link->worker->OnDrainOrdered(); });
}

void RouterNode::Handle(const router::EndMembership& action) {
  const auto it = members_.find(action.worker);
  if (it == members_.end()) return;
  const LinkPtr link = it->second;
  sim_.Trace(name_, ": gives ", link->worker->setup().target, " up: ", action.why.ToString());
  ++sim_.counts.given_up;
  members_.erase(it);
  Close(link, action.why);
}

}  // namespace baton::simulator
