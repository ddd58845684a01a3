#include "simulator/cluster.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "router/journal_tasks.h"
#include "simulator/cluster_setup.h"
#include "simulator/faults.h"
#include "simulator/journal_disk.h"
#include "simulator/long_run.h"
#include "simulator/router_node.h"
#include "simulator/worker_node.h"
#include "simulator/workload.h"

namespace baton::simulator {
namespace {

// After the last thing that a client or a fault does, every request ends within this time.
constexpr int64_t kMaxEndNs = 12 * kNsPerSecond;
// A flow has more to do.
constexpr int64_t kMaxFlowEndNs = 90 * kNsPerSecond;
// In a long run every request ends within this time and that of the work which is left then.
constexpr int64_t kMaxLongEndNs = 20 * kNsPerSecond;
// All faults are over after this time. A worker that drains leaves when its jobs have ended.
constexpr int64_t kMaxFaultNs = 120 * kNsPerSecond;
// All workers have joined after this time.
constexpr int64_t kStartNs = 200 * kNsPerMs;
// After the last fault every live worker is a member within this time: the router has to miss a worker before it lets
// the same process join anew.
constexpr int64_t kMaxHealNs = 7 * kNsPerSecond;
// Probes end within this time.
constexpr int64_t kMaxProbeNs = 20 * kNsPerSecond;
constexpr int kProbeRounds = 6;
// Every router has heard of every worker's load within this time.
constexpr int64_t kHeardNs = 500 * kNsPerMs;
// The first times for which a pair is avoided are over after this time.
constexpr int64_t kAvoidedNs = 4 * router::kMinAvoidMs * kNsPerMs;
// So are the longest ones after two of these, as a pair that was cut for long has met them.
constexpr int64_t kLongAvoidedNs = router::kMaxAvoidMs * kNsPerMs * 5 / 8;
// After this time leases, graces, parked messages and unlicensed prompts are over.
constexpr int64_t kQuietNs = 12 * kNsPerSecond;
// No request waits while a worker that could serve it alone does nothing for this time.
constexpr int64_t kMaxIdleNs = 250 * kNsPerMs;
constexpr int64_t kIdleCheckNs = 50 * kNsPerMs;

class Cluster final : public PeerDirectory, public RouterDirectory, public FaultTargets {
 public:
  explicit Cluster(const RunOptions& options)
      : options_(options),
        sim_(options.seed, options.traces),
        workload_(sim_, *this),
        faults_(sim_, *this),
        setup_(DrawClusterSetup(sim_)) {
    if (options.routers > 0) sim_.routers = options.routers;
    if (options.kept_percent >= 0) setup_.kept.percent = options.kept_percent;
    workload_.Keep(setup_.kept);
    sim_.has_kept = setup_.kept.percent > 0;
    for (int router = 0; router < sim_.routers; ++router) disks_.push_back(std::make_unique<JournalDisk>(sim_));
    sim_.counts.several_routers = sim_.routers > 1 ? 1 : 0;
  }

  RunResult Run() {
    for (int router = 0; router < sim_.routers; ++router) StartRouter(router);
    for (const WorkerSetup& setup : setup_.workers) StartWorker(setup);
    options_.kind == RunKind::kShort ? RunShort() : RunLong();
    RunUntil(Limit(kMaxHealNs));
    if (sim_.error().empty()) CheckMembers();
    workload_.ForgetServed();
    // Each round has one probe for some pairs, and a few in a row would be cut sooner or later.
    sim_.weather.cuts_streams = false;
    for (int round = 0; round < kProbeRounds && !AllServe(); ++round) {
      // Hand-offs that failed keep requests from their pair of workers for a while.
      if (round > 1) {
        RunUntil(sim_.queue.Now() + (options_.kind == RunKind::kShort ? kAvoidedNs : kLongAvoidedNs));
      }
      for (int router = 0; router < sim_.routers; ++router) {
        // By then it has heard that the probes of the one before are over.
        if (router > 0) RunUntil(sim_.queue.Now() + kHeardNs);
        Probe(router, round % 2 == 0);
      }
    }
    if (sim_.error().empty() && !AllServe()) sim_.Fail("a worker serves no probe");
    RunUntil(sim_.queue.Now() + kQuietNs);
    if (sim_.error().empty()) CheckQuiet();
    result_.error = sim_.error();
    result_.counts = sim_.counts;
    result_.longest_wait_ns = workload_.longest_wait_ns();
    result_.most_attempts = workload_.most_attempts();
    result_.longest_life_ns = workload_.longest_life_ns();
    result_.virtual_ns = sim_.queue.Now() - VirtualTime::kStart;
    result_.struck = faults_.struck();
    return result_;
  }

