// baton.v1.GenerationService: the adapter of clients that speak Baton's own gRPC.
#ifndef BATON_ROUTER_GENERATION_SERVICE_H_
#define BATON_ROUTER_GENERATION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "baton/v1/generation.grpc.pb.h"
#include "common/rpc/event_queue.h"
#include "common/rpc/grpc_server.h"
#include "router/rpc_requests.h"
#include "router/single_call.h"

namespace baton::router {

// All that costs more than a few microseconds takes raw messages, which are parsed where the work is done. gRPC itself
// would also refuse a message that it cannot parse (a string that is not UTF-8) without saying why.
using AsyncGenerate = v1::GenerationService::WithRawMethod_Generate<
    v1::GenerationService::WithRawMethod_Resume<v1::GenerationService::Service>>;
using GenerationServiceBase =
    v1::GenerationService::WithRawCallbackMethod_Tokenize<v1::GenerationService::WithRawCallbackMethod_Detokenize<
        v1::GenerationService::WithCallbackMethod_ListModels<AsyncGenerate>>>;

// Thread-safe. gRPC's threads and the one that accepts streams only queue the requests (client_work.h).
class GenerationService final : public GenerationServiceBase, public rpc::AcceptingService {
 public:
  // `requests` outlives the service. The server is shut down, and Stop has returned, before the service ends.
  explicit GenerationService(RpcRequests& requests) : requests_(requests) {}

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

 private:
  enum class StreamMethod : uint8_t { kGenerate, kResume };

  void Await(StreamMethod method);
  void Queue(StreamMethod method, SingleCall& call, const std::shared_ptr<RpcAnswer>& answer);
  // Both on a thread of the pool. They empty `bytes`.
  void BeginGenerate(RpcRequests::Incoming incoming, grpc::ByteBuffer& bytes);
  void BeginResume(RpcRequests::Incoming incoming, grpc::ByteBuffer& bytes);

  RpcRequests& requests_;
  std::optional<rpc::AcceptThread> accepting_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATION_SERVICE_H_
