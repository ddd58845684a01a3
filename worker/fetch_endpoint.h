// The Fetch service in front of a worker's KvServer: gRPC to events on the loop, and answers back.
#ifndef BATON_WORKER_FETCH_ENDPOINT_H_
#define BATON_WORKER_FETCH_ENDPOINT_H_

#include <optional>

#include "common/rpc/capability.h"
#include "kvtransfer/rpc/fetch_service.h"
#include "worker/worker_core.h"

namespace baton::worker {

class FetchEndpoint {
 public:
  FetchEndpoint();

  // Once, before the gRPC server starts. The core and the credentials, which are null in plain text, outlive the
  // server.
  void Attach(WorkerCore& core, const rpc::Credentials* credentials);

  kvtransfer::FetchReplies& replies() { return service_; }
  grpc::Service& service() { return service_; }

 private:
  void Post(engine::EngineLoop::Task task);
  // The request, with what its capability says once that is verified. Here, on gRPC's threads, because it takes longer
  // than all that the loop does with it.
  kvtransfer::FetchRequest Verified(kvtransfer::FetchRequest request);

  WorkerCore* core_ = nullptr;
  std::optional<rpc::CapabilityVerifier> verifier_;
  kvtransfer::FetchService service_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_FETCH_ENDPOINT_H_
