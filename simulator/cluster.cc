#include "simulator/cluster.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "simulator/faults.h"
#include "simulator/router_node.h"
#include "simulator/worker_node.h"
#include "simulator/workload.h"

namespace baton::simulator {
namespace {

using router::WorkerRole;

// The longest prompt with all its output.
constexpr int32_t kMaxTokens = 320;
// What a small worker holds.
constexpr int32_t kSmallWorkerTokens = 160;
// Blocks of each group of layers beyond what such a prompt needs.
constexpr int32_t kMaxSpareBlocks = 16;
// After the last thing that a client or a fault does, every request ends within this time.
constexpr int64_t kMaxEndNs = 12 * kNsPerSecond;
// A flow has more to do.
constexpr int64_t kMaxFlowEndNs = 90 * kNsPerSecond;
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
// The first times for which a pair is avoided are over after this time.
constexpr int64_t kAvoidedNs = 4 * router::kMinAvoidMs * kNsPerMs;
// After this time leases, graces, parked messages and unlicensed prompts are over.
constexpr int64_t kQuietNs = 12 * kNsPerSecond;
// No request waits while a worker that could serve it alone does nothing for this time.
constexpr int64_t kMaxIdleNs = 250 * kNsPerMs;
constexpr int64_t kIdleCheckNs = 50 * kNsPerMs;

struct Shape {
  int prefill = 0;
  int decode = 0;
  int mixed = 0;
};
constexpr Shape kShapes[] = {{2, 2, 0}, {2, 2, 0}, {1, 1, 0}, {1, 2, 0}, {3, 1, 0}, {0, 0, 1},
                             {0, 0, 2}, {0, 0, 2}, {0, 0, 3}, {1, 0, 2}, {0, 1, 1}, {1, 1, 1}};

class Cluster final : public PeerDirectory, public RouterDirectory, public FaultTargets {
 public:
  explicit Cluster(const RunOptions& options)
      : sim_(options.seed, options.traces), workload_(sim_, *this), faults_(sim_, *this) {
    DrawRouterOptions();
    DrawPace();
    DrawModel();
    DrawWorkers();
  }

