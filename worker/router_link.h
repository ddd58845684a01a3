// A worker's membership: joins the router over one stream, sends its load as heartbeats, joins again when the stream
// breaks.
#ifndef BATON_WORKER_ROUTER_LINK_H_
#define BATON_WORKER_ROUTER_LINK_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/rpc/client_stream.h"

namespace baton::worker {

// Owns a thread from Start until Stop.
class RouterLink {
 public:
  struct Options {
    std::string router_target;
    internal::v1::WorkerHello hello;
    // Any thread.
    std::function<internal::v1::WorkerHeartbeat()> load;
  };

  explicit RouterLink(Options options) : options_(std::move(options)) {}
  ~RouterLink() { Stop(); }

  void Start();
  // Later heartbeats say that the worker takes no new work.
  void Drain() { draining_ = true; }
  void Stop();

 private:
  using Stream = rpc::ClientBidi<internal::v1::JoinRequest, internal::v1::JoinResponse>;

  void Run();
  // One membership: until its stream ends or Stop.
  struct Ended {
    bool was_accepted = false;
    // Why the stream ended; FAILED_PRECONDITION also when the router speaks another version of the protocol.
    absl::Status status;
  };
  Ended JoinOnce(internal::v1::WorkerRegistryService::Stub& stub);
  // On the link's thread.
  void Log(const Ended& ended);

  const Options options_;
  std::atomic<bool> draining_ = false;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  // The link's thread's alone: the last refusal that was logged.
  std::string logged_refusal_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ROUTER_LINK_H_
