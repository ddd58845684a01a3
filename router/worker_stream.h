// The router's end of one worker's stream, as those see it that speak to the worker.
#ifndef BATON_ROUTER_WORKER_STREAM_H_
#define BATON_ROUTER_WORKER_STREAM_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "baton/internal/v1/worker.pb.h"

namespace baton::router {

// Used by the router's loop.
class WorkerStream {
 public:
  virtual ~WorkerStream() = default;
  // `fill` adds at most `bytes` to the next message, which is written at once, or with all else that is said until the
  // write in flight is done. A worker for which more than kMaxUnwrittenRouterBytes would wait does not read: its stream
  // is cut. Does nothing once the stream has ended.
  virtual void Send(size_t bytes, absl::FunctionRef<void(internal::v1::RouterMessage&)> fill) = 0;
  // Ends the stream with this status after the write in flight; what waits is dropped. The first status counts.
  virtual void End(const absl::Status& why) = 0;
  virtual bool ended() const = 0;
  // PERMISSION_DENIED when the certificate of the worker does not carry the role that it states. Without TLS a worker
  // is what it says.
  virtual absl::Status CheckRole(internal::v1::WorkerRole role) const { return absl::OkStatus(); }
};

}  // namespace baton::router

#endif  // BATON_ROUTER_WORKER_STREAM_H_
