// baton.internal.v1.WorkerRegistryService, through which workers join, and baton.v1.AdminService, which lists them.
#ifndef BATON_ROUTER_REGISTRY_SERVICE_H_
#define BATON_ROUTER_REGISTRY_SERVICE_H_

#include <memory>
#include <string>

#include "baton/internal/v1/worker.grpc.pb.h"
#include "baton/v1/admin.grpc.pb.h"
#include "router/router_loop.h"

namespace baton::router {

// Thread-safe.
class RegistryService final : public internal::v1::WorkerRegistryService::CallbackService {
 public:
  // `model` names the model that this router serves. Workers with another model are refused.
  RegistryService(std::string model, RouterLoop& loop) : model_(std::move(model)), loop_(loop) {}

  grpc::ServerBidiReactor<internal::v1::JoinRequest, internal::v1::JoinResponse>* Join(
      grpc::CallbackServerContext* context) override;

 private:
  const std::string model_;
  RouterLoop& loop_;
};

// Thread-safe.
class AdminService final : public v1::AdminService::CallbackService {
 public:
  explicit AdminService(RouterLoop& loop) : loop_(loop) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

 private:
  RouterLoop& loop_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_REGISTRY_SERVICE_H_
