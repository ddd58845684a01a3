// gRPC's asynchronous operations as the events of one thread: a loop that polls its connections itself hears of a
// message, and of a write that is done, without a second thread that has to wake it.
#ifndef BATON_COMMON_RPC_EVENT_QUEUE_H_
#define BATON_COMMON_RPC_EVENT_QUEUE_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "common/loop_events.h"

namespace baton::rpc {

// The tag of a gRPC operation. It lives until the operation is done.
class Operation {
 public:
  // On the thread that polls the queue. `ok` is gRPC's.
  virtual void Done(bool ok) = 0;

 protected:
  ~Operation() = default;
};

// Calls `method` of `object`.
template <typename T>
class OperationOf final : public Operation {
 public:
  OperationOf(T* object, void (T::*method)(bool ok)) : object_(object), method_(method) {}
  void Done(bool ok) override { (object_->*method_)(ok); }

 private:
  T* const object_;
  void (T::*const method_)(bool ok);
};

// The events of a loop. Any thread may start operations on queue().
//
//   state      | Wait                              | Wake
//   -----------+-----------------------------------+-----------------------------
//   kRunning   | waits: kWaiting, then kRunning    | kWoken
//   kWoken     | polls without waiting: kRunning   | -
//   kWaiting   | -                                 | sets the alarm: kAlarmSet
//   kAlarmSet  | the alarm ends this Wait or the   | -
//              | next: kRunning                    |
class EventQueue final : public LoopEvents {
 public:
  // No operation is left but the alarm.
  ~EventQueue() override;

  grpc::CompletionQueue& queue() { return queue_; }
  void Wait(int64_t timeout_ns) override;
  void Wake() override;

 private:
  enum class State : uint8_t { kRunning, kWoken, kWaiting, kAlarmSet };

  grpc::CompletionQueue queue_;
  std::atomic<State> state_{State::kRunning};
  grpc::Alarm alarm_;
};

// A thread that waits for new calls of a server, and runs as long as the server.
class AcceptThread {
 public:
  explicit AcceptThread(std::unique_ptr<grpc::ServerCompletionQueue> queue) : queue_(std::move(queue)) {}
  // It was not started, or is stopped.
  ~AcceptThread();

  // Once the server has been built.
  void Start();
  // The server's Shutdown has returned. Calls that came before are still told.
  void Stop();
  // On the thread: no call may be waited for any more.
  bool stopping() const { return stopping_; }
  grpc::ServerCompletionQueue& queue() { return *queue_; }

 private:
  void Run();
  void OnStop(bool ok);

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  OperationOf<AcceptThread> stop_{this, &AcceptThread::OnStop};
  grpc::Alarm alarm_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_EVENT_QUEUE_H_
