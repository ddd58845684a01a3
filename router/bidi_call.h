// The server's end of a gRPC call with any number of requests, each of which is answered by itself: the answers share
// the call and take turns.
#ifndef BATON_ROUTER_BIDI_CALL_H_
#define BATON_ROUTER_BIDI_CALL_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/event_queue.h"
#include "router/answer_form.h"
#include "router/open_calls.h"
#include "router/rpc_answer.h"
#include "router/unread_output.h"

namespace baton::router {

// It keeps itself alive until gRPC is done with it; its operations are events of the router's loop. It reads the next
// request while fewer than kMaxRequestsPerStream run, and ends with OK when its client has said that no more come and
// all are answered. Thread-safe.
//
// what happens               | what becomes of the call
// a request comes            | it has an answer more
// an answer's last message   | it has an answer less, and reads on if it had too many
// is written, or dropped     |
// the client half-closes     | it ends once there is no answer
// it had no request for      | it ends with UNAVAILABLE
// kMaxIdleStreamMs           |
// the client is gone         | all answers are cancelled and dropped; it ends once they have ended
class BidiCall final : public RpcAnswer::Call, private OpenCalls::Stream {
 public:
  // Runs when a request has come, on the loop.
  using OnRequestCallback =
      std::function<void(BidiCall&, const std::shared_ptr<RpcAnswer>& answer, grpc::ByteBuffer message)>;
  using FormMaker = std::unique_ptr<AnswerForm> (*)();
  using Stream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  // Of all calls of a service. All of it outlives the calls.
  struct Parts {
    rpc::EventQueue& events;
    UnreadOutput& unread;
    OpenCalls& open;
    FormMaker make_form = nullptr;
    OnRequestCallback on_request;
  };

  // Waits for the next call of a client, unless the server ends before. `request` is the Request method of the service,
  // which gets (context, stream, queue, accepting, tag). `on_call` runs on the accepting thread when the call has come.
  template <typename Request>
  static void Await(Request request, grpc::ServerCompletionQueue& accepting, const Parts& parts,
                    std::function<void()> on_call) {
    const std::shared_ptr<BidiCall> call(new BidiCall(parts, std::move(on_call)));
    call->self_ = call;
    call->context_.AsyncNotifyWhenDone(&call->ended_);
    request(&call->context_, &call->stream_, &parts.events.queue(), &accepting, &call->accepted_);
  }

  const grpc::ServerContext& context() const { return context_; }

  void OnPiece(RpcAnswer& answer) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Cut() override;

 private:
  using Answers = std::vector<std::shared_ptr<RpcAnswer>>;
  struct Entry {
    std::shared_ptr<RpcAnswer> answer;
    // It is in `ready_`.
    bool is_ready = false;
  };

  BidiCall(const Parts& parts, std::function<void()> on_call) : parts_(parts), on_call_(std::move(on_call)) {}

  void OnAccepted(bool ok);
  void OnRead(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWriteDone(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnFinished(bool ok);
  // gRPC's word that the call has ended, by the server's status or by the client.
  void OnCallDone(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaveIfDone();
  void EndIdle() override;

  void TakeRequest() ABSL_LOCKS_EXCLUDED(mutex_);
  // Writes what can be written, and then does what needs no lock: tells the answers that are over, and reads on.
  void Proceed() ABSL_LOCKS_EXCLUDED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeReady(RpcAnswer& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const std::shared_ptr<RpcAnswer>& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Answers All() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Parts& parts_;
  const std::function<void()> on_call_;
  grpc::ServerContext context_;
  Stream stream_{&context_};
  grpc::ByteBuffer message_;
  rpc::OperationOf<BidiCall> accepted_{this, &BidiCall::OnAccepted};
  rpc::OperationOf<BidiCall> read_done_{this, &BidiCall::OnRead};
  rpc::OperationOf<BidiCall> write_done_{this, &BidiCall::OnWriteDone};
  rpc::OperationOf<BidiCall> finish_done_{this, &BidiCall::OnFinished};
  rpc::OperationOf<BidiCall> ended_{this, &BidiCall::OnCallDone};

  absl::Mutex mutex_;
  absl::flat_hash_map<RpcAnswer*, Entry> answers_ ABSL_GUARDED_BY(mutex_);
  // Those that have something to write, in the order of their turns.
  std::deque<std::shared_ptr<RpcAnswer>> ready_ ABSL_GUARDED_BY(mutex_);
  // Whose message is being written; null: none is.
  std::shared_ptr<RpcAnswer> writing_ ABSL_GUARDED_BY(mutex_);
  bool writes_end_ ABSL_GUARDED_BY(mutex_) = false;
  // Removed, and still to be told.
  Answers left_ ABSL_GUARDED_BY(mutex_);
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  // No request can come any more.
  bool read_all_ ABSL_GUARDED_BY(mutex_) = false;
  // Nothing can be written any more.
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  // The loop's.
  bool finished_ = false;
  bool call_done_ = false;
  // Until the call is over.
  std::shared_ptr<BidiCall> self_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_BIDI_CALL_H_
