// Random worlds, by seed: what must hold whatever workers, links and clients do. The checks are in the world.
#include "gmock/gmock.h"
#include "router/testing/dispatcher_world.h"

namespace baton::router {
namespace {

constexpr uint64_t kSeeds = 40;

WorldOptions Faulty(uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.prefill_workers = static_cast<int>(seed % 3);
  options.decode_workers = 1 + static_cast<int>(seed % 2);
  options.mixed_workers = seed % 3 == 0 ? 2 : static_cast<int>(seed / 3 % 2);
  options.refuse_percent = 10;
  options.error_percent = 1;
  options.cancel_percent = 15;
  options.stop_percent = 15;
  options.deadline_percent = 15;
  options.faults = 4;
  options.dispatcher.max_queued_jobs = 20;
  options.dispatcher.max_running_jobs = 12;
  options.dispatcher.placing.local_prefill_tokens = seed % 4 == 0 ? 30 : 0;
  options.dispatcher.worker_silence_ms = 1'000;
  options.dispatcher.placing.ttft_target_ms = seed % 2 == 0 ? 20 : 0;
  return options;
}

WorldOptions SeveralWorkers(uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.prefill_workers = 1 + static_cast<int>(seed % 2);
  options.decode_workers = 1 + static_cast<int>(seed / 2 % 2);
  options.mixed_workers = static_cast<int>(seed / 4 % 2);
  return options;
}

// The world has so many faults and drains, and a job may meet all of them.
WorldOptions Troubled(uint64_t seed, int faults, int drains = 0) {
  WorldOptions options = SeveralWorkers(seed);
  options.refuse_percent = 10;
  options.stop_percent = 10;
  options.faults = faults;
  options.drains = drains;
  options.dispatcher.worker_silence_ms = 1'000;
  options.dispatcher.max_losses = faults + drains + 1;
  options.dispatcher.max_errors = faults + drains + 1;
  return options;
}

TEST(DispatcherPropertyTest, EveryAcceptedJobEndsOnceUnderEveryFault) {
  WorldResult all;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const WorldResult result = DispatcherWorld(Faulty(seed)).Run();
    EXPECT_EQ(result.accepted, result.ok + result.failed);
    if (HasFailure()) return;
    all.accepted += result.accepted;
    all.refused += result.refused;
    all.refused_for_deadline += result.refused_for_deadline;
    all.dropped += result.dropped;
    all.ok += result.ok;
    all.failed += result.failed;
    all.attempts += result.attempts;
  }
  std::cout << "seeds 1.." << kSeeds << ": " << all.accepted << " accepted, " << all.refused << " refused ("
            << all.refused_for_deadline << " for their deadline), " << all.dropped << " dropped, " << all.ok << " ok, "
            << all.failed << " failed, " << all.attempts << " attempts\n";
  // The run had faults and still served.
  EXPECT_GT(all.refused, 0);
  EXPECT_GT(all.refused_for_deadline, 0);
  EXPECT_GT(all.dropped, 0);
  EXPECT_GT(all.failed, 100);
  EXPECT_GT(all.ok, 1000);
  EXPECT_GT(all.attempts, all.accepted);
}

TEST(DispatcherPropertyTest, RefusalsAndDelaysAloneFailNoJob) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    WorldOptions options = SeveralWorkers(seed);
    options.refuse_percent = 30;
    options.stop_percent = 10;
    const WorldResult result = DispatcherWorld(options).Run();
    EXPECT_EQ(result.accepted, options.jobs);
    EXPECT_THAT(result.errors, ::testing::IsEmpty());
    EXPECT_EQ(result.ok, options.jobs);
    if (HasFailure()) return;
  }
}

TEST(DispatcherPropertyTest, WorkersThatDieFreezeOrComeBackFailNoJob) {
  int attempts = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    WorldOptions options = Troubled(seed, /*faults=*/6);
    // A prompt's digest comes with its first output, and not again.
    options.digest_percent = 0;
    const WorldResult result = DispatcherWorld(options).Run();
    EXPECT_THAT(result.errors, ::testing::IsEmpty());
    EXPECT_EQ(result.ok, options.jobs);
    if (HasFailure()) return;
    attempts += result.attempts;
  }
  std::cout << attempts << " attempts\n";
}

