// A simulated worker process: the real phases over the real worker::WorkerCore, its end of the link to the router, and
// both ends of hand-offs.
#ifndef BATON_SIMULATOR_WORKER_NODE_H_
#define BATON_SIMULATOR_WORKER_NODE_H_

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "common/block_report.h"
#include "common/worker_job.h"
#include "decode_worker/decode_core.h"
#include "prefill_worker/prefill_core.h"
#include "simulator/fetch_server.h"
#include "simulator/link.h"
#include "simulator/loop_process.h"
#include "simulator/puller.h"
#include "simulator/router_node.h"

namespace baton::simulator {

// The process that listens at the router's address.
class RouterDirectory {
 public:
  virtual ~RouterDirectory() = default;
  // nullptr while there is none.
  virtual RouterNode* FindRouter() = 0;
};

class WorkerNode final : public LoopProcess, public UpdateSink {
 public:
  WorkerNode(Simulation& sim, RouterDirectory& routers, PeerDirectory& peers, const WorkerSetup& setup);

  // Joins the router, again and again until it dies.
  void Start();

  // What befalls it.
  void Crash();
  void Hang(int64_t pause_ns);
  // The link carries nothing new for this time.
  void FallSilent(int64_t ns);
  // The link has broken, and neither end is told: each finds out in its own time. No other link comes up for this time.
  void Partition(int64_t ns);
  // The engine's step under way, or the next, takes this long.
  void StallEngine(int64_t ns);
  // SIGTERM: it takes no new jobs, ends those that it has, and dies. Jobs that are left after the time-out are cut.
  static constexpr int64_t kNoTimeoutMs = int64_t{1} << 40;
  void Drain(int64_t timeout_ms = kNoTimeoutMs);
  // It dies of the engine's step under way, or of something else where there is none, and says so.
  void DieOfOwnFault();
  // It stands still, and its clock with it.
  void SuspendMachine(int64_t ns);
  // Its clock leaps ahead, as that of a machine whose hypervisor has not run it.
  void LeapClock(int64_t ns);
  // Its engine's steps take so many times as long for a while.
  void SlowDown(int64_t ns, int64_t factor);
  // The link breaks with all that is on its way, and both ends soon know.
  void BreakConnection();
  // As Partition, but one end still hears the other.
  void PartitionOneWay(int64_t ns, bool to_router);
  // The network fails between this worker as the reader and a source.
  void OnPairCut(const PairCut& cut);

  // What the network delivers from the router.
  void OnAccepted(const LinkPtr& link);
  void OnPrefill(const Call& call, WorkerJob job, bool solo);
  void OnDecode(const Call& call, WorkerJob job, const decode_worker::DecodeSource& source);
  void OnCancel(const JobKey& key);
  void OnHandOver(const JobKey& key, const HandOver& hand_over);
  void OnDrainAccepted(const LinkPtr& link);
  void OnLinkEnd(const LinkPtr& link, const absl::Status& status);

  // UpdateSink.
  void Update(const JobKey& key, const WorkerUpdate& update) override;
  void End(const JobKey& key, const absl::Status& status) override;

  // Fails the run when anything is left that a request referred to.
  void CheckQuiet() const;

  FetchServer& fetch_server() { return fetch_server_; }
  bool joined() const { return joined_; }
  bool draining() const { return draining_; }
  // It has drained and ended of its own accord.
  bool left() const { return left_; }
  // Since when it has had no call.
  TimeNs idle_since() const { return calls_.empty() ? idle_since_ : kNever; }

 private:
  void Connect();
  void ConnectSoon();
  void Heartbeat(const LinkPtr& link);
  void SendLoad();
  // Who holds its blocks, if that is due and the loop would say it: between two steps.
  std::optional<BlockReport> DueBlocks();
  void LeaveWhenDrained();
  void CutAll(int64_t timeout_ms);
  void Leave();
  void SayEnd(const Call& call, const absl::Status& status);
  void OnStep() override;
  void CancelJob(const Call& call);

  RouterDirectory& routers_;
  FetchServer fetch_server_;
  Puller puller_;
  std::optional<prefill_worker::PrefillCore> prefill_;
  std::optional<decode_worker::DecodeCore> decode_;
  LinkPtr link_;
  bool joined_ = false;
  MembershipId last_membership_;
  TimeNs unreachable_until_ = 0;
  // Of the block reports: when the next is due, and the steps that had ended at the last.
  TimeNs next_blocks_ = 0;
  int64_t steps_at_blocks_ = 0;
  bool draining_ = false;
  bool drain_accepted_ = false;
  bool left_ = false;
  std::map<JobKey, Call> calls_;
  TimeNs idle_since_ = 0;
  // Prompts that are computed here for another worker.
  std::set<JobKey> handed_over_;
  // The attempts that go on with jobs of this worker, by the job's attempt here.
  std::map<JobKey, JobKey> hand_overs_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_WORKER_NODE_H_
