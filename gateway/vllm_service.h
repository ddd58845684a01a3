// vllm.grpc.engine.VllmEngine: the adapter of routers that know vLLM's engine. To them the whole cluster is one engine.
// docs/vllm_grpc.md says what it serves.
#ifndef BATON_GATEWAY_VLLM_SERVICE_H_
#define BATON_GATEWAY_VLLM_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>

#include "common/clock.h"
#include "common/rpc/event_queue.h"
#include "common/rpc/grpc_server.h"
#include "gateway/vllm_aborts.h"
#include "router/router_view.h"
#include "router/rpc_requests.h"
#include "vllm/engine.grpc.pb.h"

namespace baton::gateway {

using VllmEngineApi = vllm::grpc::engine::VllmEngine;
using VllmServiceBase = VllmEngineApi::WithRawCallbackMethod_Abort<VllmEngineApi::WithCallbackMethod_HealthCheck<
    VllmEngineApi::WithCallbackMethod_GetModelInfo<VllmEngineApi::WithCallbackMethod_GetServerInfo<
        VllmEngineApi::WithCallbackMethod_GetLoads<VllmEngineApi::WithRawMethod_Generate<VllmEngineApi::Service>>>>>>;

// Thread-safe. gRPC's threads and the one that accepts calls only queue the requests.
class VllmService final : public VllmServiceBase, public rpc::AcceptingService {
 public:
  // All references outlive the service; `is_serving` says whether the cluster can serve now, and is thread-safe. The
  // server is shut down, and Stop has returned, before the service ends.
  VllmService(router::RpcRequests& requests, const router::ViewBoard& views, const Clock& clock,
              std::function<bool()> is_serving);

  grpc::Service& service() override { return *this; }
  void Prepare(grpc::ServerBuilder& builder) override;
  void Accept() override;
  void Stop() override;

  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* HealthCheck(grpc::CallbackServerContext* context,
                                        const vllm::grpc::engine::HealthCheckRequest* request,
                                        vllm::grpc::engine::HealthCheckResponse* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* context,
                                         const vllm::grpc::engine::GetModelInfoRequest* request,
                                         vllm::grpc::engine::GetModelInfoResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const vllm::grpc::engine::GetServerInfoRequest* request,
                                          vllm::grpc::engine::GetServerInfoResponse* response) override;
  grpc::ServerUnaryReactor* GetLoads(grpc::CallbackServerContext* context,
                                     const vllm::grpc::engine::GetLoadsRequest* request,
                                     vllm::grpc::engine::GetLoadsResponse* response) override;

 private:
  void Await();
  // On a thread of the pool. It empties `bytes`.
  void Begin(router::RpcAnswer& answer, router::RpcRequests::Incoming incoming, grpc::ByteBuffer& bytes);

  router::RpcRequests& requests_;
  const router::ViewBoard& views_;
  const Clock& clock_;
  const std::function<bool()> is_serving_;
  const TimeNs started_;
  VllmAborts aborts_;
  std::optional<rpc::AcceptThread> accepting_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_VLLM_SERVICE_H_
