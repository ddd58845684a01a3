// baton.v1.AdminService, which lists the workers, says who serves with whom, and who holds the KV blocks, and orders
// workers to drain.
#ifndef BATON_ROUTER_ADMIN_SERVICE_H_
#define BATON_ROUTER_ADMIN_SERVICE_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/admin.grpc.pb.h"
#include "common/clock.h"
#include "router/router_loop.h"

namespace baton::router {

// What the service says of its own process.
struct RouterIdentity {
  // The name of the served model.
  std::string model;
  // host:port of the admin port; empty when that is off.
  std::string admin;
};

// Thread-safe.
class AdminService final : public v1::AdminService::CallbackService {
 public:
  // `clock` and `loop` outlive the service.
  AdminService(RouterIdentity identity, const Clock& clock, RouterLoop& loop)
      : identity_(std::move(identity)), clock_(clock), loop_(loop) {}
  // Once, when the server listens: host:port of its gRPC server. Until then the status says none.
  void SetAddress(std::string address) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    address_ = std::move(address);
  }

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;
  grpc::ServerUnaryReactor* GetLedger(grpc::CallbackServerContext* context, const v1::GetLedgerRequest* request,
                                      v1::GetLedgerResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context, const v1::DrainWorkerRequest* request,
                                        v1::DrainWorkerResponse* response) override;
  grpc::ServerUnaryReactor* GetDrain(grpc::CallbackServerContext* context, const v1::GetDrainRequest* request,
                                     v1::GetDrainResponse* response) override;

 private:
  // Ends the call with what the task returns, which runs on the loop.
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, std::function<absl::Status(Dispatcher&)> task);
  std::string address() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return address_;
  }

  const RouterIdentity identity_;
  const Clock& clock_;
  RouterLoop& loop_;
  mutable absl::Mutex mutex_;
  std::string address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::router

#endif  // BATON_ROUTER_ADMIN_SERVICE_H_
