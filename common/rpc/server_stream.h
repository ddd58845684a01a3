// The server's side of a streaming call, usable from any thread: gRPC's callback reactors with a bounded write queue
// and shared ownership. The call keeps itself alive until gRPC is done with it, whoever else holds it.
#ifndef BATON_COMMON_RPC_SERVER_STREAM_H_
#define BATON_COMMON_RPC_SERVER_STREAM_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/write_queue.h"

namespace baton::rpc {

// Many requests, many responses.
template <typename Request, typename Response>
class ServerBidi final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  struct Callbacks {
    std::function<void(const Request&)> on_message;
    // Runs once, when no message can follow: the stream is half-closed, cancelled or cut. Finish is still to be called.
    std::function<void()> on_closed;
  };

  static std::shared_ptr<ServerBidi> Create() {
    auto stream = std::make_shared<ServerBidi>();
    stream->self_ = stream;
    return stream;
  }

  // Starts to read. The callbacks run on gRPC threads, one at a time.
  void Start(Callbacks callbacks) {
    callbacks_ = std::move(callbacks);
    this->StartRead(&request_);
  }

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

  void OnReadDone(bool ok) override {
    if (!ok) return callbacks_.on_closed();
    callbacks_.on_message(request_);
    this->StartRead(&request_);
  }
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    queue_.WriteDone(ok);
    Advance();
  }
  void OnCancel() override {}
  void OnDone() override { self_.reset(); }

 private:
  using Reactor = grpc::ServerBidiReactor<Request, Response>;

  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (const Response* next = queue_.Next()) {
      this->StartWrite(next);
    } else if (final_status_.has_value() && queue_.idle() && !std::exchange(finished_, true)) {
      Reactor::Finish(*final_status_);
    }
  }

  Callbacks callbacks_;
  Request request_;
  absl::Mutex mutex_;
  WriteQueue<Response> queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // Set before the call starts; only OnDone clears it.
  std::shared_ptr<ServerBidi> self_;
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_SERVER_STREAM_H_
