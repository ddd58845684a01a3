// The client's side of a streaming call, usable from any thread; see server_stream.h.
#ifndef BATON_COMMON_RPC_CLIENT_STREAM_H_
#define BATON_COMMON_RPC_CLIENT_STREAM_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/write_queue.h"

namespace baton::rpc {

template <typename Response>
struct ClientCallbacks {
  // Runs on gRPC threads, one message at a time, in order.
  std::function<void(const Response&)> on_message;
  // Runs last, and once. The stream no longer holds itself by then. An owner that waits for this call before it drops
  // its own references makes sure that no thread of gRPC drops the last reference to the channel: such a thread would
  // wait for its own end (gRPC 1.51).
  std::function<void(const grpc::Status&)> on_done;
};

// Many requests, many responses.
template <typename Request, typename Response>
class ClientBidi final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  // `start` is the stub's async method: start(context, reactor).
  template <typename StartCall>
  static std::shared_ptr<ClientBidi> Create(StartCall start, ClientCallbacks<Response> callbacks) {
    auto stream = std::make_shared<ClientBidi>();
    stream->self_ = stream;
    stream->callbacks_ = std::move(callbacks);
    start(&stream->context_, stream.get());
    // The hold lasts until the read side ends, so that Push may start a write at any time before.
    stream->AddHold();
    stream->StartRead(&stream->response_);
    stream->StartCall();
    return stream;
  }

  // False when the call is over or the other side does not read.
  bool Push(Request request) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (closed_ || half_closing_ || !queue_.Push(std::move(request))) return false;
    Advance();
    return true;
  }
  // Nothing will be sent after the messages that were pushed already.
  void HalfClose() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (closed_ || std::exchange(half_closing_, true)) return;
    Advance();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    if (ok) {
      callbacks_.on_message(response_);
      this->StartRead(&response_);
      return;
    }
    {
      absl::MutexLock lock(&mutex_);
      closed_ = true;
    }
    this->RemoveHold();
  }
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    queue_.WriteDone(ok);
    if (ok && !closed_) Advance();
  }
  void OnDone(const grpc::Status& status) override {
    const auto on_done = std::move(callbacks_.on_done);
    self_.reset();
    on_done(status);
  }

 private:
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (const Request* next = queue_.Next()) {
      this->StartWrite(next);
    } else if (half_closing_ && queue_.idle() && !std::exchange(writes_done_, true)) {
      this->StartWritesDone();
    }
  }

  grpc::ClientContext context_;
  Response response_;
  ClientCallbacks<Response> callbacks_;
  absl::Mutex mutex_;
  WriteQueue<Request> queue_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool writes_done_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<ClientBidi> self_;
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_CLIENT_STREAM_H_
