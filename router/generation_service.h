// baton.v1.GenerationService: the adapter of clients that speak gRPC.
#ifndef BATON_ROUTER_GENERATION_SERVICE_H_
#define BATON_ROUTER_GENERATION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "baton/v1/generation.grpc.pb.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/rpc/event_queue.h"
#include "common/rpc/grpc_server.h"
#include "router/api_keys.h"
#include "router/client_work.h"
#include "router/generate_stream.h"
#include "router/generator.h"
#include "router/observed_request.h"
#include "router/request_tracer.h"
#include "router/served_model.h"
#include "router/unread_output.h"

namespace baton::router {

// All that costs more than a few microseconds takes raw messages, which are parsed where the work is done. gRPC itself
// would also refuse a message that it cannot parse (a string that is not UTF-8) without saying why.
using GenerationServiceBase =
    v1::GenerationService::WithRawCallbackMethod_Tokenize<v1::GenerationService::WithRawCallbackMethod_Detokenize<
        v1::GenerationService::WithCallbackMethod_ListModels<AsyncGenerate>>>;

// What the service works with. All of it outlives the service; `random` is thread-safe.
struct GenerationServiceParts {
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

// Thread-safe. gRPC's threads and the one that accepts streams only queue the requests (client_work.h). Another thread
// of the service's own ends streams that nobody reads.
class GenerationService final : public GenerationServiceBase, public rpc::AcceptingService {
 public:
  // The server is shut down, and Stop has returned, before the service ends or its parts do.
  explicit GenerationService(const GenerationServiceParts& parts, const UnreadOutputLimits& unread = {});
  ~GenerationService() override;

  grpc::Service& service() override { return *this; }
  void Prepare(grpc::ServerBuilder& builder) override;
  void Accept() override;
  void Stop() override;

  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;

  // What its clients have not read.
  const UnreadOutput& unread() const { return unread_; }
  // Waits until clients have read the streams whose requests have ended, at most for the time. How many are left.
  size_t AwaitRead(int64_t timeout_ms) { return unread_.AwaitRead(timeout_ms); }

 private:
  // A stream whose request waits to be read.
  struct Incoming {
    JobId id;
    TimeNs deadline = kNever;
    std::string tenant;
    std::shared_ptr<ObservedRequest> request;
  };

  void Await(StreamMethod method);
  void Queue(StreamMethod method, const std::shared_ptr<GenerateStream>& stream);
  // Both on a thread of the pool. They empty `bytes`.
  void BeginGenerate(Incoming incoming, grpc::ByteBuffer& bytes);
  void BeginResume(Incoming incoming, grpc::ByteBuffer& bytes);
  // Queues a call that `answer` answers: absl::StatusOr<Response>(Request).
  template <typename Request, typename Answer>
  grpc::ServerUnaryReactor* QueueUnary(const grpc::CallbackServerContext& context, const grpc::ByteBuffer* message,
                                       grpc::ByteBuffer* response, Answer answer);

  const GenerationServiceParts parts_;
  UnreadOutput unread_;
  std::optional<rpc::AcceptThread> accepting_;
  absl::Notification stopping_;
  std::thread sweeper_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATION_SERVICE_H_
