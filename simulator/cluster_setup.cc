#include "simulator/cluster_setup.h"

#include <iterator>

namespace baton::simulator {
namespace {

using router::WorkerRole;

// The longest prompt with all its output.
constexpr int32_t kMaxTokens = 320;
// Blocks of each group of layers beyond what such a prompt needs.
constexpr int32_t kMaxSpareBlocks = 16;

// So many of a hundred runs have requests that outlive their calls.
constexpr int kKeptPercent = 20;

constexpr Shape kShapes[] = {{2, 2, 0}, {2, 2, 0}, {1, 1, 0}, {1, 2, 0}, {3, 1, 0}, {0, 0, 1},
                             {0, 0, 2}, {0, 0, 2}, {0, 0, 3}, {1, 0, 2}, {0, 1, 1}, {1, 1, 1}};

void DrawRouterOptions(Simulation& sim, router::DispatcherOptions& options) {
  if (sim.Chance(30)) options.placing.local_prefill_tokens = 24;
  if (sim.Chance(50)) options.placing.ttft_target_ms = sim.Between(1, 100);
  if (sim.Chance(20)) options.engine_stall_ms = 1'000;
}

void DrawPace(Simulation& sim) {
  if (sim.Chance(30)) sim.pace = {.max_network_ns = 200'000, .max_late_ns = 5 * kNsPerMs, .max_step_ns = 500'000};
  if (sim.Chance(20)) sim.pace.max_step_ns = 12 * kNsPerMs;
  if (sim.Chance(20)) sim.pace.max_network_ns = 20 * kNsPerMs;
}

// Most clusters have one router.
void DrawRouters(Simulation& sim) {
  const uint64_t drawn = sim.router_random.Below(100);
  sim.routers = drawn < 70 ? 1 : drawn < 90 ? 2 : 3;
}

// In half of the runs some or all layers slide, in two thirds steps run ahead of the engine, late or early, and in a
// third they say on their way which layers are there.
void DrawModel(Simulation& sim) {
  sim.model.steps_ahead = static_cast<engine::StepsAhead>(sim.ahead_random.Below(3));
  sim.model.layer_by_layer = sim.ahead_random.Below(3) == 0;
  // The headroom of a mixed worker is for a prompt of this length.
  if (sim.Chance(50)) sim.model.context_length = kMaxTokens + 1;
  if (sim.Chance(50)) return;
  sim.model.full_layers = static_cast<int32_t>(sim.Between(0, 2));
  sim.model.sliding_layers = static_cast<int32_t>(sim.Between(1, 4));
  sim.model.window = static_cast<int32_t>(sim.Between(2, sim.Chance(50) ? 40 : 150));
}

// The first of a role is never small.
void AddWorkers(Simulation& sim, ClusterSetup& setup, WorkerRole role, const char* name, int count, bool short_lease) {
  const KvGroups groups = engine::FakeModel(sim.model).kv_layout().groups();
  for (int i = 0; i < count; ++i) {
    const int32_t chunk_tokens = 16 << sim.Between(0, 3);
    const bool small = setup.has_small_workers && i > 0;
    const int32_t tokens = small ? kSmallWorkerTokens : kMaxTokens;
    const int32_t spare = small ? 0 : static_cast<int32_t>(sim.Between(0, kMaxSpareBlocks)) * groups.count();
    setup.workers.push_back({.role = role,
                             .target = absl::StrCat(name, i),
                             .block_count = groups.MostBlocks(tokens, chunk_tokens) + spare,
                             .chunk_tokens = chunk_tokens,
                             .max_sequences = static_cast<int32_t>(sim.Between(1, 10)),
                             .lease_ms = short_lease ? 600 : 4'000,
                             .renew_ms = short_lease ? 75 : 500,
                             .engine_stall_ms = setup.router.engine_stall_ms});
  }
}

KeptSetup DrawKept(Simulation& sim) {
  KeptSetup kept;
  const bool has_kept = sim.KeptChance(kKeptPercent);
  const auto percent = static_cast<int>(sim.KeptBetween(20, 100));
  kept.percent = has_kept ? percent : 0;
  // In the end all jobs are over, are forgotten and leave the journal in the time that a run has.
  kept.live.retention_ms = sim.KeptBetween(400, 5'000);
  kept.live.unfollowed_ms = sim.KeptBetween(300, 4'000);
  if (sim.KeptChance(30)) kept.max_write_ns = sim.KeptBetween(1, sim.KeptChance(50) ? 20 : 500) * kNsPerMs;
  if (sim.KeptChance(20)) kept.max_new_jobs = static_cast<size_t>(sim.KeptBetween(1, 3));
  return kept;
}

}  // namespace

ClusterSetup DrawClusterSetup(Simulation& sim) {
  ClusterSetup setup;
  DrawRouterOptions(sim, setup.router);
  DrawPace(sim);
  DrawModel(sim);
  DrawRouters(sim);
  setup.shape = kShapes[sim.Between(0, static_cast<int64_t>(std::size(kShapes)) - 1)];
  const bool short_lease = sim.Chance(50);
  setup.has_small_workers = sim.Chance(setup.shape.mixed > 1 ? 50 : 25);
  AddWorkers(sim, setup, WorkerRole::kPrefill, "prefill-", setup.shape.prefill, short_lease);
  AddWorkers(sim, setup, WorkerRole::kDecode, "decode-", setup.shape.decode, short_lease);
  AddWorkers(sim, setup, WorkerRole::kMixed, "mixed-", setup.shape.mixed, short_lease);
  setup.kept = DrawKept(sim);
  return setup;
}

}  // namespace baton::simulator