  RunResult Run() {
    StartRouter();
    for (const WorkerSetup& setup : setups_) StartWorker(setup);
    const bool long_run = sim_.Chance(25);
    const WorkloadOptions workload = DrawWorkload(long_run);
    // A prompt that only the largest worker holds is refused before that one has joined.
    if (has_small_workers_) RunUntil(sim_.queue.Now() + kStartNs);
    workload_.Schedule(workload);
    faults_.Schedule(long_run ? 8'000 : 700);
    if (all_mixed()) CheckIdle();
    // Requests end, however long the faults last.
    const int64_t max_end_ns = workload.flows ? kMaxFlowEndNs : kMaxEndNs;
    while (sim_.error().empty() && !(workload_.done() && Settled()) && Next(Limit(max_end_ns))) continue;
    if (sim_.error().empty() && !workload_.done()) sim_.Fail("no end of" + workload_.Open());
    if (sim_.error().empty() && !Settled()) sim_.Fail("a worker that drains never leaves");
    RunUntil(Limit(kMaxHealNs));
    if (sim_.error().empty()) CheckMembers();
    workload_.ForgetServed();
    for (int round = 0; round < kProbeRounds && !AllServe(); ++round) {
      // A cut stream keeps requests from its pair of workers for a while.
      if (round > 1) RunUntil(sim_.queue.Now() + kAvoidedNs);
      Probe(round % 2 == 0);
    }
    if (sim_.error().empty() && !AllServe()) sim_.Fail("a worker serves no probe");
    RunUntil(sim_.queue.Now() + kQuietNs);
    if (sim_.error().empty()) CheckQuiet();
    return {sim_.error(), sim_.counts, workload_.longest_wait_ns(), workload_.most_attempts()};
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
  RouterNode* FindRouter() override {
    return routers_.empty() || !routers_.back()->alive() ? nullptr : routers_.back().get();
  }
  std::vector<WorkerNode*> LiveWorkers() const override {
    std::vector<WorkerNode*> live;
    for (const auto& node : workers_) {
      if (node->alive()) live.push_back(node.get());
    }
    return live;
  }
  void StartRouter() override { routers_.push_back(std::make_unique<RouterNode>(sim_, router_options_, workload_)); }
  void CrashRouter() override {
    routers_.back()->Crash();
    workload_.OnRouterGone(routers_.back().get());
  }
  void StartWorker(const WorkerSetup& setup) override {
    workers_.push_back(std::make_unique<WorkerNode>(sim_, *this, *this, setup));
    workers_.back()->Start();
  }

 private:
  bool all_mixed() const { return shape_.prefill + shape_.decode == 0; }

  void DrawRouterOptions() {
    if (sim_.Chance(30)) router_options_.placing.local_prefill_tokens = 24;
    if (sim_.Chance(50)) router_options_.placing.ttft_target_ms = sim_.Between(1, 100);
    if (sim_.Chance(20)) router_options_.engine_stall_ms = 1'000;
  }

  void DrawPace() {
    if (sim_.Chance(30)) sim_.pace = {.max_network_ns = 200'000, .max_late_ns = 5 * kNsPerMs, .max_step_ns = 500'000};
    if (sim_.Chance(20)) sim_.pace.max_step_ns = 12 * kNsPerMs;
    if (sim_.Chance(20)) sim_.pace.max_network_ns = 20 * kNsPerMs;
  }

  // In half of the runs some or all layers slide.
  void DrawModel() {
    // The headroom of a mixed worker is for a prompt of this length.
    if (sim_.Chance(50)) sim_.model.context_length = kMaxTokens + 1;
    if (sim_.Chance(50)) return;
    sim_.model.full_layers = static_cast<int32_t>(sim_.Between(0, 2));
    sim_.model.sliding_layers = static_cast<int32_t>(sim_.Between(1, 4));
    sim_.model.window = static_cast<int32_t>(sim_.Between(2, sim_.Chance(50) ? 40 : 150));
  }

  void DrawWorkers() {
    shape_ = kShapes[sim_.Between(0, static_cast<int64_t>(std::size(kShapes)) - 1)];
    short_lease_ = sim_.Chance(50);
    has_small_workers_ = sim_.Chance(shape_.mixed > 1 ? 50 : 25);
    AddWorkers(WorkerRole::kPrefill, "prefill-", shape_.prefill);
    AddWorkers(WorkerRole::kDecode, "decode-", shape_.decode);
    AddWorkers(WorkerRole::kMixed, "mixed-", shape_.mixed);
  }

  // The first of a role is never small.
  void AddWorkers(WorkerRole role, const char* name, int count) {
    const KvGroups groups = engine::FakeModel(sim_.model).kv_layout().groups();
    for (int i = 0; i < count; ++i) {
      const int32_t chunk_tokens = 16 << sim_.Between(0, 3);
      const bool small = has_small_workers_ && i > 0;
      const int32_t tokens = small ? kSmallWorkerTokens : kMaxTokens;
      const int32_t spare = small ? 0 : static_cast<int32_t>(sim_.Between(0, kMaxSpareBlocks)) * groups.count();
      setups_.push_back({.role = role,
                         .target = absl::StrCat(name, i),
                         .block_count = groups.MostBlocks(tokens, chunk_tokens) + spare,
                         .chunk_tokens = chunk_tokens,
                         .max_sequences = static_cast<int32_t>(sim_.Between(1, 10)),
                         .lease_ms = short_lease_ ? 600 : 4'000,
                         .renew_ms = short_lease_ ? 75 : 500,
                         .engine_stall_ms = router_options_.engine_stall_ms});
    }
  }

  WorkloadOptions DrawWorkload(bool long_run) {
    WorkloadOptions options;
    options.small_worker_tokens = has_small_workers_ ? kSmallWorkerTokens : 0;
    options.flows = sim_.Chance(shape_.mixed > 1 ? 25 : 5);
    // All requests of some runs come nearly at once.
    options.arrival_ms = long_run ? 9'000 : sim_.Chance(40) ? 40 : 500;
    if (options.flows) options.arrival_ms = 2'500;
    return options;
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
    if (faults_.Pending()) return std::min(sim_.queue.Now(), VirtualTime::kStart + kMaxFaultNs) + ns;
    return std::max(workload_.last_event(), faults_.over()) + ns;
  }

  void CheckIdle() {
    const TimeNs since = sim_.queue.Now() - kMaxIdleNs;
    for (const WorkerNode* node : LiveWorkers()) {
      const bool calm = node->joined() && !node->draining() && !sim_.AnyoneWasTroubled(since - kNsPerSecond);
      if (calm && node->idle_since() <= since && workload_.AnyWaits(since, kSmallWorkerTokens - 2 * kBlockTokens)) {
        sim_.Fail(absl::StrCat("a request waits while ", node->setup().target, " has nothing to do"));
      }
    }
    if (!workload_.done()) sim_.queue.After(kIdleCheckNs, [this] { CheckIdle(); });
  }

  void CheckMembers() {
    if (FindRouter() == nullptr) return sim_.Fail("there is no router");
    std::multiset<Incarnation> members;
    for (const auto& [id, worker] : FindRouter()->dispatcher().registry().workers()) {
      members.insert(worker.info.incarnation);
    }
    std::multiset<Incarnation> live;
    for (const WorkerNode* node : LiveWorkers()) {
      live.insert(node->incarnation());
      if (members.count(node->incarnation()) != 1) {
        sim_.Fail(absl::StrCat(node->setup().target, " is a member ", members.count(node->incarnation()), " times"));
      }
    }
    if (live.size() != setups_.size()) sim_.Fail("a worker has not come back");
    if (members != live) sim_.Fail("a dead worker is a member");
  }

  bool AllServe() const {
    const auto live = LiveWorkers();
    return std::all_of(live.begin(), live.end(),
                       [this](const WorkerNode* node) { return workload_.served().contains(node->incarnation()); });
  }

  // Requests that come at once spread over the workers of a role.
  void Probe(bool decodes) {
    if (!sim_.error().empty()) return;
    workload_.Probe(2 * static_cast<int>(setups_.size()), decodes);
    const TimeNs limit = sim_.queue.Now() + kMaxProbeNs;
    while (sim_.error().empty() && !workload_.done() && Next(limit)) continue;
    if (sim_.error().empty() && !workload_.done()) sim_.Fail("no end of the probes" + workload_.Open());
  }

  void CheckQuiet() {
    for (const WorkerNode* node : LiveWorkers()) node->CheckQuiet();
    const router::Dispatcher& dispatcher = FindRouter()->dispatcher();
    if (dispatcher.open_calls() != 0) sim_.Fail("the router has open calls");
    if (dispatcher.queued_jobs() + dispatcher.running_jobs() != 0) sim_.Fail("the router has jobs");
    for (const auto& [worker, assigned] : dispatcher.assigned()) {
      if (assigned.jobs != 0 || assigned.reserved_blocks != 0 || assigned.uncomputed_prompt_tokens != 0) {
        sim_.Fail("the router still counts work as assigned");
      }
    }
    CheckMembers();
  }

  Simulation sim_;
  Workload workload_;
  Faults faults_;
  router::DispatcherOptions router_options_;
  Shape shape_;
  bool short_lease_ = false;
  bool has_small_workers_ = false;
  std::vector<WorkerSetup> setups_;
  // Dead processes stay: a worker's memory may still be read, and messages to them are on their way.
  std::vector<std::unique_ptr<RouterNode>> routers_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
};

}  // namespace

RunResult RunSeed(const RunOptions& options) { return Cluster(options).Run(); }

}  // namespace baton::simulator