  FetchServer* FindSource(const std::string& target) override {
    for (WorkerNode* node : LiveWorkers()) {
      if (node->setup().target == target) return &node->fetch_server();
    }
    return nullptr;
  }
  LoopProcess* FindMemory(const std::string& address) override {
    for (const auto& node : workers_) {
      if (node->incarnation().ToHex() == address) return node.get();
    }
    return nullptr;
  }
  RouterNode* FindRouter(int router) override {
    const auto it = std::find_if(routers_.rbegin(), routers_.rend(),
                                 [router](const auto& node) { return node->number() == router; });
    return it == routers_.rend() || !(*it)->alive() ? nullptr : it->get();
  }
  std::vector<WorkerNode*> LiveWorkers() const override {
    std::vector<WorkerNode*> live;
    for (const auto& node : workers_) {
      if (node->alive()) live.push_back(node.get());
    }
    return live;
  }
  bool StartRouter(int router) override {
    JournalDisk& disk = *disks_[static_cast<size_t>(router)];
    absl::StatusOr<std::vector<router::JournaledJob>> jobs = router::TakeUpJobs(disk);
    if (!jobs.ok()) return false;
    routers_.push_back(std::make_unique<RouterNode>(sim_, router, setup_.router, workload_));
    if (sim_.has_kept) routers_.back()->Keep(setup_.kept, disk, *std::move(jobs));
    return true;
  }
  void FillDisk(int router, TimeNs until, size_t least_bytes) override {
    disks_[static_cast<size_t>(router)]->Fill(until, least_bytes);
  }
  void CrashRouter(RouterNode& router) override {
    router.Crash();
    workload_.OnRouterGone(&router);
  }
  void StartWorker(const WorkerSetup& setup) override {
    workers_.push_back(std::make_unique<WorkerNode>(sim_, *this, *this, setup));
    workers_.back()->Start();
  }
  void FillPools(int requests) override { workload_.FillPools(requests); }
  void SubmitPoison() override { workload_.SubmitPoison(); }

