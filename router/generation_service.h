// baton.v1.GenerationService: the adapter of clients that speak gRPC.
#ifndef BATON_ROUTER_GENERATION_SERVICE_H_
#define BATON_ROUTER_GENERATION_SERVICE_H_

#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"
#include "baton/v1/generation.grpc.pb.h"
#include "common/clock.h"
#include "common/random.h"
#include "router/client_work.h"
#include "router/generator.h"
#include "router/served_model.h"
#include "router/unread_output.h"

namespace baton::router {

// All that costs more than a few microseconds takes raw messages, which are parsed where the work is done. gRPC itself
// would also refuse a message that it cannot parse (a string that is not UTF-8) without saying why.
using GenerationServiceBase = v1::GenerationService::WithRawCallbackMethod_Generate<
    v1::GenerationService::WithRawCallbackMethod_Tokenize<v1::GenerationService::WithRawCallbackMethod_Detokenize<
        v1::GenerationService::WithCallbackMethod_ListModels<v1::GenerationService::Service>>>>;

// Thread-safe. gRPC's threads only queue the requests (client_work.h). A thread of the service's own ends streams that
// nobody reads.
class GenerationService final : public GenerationServiceBase {
 public:
  // All references outlive the service; `random` is thread-safe. The server is shut down before the service ends, so
  // that no call and none of its work is left.
  GenerationService(const ServedModel& model, const Clock& clock, RandomSource& random, Generator& generator,
                    ClientWork& work, const UnreadOutputLimits& unread = {});
  ~GenerationService() override;

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* message) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;

  // Waits until clients have read the streams whose requests have ended, at most for the time. How many are left.
  size_t AwaitRead(int64_t timeout_ms) { return unread_.AwaitRead(timeout_ms); }

 private:
  // Queues a call that `answer` answers: absl::StatusOr<Response>(Request).
  template <typename Request, typename Answer>
  grpc::ServerUnaryReactor* QueueUnary(const grpc::CallbackServerContext& context, const grpc::ByteBuffer* message,
                                       grpc::ByteBuffer* response, Answer answer);

  const ServedModel& model_;
  const Clock& clock_;
  RandomSource& random_;
  Generator& generator_;
  ClientWork& work_;
  UnreadOutput unread_;
  absl::Notification stopping_;
  std::thread sweeper_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATION_SERVICE_H_
