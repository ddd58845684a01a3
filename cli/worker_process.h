// A worker put together: model, KV pool, engine, phases, hand-off, services. The one place that knows all of them.
#ifndef BATON_CLI_WORKER_PROCESS_H_
#define BATON_CLI_WORKER_PROCESS_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/worker.pb.h"
#include "cli/options.h"
#include "cli/process.h"
#include "common/kv_pool.h"
#include "common/random.h"
#include "decode_worker/decode_core.h"
#include "decode_worker/decode_service.h"
#include "engine/core_arbiter.h"
#include "engine/engine.h"
#include "engine/engine_loop.h"
#include "engine/model_runner.h"
#include "kvtransfer/kv_source.h"
#include "kvtransfer/rpc/fetch_client.h"
#include "kvtransfer/rpc/fetch_service.h"
#include "kvtransfer/transfer_thread.h"
#include "kvtransfer/transport.h"
#include "prefill_worker/prefill_core.h"
#include "prefill_worker/prefill_service.h"
#include "worker/page_populator.h"
#include "worker/router_link.h"

namespace baton::cli {

struct WorkerFlags {
  EngineFlags engine;
  ListenFlags listen;
  // host:port of the router.
  std::string router;
  bool supervised = false;
  // What CreateCoreArbiter made, inherited from the supervisor; -1: none.
  int core_arbiter_fd = -1;
};

// Used by the main thread; owns every other thread of the process.
class WorkerProcess {
 public:
  // Loads the model and starts to serve. `role` decides which services there are.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(internal::v1::WorkerRole role, const WorkerFlags& flags);
  ~WorkerProcess();

  const std::string& address() const { return server_.address; }
  // Tells the router, then waits until no job is left or the time is over.
  void Drain(int64_t timeout_ms);

 private:
  WorkerProcess(internal::v1::WorkerRole role, const WorkerFlags& flags);

  bool prefills() const { return role_ != internal::v1::WORKER_ROLE_DECODE; }
  bool decodes() const { return role_ != internal::v1::WORKER_ROLE_PREFILL; }

  absl::Status LoadModel();
  absl::Status MakePool();
  void MakeEngine();
  void MakePrefill();
  void MakeDecode();
  absl::Status Serve();
  // On the loop.
  void PublishLoad();
  internal::v1::WorkerHeartbeat Load();

  const internal::v1::WorkerRole role_;
  const WorkerFlags flags_;
  const Incarnation incarnation_ = SystemRandom().NextId();
  std::string model_name_;
  std::vector<int32_t> eos_ids_;
  int64_t weight_bytes_ = 0;
  std::unique_ptr<engine::CoreArbiter> arbiter_;
  std::unique_ptr<engine::ModelRunner> runner_;
  std::unique_ptr<kvtransfer::Transport> transport_;
  absl::Span<uint8_t> kv_memory_;
  std::optional<HostKvPool> pool_;
  std::unique_ptr<engine::Engine> engine_;

  prefill_worker::PrefillService::Streams prefill_streams_;
  std::unique_ptr<kvtransfer::KvSource> source_;
  std::unique_ptr<kvtransfer::FetchService> fetch_service_;
  std::unique_ptr<prefill_worker::PrefillCore> prefill_core_;
  std::unique_ptr<prefill_worker::PrefillService> prefill_service_;

  decode_worker::DecodeService::Streams decode_streams_;
  std::unique_ptr<kvtransfer::FetchClient> fetch_client_;
  std::unique_ptr<kvtransfer::TransferThread> transfer_;
  std::unique_ptr<decode_worker::KvFetcher> fetcher_;
  std::unique_ptr<decode_worker::DecodeCore> decode_core_;
  std::unique_ptr<decode_worker::DecodeService> decode_service_;

  std::unique_ptr<engine::EngineLoop> loop_;
  std::thread loop_thread_;
  GrpcServer server_;
  std::unique_ptr<worker::RouterLink> link_;
  // Of the KV pool: a hand-off into pages that the system first has to find takes twice as long.
  std::unique_ptr<worker::PagePopulator> populator_;
  absl::Mutex load_mutex_;
  internal::v1::WorkerHeartbeat load_ ABSL_GUARDED_BY(load_mutex_);
};

}  // namespace baton::cli

#endif  // BATON_CLI_WORKER_PROCESS_H_