 private:
  void RunShort() {
    const bool spread = sim_.Chance(25);
    const WorkloadOptions workload = DrawWorkload(spread);
    // A prompt that only the largest worker holds is refused before that one has joined.
    if (setup_.has_small_workers) RunUntil(sim_.queue.Now() + kStartNs);
    workload_.Schedule(workload);
    faults_.Schedule(spread ? 8'000 : 700);
    if (setup_.shape.all_mixed()) CheckIdle();
    // Requests end, however long the faults last.
    RunToEnd(workload.mix.flows ? kMaxFlowEndNs : kMaxEndNs);
  }

  WorkloadOptions DrawWorkload(bool spread) {
    WorkloadOptions options;
    options.mix.small_worker_tokens = setup_.has_small_workers ? kSmallWorkerTokens : 0;
    options.mix.flows = sim_.Chance(setup_.shape.mixed > 1 ? 25 : 5);
    // All requests of some runs come nearly at once.
    options.arrival_ms = spread ? 9'000 : sim_.Chance(40) ? 40 : 500;
    if (options.mix.flows) options.arrival_ms = 2'500;
    return options;
  }

  void RunLong() {
    const bool is_thousand = options_.kind == RunKind::kThousandSeconds;
    const LongRunPlan plan =
        DrawLongRun(sim_, setup_, is_thousand ? kThousandSecondsNs : sim_.MsBetween(kMinLongMs, kMaxLongMs));
    workload_.ScheduleWaves(plan.mix, plan.waves, [this](int i) { return !options_.left_out_requests.contains(i); });
    std::vector<PlannedFault> faults = plan.faults;
    result_.planned_faults = static_cast<int>(faults.size());
    result_.planned_requests = workload_.drawn();
    std::erase_if(faults, [this](const auto& fault) { return options_.left_out_faults.contains(fault.index); });
    faults_.Follow(faults);
    if (options_.jitter > 0) sim_.random = SeededRandom(sim_.random.Next64() + options_.jitter);
    if (setup_.shape.all_mixed()) CheckIdle();
    // Its requests go on for as long.
    RunUntil(VirtualTime::kStart + plan.length_ns);
    while (sim_.error().empty() && !Settled() && Next(Limit(kNsPerSecond))) continue;
    RunToEnd(kMaxLongEndNs + workload_.OpenWorkNs());
  }

  // Until all requests and faults have come to an end.
  void RunToEnd(int64_t max_ns) {
    while (sim_.error().empty() && !(workload_.done() && Settled()) && Next(Limit(max_ns))) continue;
    if (sim_.error().empty() && !workload_.done()) sim_.Fail("no end of" + workload_.Open());
    if (sim_.error().empty() && !Settled()) sim_.Fail("a worker that drains never leaves");
    result_.end_ns = std::max<int64_t>(0, workload_.last_end() - std::max(workload_.last_event(), faults_.over()));
  }

  bool Next(TimeNs limit) {
    ++sim_.counts.events;
    return sim_.queue.RunNext(limit);
  }
  void RunUntil(TimeNs limit) {
    while (sim_.error().empty() && Next(limit)) continue;
  }

  bool Settled() const { return !faults_.Pending() && sim_.queue.Now() >= faults_.over(); }
  // This long after the last thing that a client or a fault does; counted from now on, while a fault lasts.
  TimeNs Limit(int64_t ns) const {
    const TimeNs most =
        VirtualTime::kStart + kMaxFaultNs + (options_.kind == RunKind::kThousandSeconds ? kThousandSecondsNs : 0);
    if (faults_.Pending()) return std::min(sim_.queue.Now(), most) + ns;
    return std::max(workload_.last_event(), faults_.over()) + ns;
  }

  void CheckIdle() {
    const TimeNs since = sim_.queue.Now() - kMaxIdleNs;
    const bool calm = !sim_.AnyoneWasTroubled(since - kNsPerSecond);
    for (const WorkerNode* node : LiveWorkers()) {
      if (!calm || node->draining() || node->idle_since() > since) continue;
      for (int router = 0; router < sim_.routers; ++router) {
        if (!node->joined(router)) continue;
        if (!workload_.AnyWaits(router, since, kSmallWorkerTokens - 2 * kBlockTokens)) continue;
        if (FindRouter(router)->Ejects(*node)) continue;
        sim_.Fail(absl::StrCat("a request waits while ", node->setup().target, " has nothing to do"));
      }
    }
    if (!workload_.done()) sim_.queue.After(kIdleCheckNs, [this] { CheckIdle(); });
  }

  void CheckMembers() {
    for (int router = 0; router < sim_.routers; ++router) CheckMembers(FindRouter(router));
  }
  void CheckMembers(const RouterNode* router) {
    if (router == nullptr) return sim_.Fail("a router has not come back");
    std::multiset<Incarnation> members;
    for (const auto& [id, worker] : router->dispatcher().registry().workers()) {
      members.insert(worker.info.incarnation);
    }
    std::multiset<Incarnation> live;
    for (const WorkerNode* node : LiveWorkers()) {
      live.insert(node->incarnation());
      if (members.count(node->incarnation()) != 1) {
        sim_.Fail(absl::StrCat(node->setup().target, " is a member ", members.count(node->incarnation()), " times of ",
                               router->name()));
      }
    }
    if (live.size() != setup_.workers.size()) sim_.Fail("a worker has not come back");
    if (members != live) sim_.Fail("a dead worker is a member");
  }

  // Every worker for every router.
  bool AllServe() const {
    for (const WorkerNode* node : LiveWorkers()) {
      for (int router = 0; router < sim_.routers; ++router) {
        if (!workload_.served().contains({router, node->incarnation()})) return false;
      }
    }
    return true;
  }

  // Requests that come at once spread over the workers of a role. Those of another router would take the slots.
  void Probe(int router, bool decodes) {
    if (!sim_.error().empty()) return;
    workload_.Probe(router, 2 * static_cast<int>(setup_.workers.size()), decodes);
    const TimeNs limit = sim_.queue.Now() + kMaxProbeNs;
    while (sim_.error().empty() && !workload_.done() && Next(limit)) continue;
    if (sim_.error().empty() && !workload_.done()) sim_.Fail("no end of the probes" + workload_.Open());
  }

  void CheckQuiet() {
    CheckMembers();
    if (!sim_.error().empty()) return;
    for (const WorkerNode* node : LiveWorkers()) node->CheckQuiet();
    for (int router = 0; router < sim_.routers; ++router) FindRouter(router)->CheckQuiet();
  }

  const RunOptions options_;
  Simulation sim_;
  Workload workload_;
  Faults faults_;
  ClusterSetup setup_;
  RunResult result_;
  // Dead processes stay: a worker's memory may still be read, and messages to them are on their way.
  std::vector<std::unique_ptr<JournalDisk>> disks_;
  std::vector<std::unique_ptr<RouterNode>> routers_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
};

}  // namespace

RunResult RunSeed(const RunOptions& options) { return Cluster(options).Run(); }

}  // namespace baton::simulator
