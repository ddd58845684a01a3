// baton.v1.AdminService, which lists the workers.
#ifndef BATON_ROUTER_ADMIN_SERVICE_H_
#define BATON_ROUTER_ADMIN_SERVICE_H_

#include "baton/v1/admin.grpc.pb.h"
#include "router/router_loop.h"

namespace baton::router {

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

#endif  // BATON_ROUTER_ADMIN_SERVICE_H_
