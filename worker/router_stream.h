// The worker's end of one Join call, on the link's completion queue.
#ifndef BATON_WORKER_ROUTER_STREAM_H_
#define BATON_WORKER_ROUTER_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/rpc/merged_writes.h"
#include "worker/router_calls.h"

namespace baton::worker {

// Made, driven and awaited by the link's thread; Send may come from any.
class GrpcRouterStream final : public RouterStream {
 public:
  // What the queue says is done.
  enum class Op : uint8_t { kStart, kRead, kWrite, kHalfClose, kFinish };
  // The queue names an op by the tag that it was begun with.
  static Op OpOf(const void* tag) { return *static_cast<const Op*>(tag); }

  // Begins the call, whose first message is `hello`. Both others outlive the stream's last op.
  GrpcRouterStream(internal::v1::ClusterService::Stub& stub, grpc::CompletionQueue& queue,
                   const internal::v1::Hello& hello);

  // Every message carries the membership's id from now on.
  void SetMembership(const std::string& membership) ABSL_LOCKS_EXCLUDED(mutex_);
  void Send(size_t bytes, absl::FunctionRef<void(internal::v1::WorkerMessage&)> fill) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing is sent after what waits.
  void HalfClose() ABSL_LOCKS_EXCLUDED(mutex_);
  void Cancel() { context_.TryCancel(); }

  // For every op that the queue says is done. True when a message was read: the caller takes it from message(), and
  // then calls Read.
  bool On(Op op, bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  internal::v1::RouterMessage& message() { return message_; }
  void Read() ABSL_LOCKS_EXCLUDED(mutex_);
  // No op follows.
  bool done() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Why the stream ended, once it is done.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Closing : uint8_t { kNo, kWanted, kDone };

  static void* TagOf(Op op);
  // Each op that is started is counted until the queue says that it is done.
  void* Begin(Op op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::ClientContext context_;
  internal::v1::RouterMessage message_;
  grpc::Status grpc_status_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<internal::v1::WorkerMessage, internal::v1::RouterMessage>> call_;

  mutable absl::Mutex mutex_;
  int ops_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string membership_ ABSL_GUARDED_BY(mutex_);
  rpc::MergedWrites<internal::v1::WorkerMessage> writes_ ABSL_GUARDED_BY(mutex_);
  Closing half_close_ ABSL_GUARDED_BY(mutex_) = Closing::kNo;
  // The call has begun.
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  // The call is over, or is cut: nothing is written any more.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  // The router did not read.
  bool overflowed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ROUTER_STREAM_H_