TEST(DispatcherPropertyTest, ClientsThatLeaveOutputsUnreadGetAllOfThemBesideEveryFault) {
  int pauses = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const bool has_faults = seed % 2 != 0;
    WorldOptions options = Troubled(seed, has_faults ? 6 : 0, seed % 3 == 0 ? 4 : 0);
    options.unread_percent = 10;
    // A prompt's digest comes with its first output, and not again.
    options.digest_percent = has_faults ? 0 : 30;
    options.dispatcher.max_running_jobs = 12;
    const WorldResult result = DispatcherWorld(options).Run();
    EXPECT_THAT(result.errors, ::testing::IsEmpty());
    EXPECT_EQ(result.ok, options.jobs);
    if (HasFailure()) return;
    pauses += result.pauses;
  }
  std::cout << pauses << " pauses\n";
  EXPECT_GT(pauses, 1'000);
}

TEST(DispatcherPropertyTest, OnlyJobsThatAllowItGoOnWithOtherNumericsAndEachSuchOutputIsLabelled) {
  int switched = 0;
  int returned = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    WorldOptions options = SeveralWorkers(seed);
    options.decode_workers = 1;
    options.fingerprints = 2;
    options.refuse_percent = 5;
    options.stop_percent = 10;
    // A prompt's digest comes with its first output, and not again.
    options.digest_percent = 0;
    options.faults = 8;
    options.drains = seed % 2 == 0 ? 4 : 0;
    options.dispatcher.worker_silence_ms = 1'000;
    options.dispatcher.max_losses = options.faults + options.drains;
    options.dispatcher.max_errors = options.faults + options.drains;
    options.dispatcher.placing.other_numerics_wait_ms = static_cast<int64_t>(seed % 3) * 20;
    const WorldResult result = DispatcherWorld(options).Run();
    EXPECT_THAT(result.errors, ::testing::IsEmpty());
    EXPECT_EQ(result.ok, options.jobs);
    if (HasFailure()) return;
    switched += result.switched;
    returned += result.returned;
  }
  std::cout << switched << " jobs went on with other numerics, and " << returned << " of them came back\n";
  EXPECT_GT(switched, 5);
}

TEST(DispatcherPropertyTest, WorkersThatDrainMoveTheirJobsAndFailNone) {
  int moves = 0;
  int moved = 0;
  int taken_back = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    WorldOptions options = SeveralWorkers(seed);
    options.decode_workers = 2;
    options.refuse_percent = 10;
    options.stop_percent = 10;
    options.drains = 12;
    // A prompt's digest comes with its first output, and not again.
    options.digest_percent = 0;
    options.faults = seed % 2 == 0 ? 6 : 0;
    options.dispatcher.max_moves = 1 + static_cast<int32_t>(seed % 8);
    options.dispatcher.worker_silence_ms = 1'000;
    options.dispatcher.max_losses = options.faults + options.drains;
    options.dispatcher.max_errors = options.faults + options.drains;
    const WorldResult result = DispatcherWorld(options).Run();
    EXPECT_THAT(result.errors, ::testing::IsEmpty());
    EXPECT_EQ(result.ok, options.jobs);
    if (HasFailure()) return;
    moves += result.moves;
    moved += result.moved;
    taken_back += result.taken_back;
  }
  std::cout << moves << " moves, of which " << moved << " ended well; " << taken_back << " were taken back\n";
  EXPECT_GT(moves, moved);
  EXPECT_GT(moved, 50);
  EXPECT_GT(taken_back, 0);
}

TEST(DispatcherPropertyTest, APoisonedJobKillsAtMostTwoWorkersAndFailsNobodyElse) {
  int poisoned = 0;
  int killed = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    WorldOptions options = SeveralWorkers(seed);
    options.digest_percent = 0;
    options.poison_percent = 5;
    const WorldResult result = DispatcherWorld(options).Run();
    EXPECT_THAT(result.errors, ::testing::IsEmpty());
    EXPECT_EQ(result.ok + result.poisoned + result.refused, options.jobs);
    if (HasFailure()) return;
    poisoned += result.poisoned;
    killed += result.killed;
  }
  std::cout << poisoned << " poisoned jobs, " << killed << " workers killed\n";
  EXPECT_GT(poisoned, 50);
}

TEST(DispatcherPropertyTest, ASeedRepeatsARun) {
  const WorldResult first = DispatcherWorld(Faulty(7)).Run();
  const WorldResult second = DispatcherWorld(Faulty(7)).Run();
  EXPECT_EQ(first.ok, second.ok);
  EXPECT_EQ(first.failed, second.failed);
  EXPECT_EQ(first.attempts, second.attempts);
}

}  // namespace
}  // namespace baton::router
