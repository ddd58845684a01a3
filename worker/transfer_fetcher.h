// The transfer thread and its Fetch streams over gRPC, as the phases on the loop see them.
#ifndef BATON_WORKER_TRANSFER_FETCHER_H_
#define BATON_WORKER_TRANSFER_FETCHER_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/kv_pool.h"
#include "kvtransfer/rpc/fetch_client.h"
#include "kvtransfer/transfer_thread.h"
#include "kvtransfer/transport.h"
#include "worker/kv_fetcher.h"
#include "worker/worker_core.h"

namespace baton::worker {

// Every worker has one: over a network, the reads of a worker's readers progress on its transfer thread too.
class TransferFetcher final : public KvFetcher {
 public:
  // Told on the transfer thread how each pull ended, before the phase is.
  struct Observers {
    std::function<void(const kvtransfer::Committed&)> committed = [](const kvtransfer::Committed&) {};
    std::function<void(const kvtransfer::FetchFailed&)> failed = [](const kvtransfer::FetchFailed&) {};
  };

  // `pool` lies in the transport's region; all references outlive the fetcher.
  TransferFetcher(kvtransfer::Transport& transport, const kvtransfer::KvSinkOptions& options, const Clock& clock,
                  const KvPool& pool, Observers observers);
  ~TransferFetcher() override { Stop(); }

  // Once, with the core that has this fetcher and its loop. Starts the thread. `credentials` outlive the fetcher; null:
  // plain text.
  void Launch(WorkerCore& core, rpc::Credentials* credentials = nullptr);
  // After the loop has stopped: ends all fetches, the thread and the streams. Idempotent, for the thread that called
  // Launch.
  void Stop();

  void Start(const kvtransfer::FetchSpec& spec) override { thread_.Start(spec); }
  void Cancel(const JobKey& key, const absl::Status& why) override { thread_.Cancel(key, why); }

 private:
  const Observers observers_;
  WorkerCore* core_ = nullptr;
  kvtransfer::TransferThread thread_;
  std::unique_ptr<kvtransfer::FetchClient> streams_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_TRANSFER_FETCHER_H_
