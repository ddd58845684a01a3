#include "common/rpc/event_queue.h"

#include <grpc/support/time.h>

#include "common/check.h"

namespace baton::rpc {

EventQueue::~EventQueue() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    if (tag != nullptr) static_cast<Operation*>(tag)->Done(ok);
  }
}

void EventQueue::Wait(int64_t timeout_ns) {
  State state = State::kRunning;
  if (!state_.compare_exchange_strong(state, State::kWaiting) && state == State::kWoken) {
    timeout_ns = 0;
    state_ = State::kRunning;
  }
  const gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout_ns, GPR_TIMESPAN));
  void* tag = nullptr;
  bool ok = false;
  const auto next = queue_.AsyncNext(&tag, &ok, timeout_ns > 0 ? deadline : gpr_inf_past(GPR_CLOCK_MONOTONIC));
  const bool alarmed = next == grpc::CompletionQueue::GOT_EVENT && tag == nullptr;
  // An alarm that is set is still to come, and is not set again before.
  state = State::kWaiting;
  if (alarmed) {
    state_ = State::kRunning;
  } else {
    state_.compare_exchange_strong(state, State::kRunning);
  }
  if (next == grpc::CompletionQueue::GOT_EVENT && !alarmed) static_cast<Operation*>(tag)->Done(ok);
}

void EventQueue::Wake() {
  State state = state_;
  State next = State::kRunning;
  do {
    if (state == State::kWoken || state == State::kAlarmSet) return;
    next = state == State::kWaiting ? State::kAlarmSet : State::kWoken;
  } while (!state_.compare_exchange_weak(state, next));
  if (next == State::kAlarmSet) alarm_.Set(&queue_, gpr_now(GPR_CLOCK_MONOTONIC), nullptr);
}

AcceptThread::~AcceptThread() {
  // The calls that it waits for belong to a server that may be gone.
  BATON_CHECK(!thread_.joinable());
  if (stopping_) return;
  // The server could not be built.
  queue_->Shutdown();
  Run();
}

// The thread shuts its queue down itself: nobody may wait for a call after that.
void AcceptThread::Stop() {
  if (!thread_.joinable()) return;
  alarm_.Set(queue_.get(), gpr_now(GPR_CLOCK_MONOTONIC), &stop_);
  thread_.join();
}

void AcceptThread::OnStop(bool) {
  stopping_ = true;
  queue_->Shutdown();
}

void AcceptThread::Start() {
  thread_ = std::thread([this] { Run(); });
}

void AcceptThread::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<Operation*>(tag)->Done(ok);
}

}  // namespace baton::rpc
