// A phase as a process runs it: its core on the engine's loop, and the service by which the router reaches it.
#ifndef BATON_WORKER_PHASE_H_
#define BATON_WORKER_PHASE_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "worker/worker_core.h"

namespace baton::worker {

// A worker is a set of phases over one core: a mixed worker has both.
class Phase {
 public:
  virtual ~Phase() = default;
  // Once, before the loop: makes the phase's core over `worker`, which outlives the phase.
  virtual void AddTo(WorkerCore& worker) = 0;
  // After AddTo. Calls of the service reach the loop once the loop runs.
  virtual grpc::Service& service() = 0;
  // The service's full name.
  virtual std::string service_name() const = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_PHASE_H_
