// inference.GRPCInferenceService: the adapter of clients that speak KServe's protocol or Triton's. docs/kserve.md says
// what it serves.
#ifndef BATON_GATEWAY_KSERVE_SERVICE_H_
#define BATON_GATEWAY_KSERVE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>

#include "common/rpc/event_queue.h"
#include "common/rpc/grpc_server.h"
#include "gateway/kserve_request.h"
#include "inference/kserve.grpc.pb.h"
#include "router/bidi_call.h"
#include "router/rpc_requests.h"

namespace baton::gateway {

// The two methods that infer are asynchronous and take raw messages, as those of router::GenerationService.
using AsyncInfer = inference::GRPCInferenceService::WithRawMethod_ModelInfer<
    inference::GRPCInferenceService::WithRawMethod_ModelStreamInfer<inference::GRPCInferenceService::Service>>;
using KserveReadiness = inference::GRPCInferenceService::WithCallbackMethod_ServerLive<
    inference::GRPCInferenceService::WithCallbackMethod_ServerReady<
        inference::GRPCInferenceService::WithCallbackMethod_ModelReady<AsyncInfer>>>;
using KserveServiceBase = inference::GRPCInferenceService::WithCallbackMethod_ServerMetadata<
    inference::GRPCInferenceService::WithCallbackMethod_ModelMetadata<
        inference::GRPCInferenceService::WithCallbackMethod_ModelConfig<
            inference::GRPCInferenceService::WithCallbackMethod_RepositoryIndex<KserveReadiness>>>>;

// Thread-safe. gRPC's threads and the one that accepts calls only queue the requests.
class KserveService final : public KserveServiceBase, public rpc::AcceptingService {
 public:
  // `requests` outlives the service; `is_serving` says whether the cluster can serve now, and is thread-safe. The
  // server is shut down, and Stop has returned, before the service ends.
  KserveService(router::RpcRequests& requests, std::function<bool()> is_serving);

  grpc::Service& service() override { return *this; }
  void Prepare(grpc::ServerBuilder& builder) override;
  void Accept() override;
  void Stop() override;

  grpc::ServerUnaryReactor* ServerLive(grpc::CallbackServerContext* context,
                                       const inference::ServerLiveRequest* request,
                                       inference::ServerLiveResponse* response) override;
  grpc::ServerUnaryReactor* ServerReady(grpc::CallbackServerContext* context,
                                        const inference::ServerReadyRequest* request,
                                        inference::ServerReadyResponse* response) override;
  grpc::ServerUnaryReactor* ModelReady(grpc::CallbackServerContext* context,
                                       const inference::ModelReadyRequest* request,
                                       inference::ModelReadyResponse* response) override;
  grpc::ServerUnaryReactor* ServerMetadata(grpc::CallbackServerContext* context,
                                           const inference::ServerMetadataRequest* request,
                                           inference::ServerMetadataResponse* response) override;
  grpc::ServerUnaryReactor* ModelMetadata(grpc::CallbackServerContext* context,
                                          const inference::ModelMetadataRequest* request,
                                          inference::ModelMetadataResponse* response) override;
  grpc::ServerUnaryReactor* ModelConfig(grpc::CallbackServerContext* context,
                                        const inference::ModelConfigRequest* request,
                                        inference::ModelConfigResponse* response) override;
  grpc::ServerUnaryReactor* RepositoryIndex(grpc::CallbackServerContext* context,
                                            const inference::RepositoryIndexRequest* request,
                                            inference::RepositoryIndexResponse* response) override;

 private:
  void AwaitInfer();
  void AwaitStreamInfer();
  void Queue(KserveMethod method, const grpc::ServerContext& context, const std::shared_ptr<router::RpcAnswer>& answer,
             grpc::ByteBuffer message);
  // On a thread of the pool. It empties `bytes`.
  void Begin(KserveMethod method, router::RpcAnswer& answer, router::RpcRequests::Incoming incoming,
             grpc::ByteBuffer& bytes) const;

  router::RpcRequests& requests_;
  const std::function<bool()> is_serving_;
  const router::BidiCall::Parts stream_parts_;
  std::optional<rpc::AcceptThread> accepting_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_KSERVE_SERVICE_H_
