#include "simulator/router_node.h"

#include <variant>

#include "simulator/worker_node.h"

namespace baton::simulator {
namespace {

// This share of the calls that are cancelled before they reach their worker never starts at the worker.
constexpr int kLostStartPercent = 30;

WorkerJob JobAt(const router::JobSpec& spec, const JobKey& key, int64_t time_left_ns, TimeNs now) {
  return {.key = key,
          .prompt = spec.prompt,
          .sampling = spec.sampling,
          .tenant = spec.tenant,
          .deadline = spec.deadline == kNever ? kNever : now + time_left_ns,
          .want_kv_digest = spec.want_kv_digest};
}

}  // namespace

RouterNode::RouterNode(Simulation& sim, const router::DispatcherOptions& options, FindWorker find,
                       JobListener& listener)
    : sim_(sim), dispatcher_(options, sim.queue), find_(std::move(find)), listener_(listener) {}

void RouterNode::Post(std::function<void(router::Dispatcher&)> task) {
  mailbox_.push_back(std::move(task));
  // Sometimes several events meet in one turn.
  ScheduleRun(sim_.queue.Now() + sim_.Between(0, 200'000));
}

void RouterNode::ScheduleRun(TimeNs at) {
  if (next_run_ <= at) return;
  next_run_ = at;
  sim_.queue.At(at, [this, at] {
    if (next_run_ == at) RunOnce();
  });
}

void RouterNode::RunOnce() {
  next_run_ = kNever;
  for (auto& task : std::exchange(mailbox_, {})) task(dispatcher_);
  if (dispatcher_.NextTimer() <= sim_.queue.Now()) dispatcher_.OnTimer();
  for (auto actions = dispatcher_.TakeActions(); !actions.empty(); actions = dispatcher_.TakeActions()) {
    for (const router::DispatchAction& action : actions) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
  }
  if (const TimeNs next = dispatcher_.NextTimer(); next != kNever) ScheduleRun(std::max(next, sim_.queue.Now()));
}

void RouterNode::Open(router::Side side, const JobKey& key, const std::string& target, const Incarnation& incarnation,
                      std::function<void(WorkerNode&, const std::shared_ptr<Call>&)> start) {
  auto call = std::make_shared<Call>();
  call->side = side;
  call->key = key;
  calls_[{side, key}] = call;
  listener_.OnPlaced(key, incarnation);
  call->to_worker.Send(sim_, [this, call, target, incarnation, start = std::move(start)] {
    if (call->cancelled && sim_.Chance(kLostStartPercent)) return;
    const auto refuse = [&](const absl::Status& status) {
      call->to_router.Send(sim_, [this, call, status] { DeliverEnd(call, status); });
    };
    WorkerNode* worker = find_(target);
    if (worker == nullptr) return refuse(absl::UnavailableError(absl::StrCat("nobody listens at ", target)));
    if (worker->incarnation() != incarnation) return refuse(absl::FailedPreconditionError("another incarnation"));
    call->worker = worker;
    start(*worker, call);
  });
}

void RouterNode::Handle(const router::StartPrefill& action) {
  sim_.Trace("router: prefill ", action.key.ToString(), " at ", action.target, action.solo ? " solo" : "");
  const int64_t left = action.job->deadline == kNever ? 0 : action.job->deadline - sim_.queue.Now();
  Open(router::Side::kPrefill, action.key, action.target, action.worker,
       [this, action, left](WorkerNode& worker, const std::shared_ptr<Call>& call) {
         worker.OpenPrefill(call, JobAt(*action.job, action.key, left, sim_.queue.Now()), action.solo);
       });
}

void RouterNode::Handle(const router::StartDecode& action) {
  sim_.Trace("router: decode ", action.key.ToString(), " at ", action.target, action.local_prefill ? " local" : "");
  if (action.local_prefill) ++sim_.counts.local;
  if (action.key.attempt > 1) ++sim_.counts.retries;
  const int64_t left = action.job->deadline == kNever ? 0 : action.job->deadline - sim_.queue.Now();
  Open(router::Side::kDecode, action.key, action.target, action.worker,
       [this, action, left](WorkerNode& worker, const std::shared_ptr<Call>& call) {
         worker.OpenDecode(call, JobAt(*action.job, action.key, left, sim_.queue.Now()),
                           {.local = action.local_prefill,
                            .prefill_target = action.prefill_target,
                            .prefill_incarnation = action.prefill_worker});
       });
}

// As with gRPC, the caller's end is over at once, while the worker hears of it in its own time.
void RouterNode::Handle(const router::CancelAttempt& action) {
  const auto it = calls_.find({action.side, action.key});
  if (it == calls_.end()) return;
  const std::shared_ptr<Call> call = it->second;
  call->cancelled = true;
  call->to_worker.Send(sim_, [call] {
    if (call->worker != nullptr) call->worker->CancelCall(call);
  });
  sim_.queue.After(sim_.Between(0, kNsPerMs), [this, call] { DeliverEnd(call, absl::CancelledError("cancelled")); });
}

void RouterNode::DeliverUpdate(const std::shared_ptr<Call>& call, const WorkerUpdate& update) {
  if (call->over) return;
  Post([call, update](router::Dispatcher& dispatcher) { dispatcher.OnWorkerUpdate(call->side, call->key, update); });
}

void RouterNode::DeliverEnd(const std::shared_ptr<Call>& call, const absl::Status& status) {
  if (call->over) return;
  call->over = true;
  calls_.erase({call->side, call->key});
  sim_.Trace("router: ", call->side == router::Side::kPrefill ? "prefill " : "decode ", call->key.ToString(),
             " ended: ", status.ToString());
  Post([call, status](router::Dispatcher& dispatcher) { dispatcher.OnWorkerEnd(call->side, call->key, status); });
}

}  // namespace baton::simulator
