// The Fetch service in front of a worker's KvServer: gRPC to events on the loop, and answers back.
#ifndef BATON_WORKER_FETCH_ENDPOINT_H_
#define BATON_WORKER_FETCH_ENDPOINT_H_

#include "kvtransfer/rpc/fetch_service.h"
#include "worker/worker_core.h"

namespace baton::worker {

class FetchEndpoint {
 public:
  FetchEndpoint();

  // Once, before the gRPC server starts. The core outlives the server.
  void Attach(WorkerCore& core) { core_ = &core; }

  kvtransfer::FetchReplies& replies() { return service_; }
  grpc::Service& service() { return service_; }

 private:
  void Post(engine::EngineLoop::Task task);

  WorkerCore* core_ = nullptr;
  kvtransfer::FetchService service_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_FETCH_ENDPOINT_H_
