// baton.v1.AdminService, which lists the workers and says who serves with whom.
#ifndef BATON_ROUTER_ADMIN_SERVICE_H_
#define BATON_ROUTER_ADMIN_SERVICE_H_

#include <string>
#include <utility>

#include "baton/v1/admin.grpc.pb.h"
#include "common/clock.h"
#include "router/router_loop.h"

namespace baton::router {

// Thread-safe.
class AdminService final : public v1::AdminService::CallbackService {
 public:
  // `model` is the name of the served model. `clock` and `loop` outlive the service.
  AdminService(std::string model, const Clock& clock, RouterLoop& loop)
      : model_(std::move(model)), clock_(clock), loop_(loop) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

 private:
  const std::string model_;
  const Clock& clock_;
  RouterLoop& loop_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_ADMIN_SERVICE_H_
