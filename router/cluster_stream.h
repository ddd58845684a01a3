// One worker's Join call on the cluster server's completion queue.
#ifndef BATON_ROUTER_CLUSTER_STREAM_H_
#define BATON_ROUTER_CLUSTER_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/clock.h"
#include "common/rpc/merged_writes.h"
#include "router/worker_stream.h"

namespace baton::router {

class ClusterStream final : public WorkerStream {
 public:
  using Service = internal::v1::ClusterService::AsyncService;
  // What the queue says is done. The stream lives until On has returned true for the last of them, or until the queue
  // is drained.
  enum class Op : uint8_t { kConnect, kRead, kWrite, kFinish };
  struct Tag {
    ClusterStream* stream;
    Op op;
  };

  ClusterStream();

  // Once: waits for the next call of a worker, which this stream then is.
  void Connect(Service& service, grpc::ServerCompletionQueue& queue);
  // Reads the next message into message(), which nobody uses meanwhile. Whoever has taken a message calls it again,
  // also on a stream that has ended, until a read fails.
  void Read() { call_.Read(&message_, &read_tag_); }
  const internal::v1::WorkerMessage& message() const { return message_; }

  void Send(size_t bytes, absl::FunctionRef<void(internal::v1::RouterMessage&)> fill) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void End(const absl::Status& why) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool ended() const override ABSL_LOCKS_EXCLUDED(mutex_);

  // The queue's thread alone, for every op of this stream: true when no other follows.
  bool On(Op op, bool ok) ABSL_LOCKS_EXCLUDED(mutex_);

  // The queue's thread alone: until when the worker has to say hello; kNever once it has.
  TimeNs hello_deadline = kNever;

 private:
  // Starts the next write, or the finish of a call that is to end.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<internal::v1::RouterMessage, internal::v1::WorkerMessage> call_{&context_};
  internal::v1::WorkerMessage message_;
  Tag connect_tag_{this, Op::kConnect};
  Tag read_tag_{this, Op::kRead};
  Tag write_tag_{this, Op::kWrite};
  Tag finish_tag_{this, Op::kFinish};

  mutable absl::Mutex mutex_;
  rpc::MergedWrites<internal::v1::RouterMessage> writes_ ABSL_GUARDED_BY(mutex_);
  // Why the stream ends.
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  // The queue's thread alone.
  bool read_failed_ = false;
  bool finished_ = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CLUSTER_STREAM_H_
