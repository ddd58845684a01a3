// A simulated worker process: the real worker::WorkerCore over the fake model. A round of its loop takes virtual time:
// what the round says is heard when it is over, and what comes meanwhile waits in the loop's mailbox.
#ifndef BATON_SIMULATOR_WORKER_NODE_H_
#define BATON_SIMULATOR_WORKER_NODE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/kv_pool.h"
#include "common/worker_job.h"
#include "decode_worker/decode_core.h"
#include "engine/model_runner.h"
#include "kvtransfer/fetch_replies.h"
#include "router/worker_registry.h"
#include "simulator/router_node.h"
#include "simulator/simulation.h"
#include "worker/kv_fetcher.h"
#include "worker/worker_core.h"

namespace baton::simulator {

struct WorkerSetup {
  router::WorkerRole role = router::WorkerRole::kPrefill;
  std::string target;
  int32_t block_count = 0;
  int32_t chunk_tokens = 64;
  int32_t max_sequences = 4;
  // The lease of the Fetch streams, and how often it is renewed.
  int64_t lease_ms = 4'000;
  int64_t renew_ms = 500;
};

// Ends-of-sequence of the simulated model.
inline constexpr int32_t kEosId = 63;

class WorkerNode : public UpdateSink, public kvtransfer::FetchReplies, public worker::KvFetcher {
 public:
  WorkerNode(Simulation& sim, RouterNode& router, const WorkerSetup& setup);
  ~WorkerNode() override = default;

  // Joins the router and sends its load, until it crashes.
  void Join();
  // Everything that it was doing stops; its peers notice, each in its own time. The memory stays readable, as a mapping
  // of a dead process's memory does.
  void Crash();

  // Calls of the router arrive.
  virtual void OpenPrefill(const std::shared_ptr<Call>& call, WorkerJob job, bool solo) = 0;
  virtual void OpenDecode(const std::shared_ptr<Call>& call, WorkerJob job,
                          const decode_worker::DecodeSource& source) = 0;
  void CancelCall(const std::shared_ptr<Call>& call);

  // UpdateSink.
  void Update(const JobKey& key, const WorkerUpdate& update) override;
  void End(const JobKey& key, const absl::Status& status) override;

  // FetchReplies and KvFetcher, for the phases that have them.
  void Reply(kvtransfer::FetchStreamId stream, const kvtransfer::FetchReply& reply) override;
  void Close(kvtransfer::FetchStreamId stream, const absl::Status& status) override;
  void Start(const kvtransfer::FetchSpec& spec) override;
  void Cancel(const JobKey& key, const absl::Status& why) override;

  // Fails the run when anything is left that a request referred to.
  virtual void CheckQuiet() const;

  bool alive() const { return alive_; }
  const Incarnation& incarnation() const { return worker_.options().incarnation; }
  const WorkerSetup& setup() const { return setup_; }
  absl::Span<uint8_t> memory() { return absl::MakeSpan(memory_); }

 protected:
  void AddCall(const std::shared_ptr<Call>& call) { calls_[call->key] = call; }
  // Any event of the simulation may post to the loop.
  void PostToLoop(Task task);
  // Called within a round of the loop: the effect happens when the round is over.
  void Emit(Task effect) { effects_.push_back(std::move(effect)); }
  virtual void CancelJob(const JobKey& key) = 0;
  virtual void CutStreams() = 0;

  Simulation& sim_;
  RouterNode& router_;
  const WorkerSetup setup_;
  std::unique_ptr<engine::ModelRunner> model_;
  std::vector<uint8_t> memory_;
  HostKvPool pool_;
  // The derived node adds its phase and makes the loop.
  worker::WorkerCore worker_;

 private:
  void ScheduleRun(TimeNs at);
  void RunOnce();
  void Heartbeat();

  bool alive_ = true;
  std::vector<Task> effects_;
  TimeNs next_run_ = kNever;
  TimeNs busy_until_ = 0;
  std::map<JobKey, std::shared_ptr<Call>> calls_;
  Lane join_;
  router::WorkerLoad load_;
  int32_t preempted_ = 0;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_WORKER_NODE_H_
