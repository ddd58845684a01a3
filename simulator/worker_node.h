// A simulated worker process: the real phases over the real worker::WorkerCore, its ends of the links to all routers,
// and both ends of hand-offs. It is a member of each router by itself, and each router has calls of its own.
#ifndef BATON_SIMULATOR_WORKER_NODE_H_
#define BATON_SIMULATOR_WORKER_NODE_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/block_report.h"
#include "common/worker_job.h"
#include "decode_worker/decode_core.h"
#include "prefill_worker/prefill_core.h"
#include "simulator/fetch_server.h"
#include "simulator/link.h"
#include "simulator/loop_process.h"
#include "simulator/puller.h"
#include "simulator/router_node.h"
#include "worker/attempt_owners.h"
#include "worker/block_report_schedule.h"

namespace baton::simulator {

// The process that listens at a router's address.
class RouterDirectory {
 public:
  virtual ~RouterDirectory() = default;
  // nullptr while there is none.
  virtual RouterNode* FindRouter(int router) = 0;
};

class WorkerNode final : public LoopProcess, public UpdateSink {
 public:
  WorkerNode(Simulation& sim, RouterDirectory& routers, PeerDirectory& peers, const WorkerSetup& setup);

  // Joins every router, again and again until it dies.
  void Start();

  // What befalls it.
  void Crash();
  void Hang(int64_t pause_ns);
  // The link to the router carries nothing new for this time.
  void FallSilent(int router, int64_t ns);
  // The link has broken, and neither end is told: each finds out in its own time. No other link comes up for this time.
  void Partition(int router, int64_t ns);
  // The engine's step under way, or the next, takes this long.
  void StallEngine(int64_t ns);
  // SIGTERM: it takes no new jobs, ends those that it has, and dies. Jobs that are left after the time-out are cut.
  static constexpr int64_t kNoTimeoutMs = int64_t{1} << 40;
  void Drain(int64_t timeout_ms = kNoTimeoutMs);
  // An operator has told a router to have it drain: so long its jobs have then.
  void ExpectDrain(int64_t timeout_ms) {
    is_to_drain_ = true;
    drain_timeout_ms_ = timeout_ms;
  }
  // It dies of the engine's step under way, or of something else where there is none, and says so.
  void DieOfOwnFault();
  // It stands still, and its clock with it.
  void SuspendMachine(int64_t ns);
  // Its clock leaps ahead, as that of a machine whose hypervisor has not run it.
  void LeapClock(int64_t ns);
  // Its engine's steps take so many times as long for a while.
  void SlowDown(int64_t ns, int64_t factor);
  // The link breaks with all that is on its way, and both ends soon know.
  void BreakConnection(int router);
  // As Partition, but one end still hears the other.
  void PartitionOneWay(int router, int64_t ns, bool to_router);
  // The network fails between this worker as the reader and a source.
  void OnPairCut(const PairCut& cut);

  // What the network delivers from routers.
  void OnAccepted(const LinkPtr& link);
  void OnPrefill(const Call& call, WorkerJob job, bool solo);
  void OnDecode(const Call& call, WorkerJob job, const decode_worker::DecodeSource& source);
  void OnCancel(const LinkPtr& link, const JobKey& key);
  void OnHandOver(const LinkPtr& link, const JobKey& key, const HandOver& hand_over);
  void OnDrainOrdered();
  void OnDrainAccepted(const LinkPtr& link);
  void OnLinkEnd(const LinkPtr& link, const absl::Status& status);

  // UpdateSink.
  void Update(const JobKey& key, const WorkerUpdate& update) override;
  void End(const JobKey& key, const absl::Status& status) override;

  // Fails the run when anything is left that a request referred to.
  void CheckQuiet() const;

  FetchServer& fetch_server() { return fetch_server_; }
  bool joined(int router) const { return members_[static_cast<size_t>(router)].joined; }
  bool draining() const { return draining_; }
  // It drains, or somebody has said that it shall.
  bool is_to_drain() const { return draining_ || is_to_drain_; }
  // It has drained and ended of its own accord.
  bool left() const { return left_; }
  // Since when it has had no call.
  TimeNs idle_since() const { return HasCalls() ? kNever : idle_since_; }

 private:
  // As often as leases of the simulation are shorter than those of real workers.
  static constexpr int64_t kBlockReportIntervalMs = 1'000;

  // What it is to one router.
  struct Member {
    // Null while it has no stream to the router.
    LinkPtr link;
    bool joined = false;
    bool drain_accepted = false;
    MembershipId last;
    TimeNs unreachable_until = 0;
    worker::BlockReportSchedule block_reports{kBlockReportIntervalMs};
    // The steps that had ended at the last of them.
    int64_t steps_at_blocks = 0;
    // The calls of this membership.
    std::map<JobKey, Call> calls;
  };

  Member& MemberOf(int router) { return members_[static_cast<size_t>(router)]; }
  // Null when the link is none of the worker's any more.
  Member* MemberOf(const LinkPtr& link);
  bool HasCalls() const;
  // worker_membership.cc
  void Connect(int router);
  void ConnectSoon(int router);
  router::WorkerInfo Info(const Member& member) const;
  void Heartbeat(const LinkPtr& link);
  void SendLoad(int router);
  // The holders of its blocks, if a report is due and the loop would make one: between two steps.
  std::optional<BlockReport> DueBlocks(int router);
  void LeaveWhenDrained();
  void CutAll(int64_t timeout_ms);
  void Leave();
  void Begin(const Call& call);
  // Null when the call is over.
  const Call* FindCall(size_t router, const JobKey& key) const;
  void SayEnd(const Call& call, const absl::Status& status);
  void OnStep() override;
  void CancelJob(const Call& call);
  // A name for the trouble between the worker and the router.
  Incarnation LinkName(int router) const { return Simulation::LinkName(incarnation(), router); }

  RouterDirectory& routers_;
  FetchServer fetch_server_;
  Puller puller_;
  std::optional<prefill_worker::PrefillCore> prefill_;
  std::optional<decode_worker::DecodeCore> decode_;
  // By the routers' numbers.
  std::vector<Member> members_;
  worker::AttemptOwners owners_;
  bool draining_ = false;
  bool is_to_drain_ = false;
  int64_t drain_timeout_ms_ = kNoTimeoutMs;
  bool left_ = false;
  TimeNs idle_since_ = 0;
  // Prompts that are computed here for another worker.
  std::set<JobKey> handed_over_;
  // The attempts that go on with jobs of this worker, by the job's attempt here.
  std::map<JobKey, JobKey> hand_overs_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_WORKER_NODE_H_
