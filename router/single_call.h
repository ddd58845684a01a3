// The server's end of a gRPC call with one request, whose answer goes out as a stream or as one message.
#ifndef BATON_ROUTER_SINGLE_CALL_H_
#define BATON_ROUTER_SINGLE_CALL_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/event_queue.h"
#include "router/answer_form.h"
#include "router/rpc_answer.h"
#include "router/unread_output.h"

namespace baton::router {

// It keeps itself alive until gRPC is done with it. Its operations are events of the router's loop, so that the end of
// a write, which follows each token, wakes no other thread. It writes one message at a time, and asks the answer for
// the next one when that is done. Thread-safe.
class SingleCall : public RpcAnswer::Call {
 public:
  // Runs on the accepting thread when the call is a client's.
  using OnCallCallback = std::function<void(SingleCall&, const std::shared_ptr<RpcAnswer>&)>;
  using FormMaker = std::unique_ptr<AnswerForm> (*)();

  const grpc::ServerContext& context() const { return context_; }
  // Takes the request.
  grpc::ByteBuffer TakeMessage();

  void OnPiece(RpcAnswer& answer) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Cut() override;

 protected:
  SingleCall(UnreadOutput& unread, FormMaker make_form, OnCallCallback on_call)
      : unread_(unread), make_form_(make_form), on_call_(std::move(on_call)) {}

  // Waits for the next call of a client, unless the server ends before: `start` starts the operation `accepted`.
  template <typename Start>
  static void Await(const std::shared_ptr<SingleCall>& call, Start start) {
    call->self_ = call;
    call->context_.AsyncNotifyWhenDone(&call->ended_);
    start(&call->context_, &call->message_, &call->accepted_);
  }

  virtual void StartWrite(const grpc::ByteBuffer& message, void* tag) = 0;
  virtual void StartFinish(const std::optional<grpc::ByteBuffer>& last, const grpc::Status& status, void* tag) = 0;

  grpc::ServerContext context_;

 private:
  void OnAccepted(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWriteDone(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnFinished(bool ok);
  // gRPC's word that the call has ended, by the server's status or by the client.
  void OnCallDone(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaveIfDone() ABSL_LOCKS_EXCLUDED(mutex_);
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::ByteBuffer message_;
  rpc::OperationOf<SingleCall> accepted_{this, &SingleCall::OnAccepted};
  rpc::OperationOf<SingleCall> write_done_{this, &SingleCall::OnWriteDone};
  rpc::OperationOf<SingleCall> finish_done_{this, &SingleCall::OnFinished};
  rpc::OperationOf<SingleCall> ended_{this, &SingleCall::OnCallDone};
  UnreadOutput& unread_;
  const FormMaker make_form_;
  const OnCallCallback on_call_;

  absl::Mutex mutex_;
  // Until it has left.
  std::shared_ptr<RpcAnswer> answer_ ABSL_GUARDED_BY(mutex_);
  // The client is, perhaps before the call was accepted.
  bool is_gone_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  // The loop's.
  bool finished_ = false;
  bool call_done_ = false;
  // Until the call is over.
  std::shared_ptr<SingleCall> self_;
};

// Any number of messages, and then the status.
class StreamingCall final : public SingleCall {
 public:
  // `request` is a Request method of the service, which gets (context, message, writer, queue, accepting, tag).
  // `events` and `unread` outlive the call.
  template <typename Request>
  static void Await(Request request, grpc::ServerCompletionQueue& accepting, rpc::EventQueue& events,
                    UnreadOutput& unread, FormMaker make_form, OnCallCallback on_call) {
    const std::shared_ptr<StreamingCall> call(new StreamingCall(unread, make_form, std::move(on_call)));
    SingleCall::Await(call, [&](grpc::ServerContext* context, grpc::ByteBuffer* message, void* tag) {
      request(context, message, &call->writer_, &events.queue(), &accepting, tag);
    });
  }

 private:
  using SingleCall::SingleCall;
  void StartWrite(const grpc::ByteBuffer& message, void* tag) override;
  void StartFinish(const std::optional<grpc::ByteBuffer>& last, const grpc::Status& status, void* tag) override;

  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer_{&context_};
};

// One message, or an error. Its forms are whole.
class UnaryCall final : public SingleCall {
 public:
  // As for StreamingCall.
  template <typename Request>
  static void Await(Request request, grpc::ServerCompletionQueue& accepting, rpc::EventQueue& events,
                    UnreadOutput& unread, FormMaker make_form, OnCallCallback on_call) {
    const std::shared_ptr<UnaryCall> call(new UnaryCall(unread, make_form, std::move(on_call)));
    SingleCall::Await(call, [&](grpc::ServerContext* context, grpc::ByteBuffer* message, void* tag) {
      request(context, message, &call->writer_, &events.queue(), &accepting, tag);
    });
  }

 private:
  using SingleCall::SingleCall;
  void StartWrite(const grpc::ByteBuffer& message, void* tag) override;
  void StartFinish(const std::optional<grpc::ByteBuffer>& last, const grpc::Status& status, void* tag) override;

  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer_{&context_};
};

// Ends a call of a client that does not read.
void CutCall(grpc::ServerContext& context);

}  // namespace baton::router

#endif  // BATON_ROUTER_SINGLE_CALL_H_
