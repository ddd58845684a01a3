// One worker's Join call.
#ifndef BATON_ROUTER_CLUSTER_STREAM_H_
#define BATON_ROUTER_CLUSTER_STREAM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <optional>

#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/rpc/credentials.h"
#include "common/rpc/event_queue.h"
#include "common/rpc/merged_writes.h"
#include "router/worker_stream.h"

namespace baton::router {

// Used by the router's loop, whose events its operations are; Connect alone belongs to the thread that accepts calls.
class ClusterStream final : public WorkerStream {
 public:
  using Service = internal::v1::ClusterService::AsyncService;

  class Owner {
   public:
    virtual ~Owner() = default;
    // On the thread that accepts calls: the stream is a worker's call, or the server ends before one came.
    virtual void OnConnected(ClusterStream& stream, bool ok) = 0;
    // The rest on the loop. A message has come, which message() holds until Read.
    virtual void OnMessage(ClusterStream& stream) = 0;
    virtual void OnHelloTimeout(ClusterStream& stream) = 0;
    // No message follows.
    virtual void OnClosed(ClusterStream& stream) = 0;
    // The last call: the stream may go.
    virtual void OnDone(ClusterStream& stream) = 0;
  };

  // All of it outlives the stream. Null `credentials`: workers show no certificate.
  ClusterStream(Owner& owner, rpc::EventQueue& events, const rpc::Credentials* credentials);

  // Once: waits for the next call of a worker, which this stream then is.
  void Connect(Service& service, grpc::ServerCompletionQueue& accepting);
  // Once connected: the worker has this time to say hello.
  void AwaitHello(int64_t timeout_ms);
  // True until the first message has come, if AwaitHello was called.
  bool awaits_hello() const { return awaits_hello_; }

  // Reads the next message. Whoever has taken a message calls it again, also on a stream that has ended, until
  // OnClosed.
  void Read() { call_.Read(&message_, &read_done_); }
  const internal::v1::WorkerMessage& message() const { return message_; }

  void Send(size_t bytes, absl::FunctionRef<void(internal::v1::RouterMessage&)> fill) override;
  void End(const absl::Status& why) override;
  bool ended() const override { return end_.has_value(); }
  absl::Status CheckRole(internal::v1::WorkerRole role) const override;

 private:
  void OnConnect(bool ok) { owner_.OnConnected(*this, ok); }
  void OnHelloAlarm(bool ok);
  void OnRead(bool ok);
  void OnWrite(bool ok);
  void OnFinish(bool ok);
  // Starts the next write, or the finish of a call that is to end.
  void Advance();
  void FinishIfDone();

  Owner& owner_;
  rpc::EventQueue& events_;
  const rpc::Credentials* const credentials_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<internal::v1::RouterMessage, internal::v1::WorkerMessage> call_{&context_};
  internal::v1::WorkerMessage message_;
  rpc::OperationOf<ClusterStream> connected_{this, &ClusterStream::OnConnect};
  rpc::OperationOf<ClusterStream> hello_due_{this, &ClusterStream::OnHelloAlarm};
  rpc::OperationOf<ClusterStream> read_done_{this, &ClusterStream::OnRead};
  rpc::OperationOf<ClusterStream> write_done_{this, &ClusterStream::OnWrite};
  rpc::OperationOf<ClusterStream> finish_done_{this, &ClusterStream::OnFinish};
  grpc::Alarm hello_alarm_;

  rpc::MergedWrites<internal::v1::RouterMessage> writes_;
  // Why the stream ends.
  std::optional<grpc::Status> end_;
  bool awaits_hello_ = false;
  bool alarm_set_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  bool closed_ = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CLUSTER_STREAM_H_
