// The server's side of a streaming call, usable from any thread: gRPC's callback reactors with a bounded write queue
// and shared ownership. The call keeps itself alive until gRPC is done with it, whoever else holds it.
#ifndef BATON_COMMON_RPC_SERVER_STREAM_H_
#define BATON_COMMON_RPC_SERVER_STREAM_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/write_queue.h"

namespace baton::rpc {

// Has Push and Finish of both kinds of server stream. `Reactor` is ServerWriteReactor or ServerBidiReactor.
template <typename Reactor, typename Response>
class ServerStreamBase : public Reactor {
 public:
  // Drops the message and returns false when the reader is too slow or the call is over.
  bool Push(Response response) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (final_status_.has_value() || !queue_.Push(std::move(response))) return false;
    Advance();
    return true;
  }

  // Ends the call once everything is written. The first status counts. Every stream needs this call, also a cancelled
  // one.
  void Finish(const grpc::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (final_status_.has_value()) return;
    final_status_ = status;
    Advance();
  }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    queue_.WriteDone(ok);
    Advance();
  }

  void OnDone() override { self_.reset(); }

 protected:
  void KeepAlive(std::shared_ptr<ServerStreamBase> self) { self_ = std::move(self); }

 private:
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (const Response* next = queue_.Next()) {
      this->StartWrite(next);
    } else if (final_status_.has_value() && queue_.idle() && !std::exchange(finished_, true)) {
      Reactor::Finish(*final_status_);
    }
  }

  absl::Mutex mutex_;
  WriteQueue<Response> queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // Set before the call starts; only OnDone clears it.
  std::shared_ptr<ServerStreamBase> self_;
};

// One request, many responses.
template <typename Response>
class ServerStream final : public ServerStreamBase<grpc::ServerWriteReactor<Response>, Response> {
 public:
  // `on_cancel` runs on a gRPC thread when the client cancels or is gone, also after Finish.
  static std::shared_ptr<ServerStream> Create(std::function<void()> on_cancel) {
    auto stream = std::make_shared<ServerStream>();
    stream->on_cancel_ = std::move(on_cancel);
    stream->KeepAlive(stream);
    return stream;
  }

  // The client cancelled or is gone; true before `on_cancel` runs.
  bool cancelled() const { return cancelled_.load(); }

  void OnCancel() override {
    cancelled_.store(true);
    on_cancel_();
  }

 private:
  std::function<void()> on_cancel_;
  std::atomic<bool> cancelled_{false};
};

// Many requests, many responses.
template <typename Request, typename Response>
class ServerBidi final : public ServerStreamBase<grpc::ServerBidiReactor<Request, Response>, Response> {
 public:
  struct Callbacks {
    std::function<void(const Request&)> on_message;
    // Runs once, when no message can follow: the stream is half-closed, cancelled or cut. Finish is still to be called.
    std::function<void()> on_closed;
  };

  static std::shared_ptr<ServerBidi> Create() {
    auto stream = std::make_shared<ServerBidi>();
    stream->KeepAlive(stream);
    return stream;
  }

  // Starts to read. The callbacks run on gRPC threads, one at a time.
  void Start(Callbacks callbacks) {
    callbacks_ = std::move(callbacks);
    this->StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return callbacks_.on_closed();
    callbacks_.on_message(request_);
    this->StartRead(&request_);
  }
  void OnCancel() override {}

 private:
  Callbacks callbacks_;
  Request request_;
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_SERVER_STREAM_H_
