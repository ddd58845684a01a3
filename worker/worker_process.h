// A worker as a process: a WorkerCore with its threads, the transport, the services and the links to its routers. What
// the worker does is up to its phases.
#ifndef BATON_WORKER_WORKER_PROCESS_H_
#define BATON_WORKER_WORKER_PROCESS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/kv_pool.h"
#include "common/rpc/grpc_server.h"
#include "engine/engine.h"
#include "engine/model_runner.h"
#include "engine/step_gate.h"
#include "kvtransfer/transport.h"
#include "kvtransfer/transport_access.h"
#include "worker/fetch_endpoint.h"
#include "worker/grammar_constraints.h"
#include "worker/page_populator.h"
#include "worker/phase.h"
#include "worker/router_links.h"
#include "worker/side_thread.h"
#include "worker/transfer_fetcher.h"
#include "worker/worker_calls.h"
#include "worker/worker_core.h"
#include "worker/worker_metrics.h"

namespace baton::worker {

struct WorkerProcessOptions {
  internal::v1::WorkerRole role = internal::v1::WORKER_ROLE_UNSPECIFIED;
  // The name by which clients ask for the model.
  std::string model;
  // How many routers it may have at once. FollowRouters names them.
  size_t max_routers = 1;
  std::string bind;
  int port = 0;
  engine::EngineOptions engine;
  // The host by which the router and other workers reach this one; empty: the address that it listens on.
  std::string advertise;
  // host:port of the process's admin port; empty: it has none.
  std::string admin;
  // Null: plain text. They outlive the process.
  rpc::Credentials* credentials = nullptr;
  // What Drain will be called with: the router tells operators.
  int64_t drain_timeout_ms = 0;
  // An operator orders the process to drain: whoever owns it calls Drain soon. Any thread.
  std::function<void()> on_drain_ordered = [] {};
};

// What a worker computes with and what it copies with.
struct WorkerParts {
  // May be null. The runner may refer to it.
  std::unique_ptr<engine::StepGate> gate;
  std::unique_ptr<engine::ModelRunner> runner;
  // May be null: no job may have a grammar.
  std::unique_ptr<GrammarConstraints> constraints;
  std::unique_ptr<kvtransfer::Transport> transport;
  // Lies in the transport's region.
  std::unique_ptr<KvPool> pool;
};

// Used by the main thread; owns every other thread of the process but the runner's.
class WorkerProcess {
 public:
  // Starts to serve.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const WorkerProcessOptions& options, WorkerParts parts,
                                                              std::vector<std::unique_ptr<Phase>> phases);
  ~WorkerProcess();

  // host:port of the worker's services.
  const std::string& address() const { return server_.address; }
  // As it introduces itself to routers, but for what RouterLink fills in.
  internal::v1::Hello Hello() const;
  // As RouterLinks::Follow: asks these to join. One thread calls it.
  void FollowRouters(const std::vector<std::string>& targets) { links_->Follow(targets); }
  // Whether a router has accepted it, and has not lost it.
  bool is_member() const { return !links_->Members().empty(); }
  // OK while it is a member of any router, does not drain, and its engine progresses; else why it takes no jobs. Any
  // thread.
  absl::Status Ready() const;
  // An error while the engine has been in one step for too long. Any thread.
  absl::Status Healthy() const;
  // What a scrape reads: nothing of it may be asked once the worker ends.
  std::vector<std::shared_ptr<prometheus::Collectable>> metrics() const;
  // Tells the routers, then waits until each has accepted that and no job is left. A router moves its running jobs to
  // other workers. A job that a router placed before it knew is served. Jobs that are left after the time are
  // ended, and the log says which.
  void Drain(int64_t timeout_ms);

 private:
  WorkerProcess(const WorkerProcessOptions& options, WorkerParts parts, const std::string& transport_address,
                std::vector<std::unique_ptr<Phase>> phases);

  absl::Status Serve();
  // What the process is dying of.
  std::optional<internal::v1::Fault> Fault() const;
  void OnDrainOrdered() const;
  void AddLinkMetrics();
  // Age of the step under way; 0 when there is none.
  int64_t StepAgeMs() const;
  // On the loop.
  void Report();
  internal::v1::Load Load() ABSL_LOCKS_EXCLUDED(load_mutex_);
  // No job is here, and no router sends one any more.
  bool MayEnd() ABSL_LOCKS_EXCLUDED(load_mutex_);
  // Ends the jobs that are left after a drain's time.
  void Cut(int64_t timeout_ms);
  size_t OpenCalls() ABSL_LOCKS_EXCLUDED(load_mutex_);
  int64_t FrozenCalls() ABSL_LOCKS_EXCLUDED(load_mutex_);

  const WorkerProcessOptions options_;
  const WorkerParts parts_;
  // One compiles grammars, so that none of them waits for the masks of another, which the other one finds.
  SideThread compiles_;
  SideThread masks_;
  PagePopulator populator_;
  WorkerMetrics metrics_;
  FetchEndpoint fetch_endpoint_;
  kvtransfer::TransportAccess access_;
  TransferFetcher fetcher_;
  WorkerCore core_;
  const std::vector<std::unique_ptr<Phase>> phases_;
  // The loop's.
  WorkerCalls calls_;
  std::thread loop_thread_;
  rpc::ServingState serving_;
  rpc::GrpcServer server_;
  std::unique_ptr<RouterLinks> links_;
  // What the links say last: whether the worker can serve.
  std::atomic<bool> can_serve_ = false;
  std::atomic<bool> draining_ = false;
  std::shared_ptr<telemetry::CallbackMetrics> link_metrics_ = std::make_shared<telemetry::CallbackMetrics>();
  absl::Mutex load_mutex_;
  internal::v1::Load load_ ABSL_GUARDED_BY(load_mutex_);
  size_t open_calls_ ABSL_GUARDED_BY(load_mutex_) = 0;
  int64_t frozen_calls_ ABSL_GUARDED_BY(load_mutex_) = 0;
  // By router.
  std::vector<bool> drain_accepted_ ABSL_GUARDED_BY(load_mutex_);
};

}  // namespace baton::worker

#endif  // BATON_WORKER_WORKER_PROCESS_H_
