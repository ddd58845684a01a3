#include "router/router_loop.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/drain.h"
#include "common/limits.h"
#include "common/log.h"
#include "router/refusal_reason.h"

namespace baton::router {

// An idle loop checks its timers at least this often.
constexpr int64_t kMaxIdleWaitNs = 100 * kNsPerMs;
// How often paused jobs are asked whether their clients have read.
constexpr int64_t kContinueIntervalMs = 50;

RouterLoop::RouterLoop(const DispatcherOptions& options, const Clock& clock, RandomSource& random, LoopEvents& events)
    : clock_(clock), events_(events), dispatcher_(options, clock, random), mailbox_(kMaxMailboxEvents) {}

RouterLoop::~RouterLoop() { Stop(); }

void RouterLoop::Every(int64_t interval_ms, Task task) {
  periodic_.push_back({.interval_ms = interval_ms, .task = std::move(task), .next = clock_.Now()});
}

void RouterLoop::Start(WorkerCalls& calls) {
  calls_ = &calls;
  thread_ = std::thread([this] { Run(); });
}

void RouterLoop::Stop() {
  mailbox_.Close();
  events_.Wake();
  if (thread_.joinable()) thread_.join();
}

bool RouterLoop::Post(Task task) {
  if (!mailbox_.Post(std::move(task))) return false;
  events_.Wake();
  return true;
}

void RouterLoop::PostWhenRoom(Task task) {
  if (std::this_thread::get_id() == loop_thread_.load()) return task(dispatcher_);
  if (mailbox_.PostWhenRoom(std::move(task))) events_.Wake();
}

absl::Status RouterLoop::Submit(std::shared_ptr<const JobSpec> job, std::shared_ptr<JobListener> listener) {
  if (draining_) {
    return WithReason(absl::UnavailableError("the router is shutting down: use another one"), RefusalReason::kDraining);
  }
  const ChoiceKey key = job->key();
  absl::Status status = dispatcher_.Submit(std::move(job));
  if (status.ok()) listeners_[key] = std::move(listener);
  return status;
}

std::vector<ChoiceKey> RouterLoop::Drain(int64_t timeout_ms) {
  PostWhenRoom([this](Dispatcher&) { draining_ = true; });
  std::vector<ChoiceKey> cut;
  if (drained_.WaitForNotificationWithTimeout(absl::Milliseconds(timeout_ms))) return cut;
  absl::Notification done;
  PostWhenRoom([&](Dispatcher& dispatcher) {
    for (const auto& [key, listener] : listeners_) cut.push_back(key);
    for (const ChoiceKey& key : cut) {
      const absl::Status why = CutByDrain(key, timeout_ms);
      dispatcher.Cancel(key,
                        WithReason(absl::UnavailableError(absl::StrCat("the router is shutting down: ", why.message())),
                                   RefusalReason::kDraining));
    }
    // The clients are told before this returns.
    Apply();
    done.Notify();
  });
  done.WaitForNotification();
  return cut;
}

void RouterLoop::Run() {
  loop_thread_ = std::this_thread::get_id();
  while (true) {
    const bool stopping = mailbox_.closed();
    for (Task& task : mailbox_.Take()) task(dispatcher_);
    const TimeNs now = clock_.Now();
    if (dispatcher_.NextTimer() <= now) dispatcher_.OnTimer();
    for (Periodic& periodic : periodic_) {
      if (periodic.next > now) continue;
      periodic.task(dispatcher_);
      periodic.next = After(now, periodic.interval_ms);
    }
    if (!dispatcher_.paused().empty() && next_continue_ <= now) Continue();
    Apply();
    for (const std::string& note : dispatcher_.TakeHealthNotes()) spdlog::warn(note);
    const bool idle =
        dispatcher_.queued_jobs() == 0 && dispatcher_.running_jobs() == 0 && dispatcher_.paused_jobs() == 0;
    if (draining_ && idle && !drained_.HasBeenNotified()) drained_.Notify();
    if (stopping) return;
    events_.Wait(std::clamp<int64_t>(dispatcher_.NextTimer() - clock_.Now(), 0, kMaxIdleWaitNs));
  }
}

void RouterLoop::Continue() {
  next_continue_ = After(clock_.Now(), kContinueIntervalMs);
  const std::vector<ChoiceKey> paused(dispatcher_.paused().begin(), dispatcher_.paused().end());
  for (const ChoiceKey& key : paused) {
    if (!listeners_.at(key)->is_behind()) dispatcher_.Continue(key);
  }
}

// A listener may cause further actions, such as a cancellation, so this repeats until there are none.
void RouterLoop::Apply() {
  for (auto actions = dispatcher_.TakeActions(); !actions.empty(); actions = dispatcher_.TakeActions()) {
    for (const DispatchAction& action : actions) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
  }
}

void RouterLoop::Handle(const EmitToken& action) {
  const auto it = listeners_.find(action.key);
  if (it == listeners_.end()) return;
  if (action.prompt != nullptr) it->second->OnPrompt(action.prompt);
  it->second->OnToken(action.token);
  if (it->second->is_behind()) dispatcher_.Pause(action.key);
}

void RouterLoop::Handle(const EndJob& action) {
  const auto it = listeners_.find(action.key);
  if (it == listeners_.end()) return;
  const std::shared_ptr<JobListener> listener = std::move(it->second);
  listeners_.erase(it);
  listener->OnEnd(action.result);
}

}  // namespace baton::router
