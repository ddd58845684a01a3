// What all APIs over gRPC do alike with a request: they find out whose it is, queue it for the pool of client work,
// where it is read, hand it to the generator, observe it, and cancel it when its client leaves. An API adds how its
// messages are read (RpcRequests::Begin) and written (AnswerForm).
#ifndef BATON_ROUTER_RPC_REQUESTS_H_
#define BATON_ROUTER_RPC_REQUESTS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "common/limits.h"
#include "common/random.h"
#include "common/rpc/event_queue.h"
#include "router/api_keys.h"
#include "router/client_work.h"
#include "router/error_details.h"
#include "router/generation_wire.h"
#include "router/generator.h"
#include "router/observed_request.h"
#include "router/open_calls.h"
#include "router/refusal_reason.h"
#include "router/request_tracer.h"
#include "router/rpc_answer.h"
#include "router/served_model.h"
#include "router/unread_output.h"

namespace baton::router {

// What the services work with. All of it outlives them; `random` is thread-safe.
struct RpcRequestsParts {
  const ServedModel& model;
  const Clock& clock;
  RandomSource& random;
  Generator& generator;
  ClientWork& work;
  // The events of the loop that `generator` posts to.
  rpc::EventQueue& events;
  const RequestObservers& observers;
  // Null: no request is traced, and what a client says of its trace goes on to the workers.
  RequestTracer* tracer = nullptr;
  // Null: a client is the tenant that its request states.
  const ApiKeys* api_keys = nullptr;
};

// The calls that gRPC hands over without having to wait for the accepting thread, for each method.
inline constexpr int kAwaitedCalls = 64;

// Empties `bytes`. False for what is no such message.
template <typename Message>
bool ParseMessage(grpc::ByteBuffer& bytes, Message* message) {
  return grpc::SerializationTraits<Message>::Deserialize(&bytes, message).ok();
}
// What is said of a message that cannot be parsed: INVALID_ARGUMENT.
absl::Status Unparsable(const std::string& name);

// A unary call whose request waits for its turn. Exactly one of the task and a Drop that succeeds finishes it.
class QueuedUnaryCall final : public grpc::ServerUnaryReactor {
 public:
  QueuedUnaryCall(ClientWork& work, const Id128& id, grpc::CallbackServerContext& context)
      : work_(work), id_(id), context_(context) {}

  void End(const absl::Status& status) {
    const grpc::Status end = ToClientStatus(status);
    AddRetryPushback(end, context_);
    Finish(end);
  }
  void OnCancel() override {
    if (work_.Drop(id_)) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 private:
  ClientWork& work_;
  const Id128 id_;
  grpc::CallbackServerContext& context_;
};

// Thread-safe. All gRPC services of a router share one, and so the bounds of what their clients leave unread. A thread
// of its own ends streams that nobody reads or uses.
class RpcRequests {
 public:
  // A request that is to be read.
  struct Incoming {
    JobId id;
    TimeNs deadline = kNever;
    std::string tenant;
    std::shared_ptr<ObservedRequest> request;
  };
  // Reads the message, on a thread of the pool, and calls Generate or writes a failure to the request. It empties
  // `bytes`.
  using Begin = std::function<void(Incoming incoming, grpc::ByteBuffer& bytes)>;

  // The servers whose services use it are shut down, and AwaitNone has returned, before it ends or its parts do.
  explicit RpcRequests(const RpcRequestsParts& parts, const UnreadOutputLimits& unread = {},
                       int64_t max_idle_stream_ms = kMaxIdleStreamMs);
  ~RpcRequests();

  // Queues a request of the call whose context it is. `answer` hears how it goes, also when it is refused at once.
  void Queue(const grpc::ServerContextBase& context, const std::shared_ptr<RpcAnswer>& answer, grpc::ByteBuffer message,
             Begin begin);
  // Hands a request to the generator that has been read, and has no id, times or trace yet. Its deadline may be earlier
  // than that of its call.
  void Generate(Incoming incoming, GenerationRequest request);

  // Whose a call is: empty where clients need no key. UNAUTHENTICATED for a key that nobody has any more.
  absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& context) const;

  // Queues a call that `answer` answers: absl::StatusOr<Response>(Request&).
  template <typename Request, typename Answer>
  grpc::ServerUnaryReactor* QueueUnary(grpc::CallbackServerContext& context, const grpc::ByteBuffer* message,
                                       grpc::ByteBuffer* response, Answer answer);

  const ServedModel& model() const { return parts_.model; }
  Generator& generator() const { return parts_.generator; }
  rpc::EventQueue& events() const { return parts_.events; }
  UnreadOutput& unread() { return unread_; }
  const UnreadOutput& unread() const { return unread_; }
  // The calls that bring any number of requests.
  OpenCalls& open_calls() { return open_calls_; }

  // Waits until clients have read the answers whose requests have ended, at most for the time. How many are left.
  size_t AwaitRead(int64_t timeout_ms) { return unread_.AwaitRead(timeout_ms); }
  // Returns when there is no request. The servers have been shut down.
  void AwaitNone() { unread_.AwaitNone(); }

 private:
  TimeNs ReadDeadline(const grpc::ServerContextBase& context) const;

  const RpcRequestsParts parts_;
  UnreadOutput unread_;
  OpenCalls open_calls_;
  absl::Notification stopping_;
  std::thread sweeper_;
};

template <typename Request, typename Answer>
grpc::ServerUnaryReactor* RpcRequests::QueueUnary(grpc::CallbackServerContext& context, const grpc::ByteBuffer* message,
                                                  grpc::ByteBuffer* response, Answer answer) {
  const Id128 id = parts_.random.NextId();
  auto* const call = new QueuedUnaryCall(parts_.work, id, context);
  WorkTask task = {.id = id, .bytes = message->Length(), .deadline = ReadDeadline(context)};
  // Takes the bytes out of gRPC's own object, which otherwise holds them until the call ends. gRPC no longer reads it.
  grpc::ByteBuffer taken;
  taken.Swap(const_cast<grpc::ByteBuffer*>(message));
  task.run = [call, response, answer, bytes = taken](const absl::Status& status) mutable {
    if (!status.ok()) return call->End(status);
    Request request;
    if (!ParseMessage(bytes, &request)) return call->End(Unparsable(Request::descriptor()->name()));
    const auto answered = answer(request);
    if (answered.ok()) *response = Serialize(*answered);
    call->End(answered.status());
  };
  if (!parts_.work.Post(std::move(task))) call->End(WithRetryAfter(ClientWorkFull()));
  return call;
}

}  // namespace baton::router

#endif  // BATON_ROUTER_RPC_REQUESTS_H_
