#include "simulator/cluster.h"

#include <memory>
#include <utility>
#include <vector>

#include "simulator/decode_node.h"
#include "simulator/prefill_node.h"
#include "simulator/router_node.h"
#include "simulator/workload.h"

namespace baton::simulator {
namespace {

// The longest prompt with all its output.
constexpr int32_t kMaxTokens = 320;
// Blocks of each group of layers beyond what such a prompt needs.
constexpr int32_t kMaxSpareBlocks = 16;
constexpr int32_t kWorkersOfARole = 2;
// After the last thing that a client or a fault does, every request ends within this time.
constexpr int64_t kMaxEndNs = 12 * kNsPerSecond;
// After this time leases, graces, parked messages and unlicensed prompts are over.
constexpr int64_t kQuietNs = 12 * kNsPerSecond;

class Cluster final : public PeerDirectory {
 public:
  explicit Cluster(const RunOptions& options)
      : sim_(options.seed, options.bug, options.traces),
        workload_(sim_),
        router_(
            sim_, DrawRouterOptions(), [this](const std::string& target) { return FindWorker(target); }, workload_) {
    DrawPace();
    DrawModel();
    const KvGroups groups = engine::FakeModel(sim_.model).kv_layout().groups();
    const bool short_lease = sim_.Chance(50);
    for (int32_t i = 0; i < 2 * kWorkersOfARole; ++i) {
      const bool prefills = i < kWorkersOfARole;
      const int32_t chunk_tokens = 16 << sim_.Between(0, 3);
      const int32_t spare = static_cast<int32_t>(sim_.Between(0, kMaxSpareBlocks)) * groups.count();
      setups_.push_back({.role = prefills ? router::WorkerRole::kPrefill : router::WorkerRole::kDecode,
                         .target = absl::StrCat(prefills ? "prefill-" : "decode-", i % kWorkersOfARole),
                         .block_count = groups.MostBlocks(kMaxTokens, chunk_tokens) + spare,
                         .chunk_tokens = chunk_tokens,
                         .max_sequences = static_cast<int32_t>(sim_.Between(1, 10)),
                         .lease_ms = short_lease ? 600 : 4'000,
                         .renew_ms = short_lease ? 75 : 500});
    }
  }

  RunResult Run() {
    for (const WorkerSetup& setup : setups_) StartWorker(setup);
    workload_.Schedule(router_);
    const TimeNs crash = sim_.queue.Now() + sim_.MsBetween(1, 700);
    sim_.queue.At(crash, [this] { CrashOne(); });
    const TimeNs end = std::max(workload_.last_event(), crash) + kMaxEndNs;
    while (sim_.error().empty() && !workload_.done() && Next(end)) continue;
    if (sim_.error().empty() && !workload_.done()) sim_.Fail("no end of" + workload_.Open());
    // The run goes on until the crash, even when all requests have ended before.
    const TimeNs quiet = std::max(sim_.queue.Now(), crash) + kQuietNs;
    while (sim_.error().empty() && Next(quiet)) continue;
    if (sim_.error().empty()) CheckQuiet();
    return {sim_.error(), sim_.counts};
  }

  PrefillNode* FindPrefill(const std::string& target) override {
    for (const auto& node : prefills_) {
      if (node->alive() && node->setup().target == target) return node.get();
    }
    return nullptr;
  }
  PrefillNode* FindMemory(const std::string& address) override {
    for (const auto& node : prefills_) {
      if (node->incarnation().ToHex() == address) return node.get();
    }
    return nullptr;
  }

 private:
  router::DispatcherOptions DrawRouterOptions() {
    router::DispatcherOptions options;
    // The planted bug takes several rows of one sequence at a decode worker for a recomputation; a local prefill has
    // several rows too.
    const bool local = sim_.bug != PlantedBug::kResumedTooLate && sim_.Chance(30);
    if (local) options.placing.local_prefill_tokens = 24;
    if (sim_.Chance(50)) options.placing.ttft_target_ms = sim_.Between(1, 100);
    return options;
  }

  void DrawPace() {
    if (sim_.Chance(30)) sim_.pace = {.max_network_ns = 200'000, .max_late_ns = 5 * kNsPerMs, .max_step_ns = 500'000};
    if (sim_.Chance(20)) sim_.pace.max_step_ns = 12 * kNsPerMs;
    if (sim_.Chance(20)) sim_.pace.max_network_ns = 20 * kNsPerMs;
  }

  // In half of the runs some or all layers slide.
  void DrawModel() {
    if (sim_.Chance(50)) return;
    sim_.model.full_layers = static_cast<int32_t>(sim_.Between(0, 2));
    sim_.model.sliding_layers = static_cast<int32_t>(sim_.Between(1, 4));
    sim_.model.window = static_cast<int32_t>(sim_.Between(2, sim_.Chance(50) ? 40 : 150));
  }

  bool Next(TimeNs limit) {
    ++sim_.counts.events;
    return sim_.queue.RunNext(limit);
  }

  std::vector<WorkerNode*> Live() const {
    std::vector<WorkerNode*> live;
    for (const auto& node : prefills_) {
      if (node->alive()) live.push_back(node.get());
    }
    for (const auto& node : decodes_) {
      if (node->alive()) live.push_back(node.get());
    }
    return live;
  }

  WorkerNode* FindWorker(const std::string& target) {
    for (WorkerNode* node : Live()) {
      if (node->setup().target == target) return node;
    }
    return nullptr;
  }

  void StartWorker(const WorkerSetup& setup) {
    if (setup.role == router::WorkerRole::kPrefill) {
      prefills_.push_back(std::make_unique<PrefillNode>(sim_, router_, setup));
      return prefills_.back()->Join();
    }
    decodes_.push_back(std::make_unique<DecodeNode>(sim_, router_, *this, setup));
    decodes_.back()->Join();
  }

  void CrashOne() {
    const std::vector<WorkerNode*> live = Live();
    WorkerNode* victim = live[static_cast<size_t>(sim_.Between(0, static_cast<int64_t>(live.size()) - 1))];
    sim_.crashed = victim->incarnation();
    victim->Crash();
    // The successor has the same address and another incarnation.
    sim_.queue.After(sim_.MsBetween(1, 400), [this, setup = victim->setup()] { StartWorker(setup); });
  }

  void CheckQuiet() {
    for (const WorkerNode* node : Live()) node->CheckQuiet();
    const router::Dispatcher& dispatcher = router_.dispatcher();
    if (dispatcher.open_calls() != 0) sim_.Fail("the router has open calls");
    if (dispatcher.queued_jobs() + dispatcher.running_jobs() != 0) sim_.Fail("the router has jobs");
    for (const auto& [worker, assigned] : dispatcher.assigned()) {
      if (assigned.jobs != 0 || assigned.reserved_blocks != 0 || assigned.uncomputed_prompt_tokens != 0) {
        sim_.Fail("the router still counts work as assigned");
      }
    }
    if (dispatcher.registry().workers().size() != setups_.size()) sim_.Fail("the router knows other workers");
  }

  Simulation sim_;
  Workload workload_;
  RouterNode router_;
  std::vector<WorkerSetup> setups_;
  // Dead workers stay: their memory may still be read.
  std::vector<std::unique_ptr<PrefillNode>> prefills_;
  std::vector<std::unique_ptr<DecodeNode>> decodes_;
};

}  // namespace

RunResult RunSeed(const RunOptions& options) { return Cluster(options).Run(); }

}  // namespace baton::simulator
