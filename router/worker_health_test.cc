#include "router/worker_health.h"

#include <algorithm>
#include <map>
#include <vector>

#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kUnitMs = 20;

class WorkerHealthTest : public ::testing::Test {
 protected:
  void Join(uint64_t n, WorkerRole role = WorkerRole::kDecode) {
    ASSERT_TRUE(registry_.Join(MakeWorker(n, role), clock_.Now()).ok());
    health_.OnWorkerJoined(MakeWorkerId(n));
  }
  void JoinRamped(uint64_t count, WorkerRole role = WorkerRole::kDecode) {
    for (uint64_t n = 1; n <= count; ++n) Join(n, role);
    AdvanceMs(kRampUpMs);
  }
  void AdvanceMs(int64_t ms) { clock_.Advance(ms * kNsPerMs); }
  // 8 outputs in a batch, each of which took so long.
  HealthChange Decode(uint64_t n, int64_t unit_ms, int64_t batch = 4) {
    return health_.OnSample(MakeWorkerId(n), {.phase = WorkSample::Phase::kDecode,
                                              .duration_ns = 8 * unit_ms * kNsPerMs,
                                              .units = 8,
                                              .batch_sequences = batch});
  }
  HealthChange Prefill(uint64_t n, int64_t tokens, int64_t ms) {
    return health_.OnSample(MakeWorkerId(n),
                            {.phase = WorkSample::Phase::kPrefill, .duration_ns = ms * kNsPerMs, .units = tokens});
  }
  // All workers but the first compute for as long as a slow sample of `unit_ms` takes.
  void PeersDecode(uint64_t count, int64_t ms) {
    for (int64_t i = 0; i * 8 * kUnitMs < ms; ++i) {
      AdvanceMs(8 * kUnitMs);
      for (uint64_t n = 2; n <= count; ++n) EXPECT_EQ(Decode(n, kUnitMs), HealthChange::kNone);
    }
  }
  // Worker 1 takes `factor` times as long as its peers for so many samples. The last change.
  HealthChange SlowSamples(uint64_t count, int64_t factor, int samples) {
    HealthChange change = HealthChange::kNone;
    for (int i = 0; i < samples; ++i) {
      PeersDecode(count, 8 * factor * kUnitMs);
      change = Decode(1, factor * kUnitMs);
    }
    return change;
  }
  bool AnyoneIsEjected() {
    return std::any_of(registry_.workers().begin(), registry_.workers().end(),
                       [this](const auto& entry) { return health_.IsEjected(entry.first); });
  }
  // Workers that get nothing now.
  std::vector<uint64_t> Ejected() { return Numbers(health_.Ejected(assigned_)); }
  std::vector<uint64_t> Ramping() { return Numbers(health_.Ramping(assigned_)); }
  static std::vector<uint64_t> Numbers(const std::vector<WorkerId>& ids) {
    std::vector<uint64_t> numbers;
    for (const WorkerId& id : ids) numbers.push_back(id.low);
    return numbers;
  }
  void SetJobs(uint64_t n, int32_t jobs) { assigned_[MakeWorkerId(n)].jobs = jobs; }

  ManualClock clock_;
  WorkerRegistry registry_;
  WorkerHealth health_{clock_, registry_};
  std::map<WorkerId, WorkerAssignment> assigned_;
};

TEST_F(WorkerHealthTest, AWorkerTenTimesSlowerThanItsPeersIsEjectedAfterSomeSamples) {
  JoinRamped(3);
  EXPECT_EQ(SlowSamples(3, 10, kSlowSamples - 1), HealthChange::kNone);
  EXPECT_FALSE(health_.IsEjected(MakeWorkerId(1)));
  EXPECT_EQ(SlowSamples(3, 10, 1), HealthChange::kEjected);
  EXPECT_THAT(Ejected(), ElementsAre(1));
}

TEST_F(WorkerHealthTest, AWorkerThreeTimesSlowerThanItsPeersIsNot) {
  JoinRamped(3);
  EXPECT_EQ(SlowSamples(3, 3, 20), HealthChange::kNone);
  EXPECT_FALSE(AnyoneIsEjected());
}

TEST_F(WorkerHealthTest, OfTwoWorkersOneIsEjectedOnlyForAnExtremeFactor) {
  JoinRamped(2);
  EXPECT_EQ(SlowSamples(2, 7, 20), HealthChange::kNone);
  EXPECT_EQ(SlowSamples(2, 10, kSlowSamples), HealthChange::kEjected);
}

TEST_F(WorkerHealthTest, AWorkerWithoutPeersHasNobodyToBeSlowerThan) {
  JoinRamped(1);
  EXPECT_EQ(SlowSamples(1, 1, 10), HealthChange::kNone);
  EXPECT_EQ(SlowSamples(1, 50, 10), HealthChange::kNone);
}

TEST_F(WorkerHealthTest, WorkersOfOtherRolesAndFingerprintsAreNoPeers) {
  Join(1);
  WorkerInfo other = MakeWorker(2, WorkerRole::kDecode);
  other.fingerprint = "g";
  ASSERT_TRUE(registry_.Join(other, clock_.Now()).ok());
  health_.OnWorkerJoined(other.id);
  Join(3, WorkerRole::kMixed);
  AdvanceMs(kRampUpMs);
  EXPECT_EQ(SlowSamples(3, 20, 10), HealthChange::kNone);
}

TEST_F(WorkerHealthTest, OnePauseIsOneSlowSampleHoweverManyJobsMetIt) {
  JoinRamped(3);
  PeersDecode(3, 2'000);
  for (int job = 0; job < 16; ++job) {
    AdvanceMs(kSampleIntervalMs);
    EXPECT_EQ(Decode(1, 10 * kUnitMs), HealthChange::kNone);
  }
  EXPECT_FALSE(AnyoneIsEjected());
}

TEST_F(WorkerHealthTest, AFastSampleEndsTheRow) {
  JoinRamped(3);
  for (int i = 0; i < 5; ++i) {
    SlowSamples(3, 10, kSlowSamples - 1);
    EXPECT_FALSE(AnyoneIsEjected());
    AdvanceMs(8 * kUnitMs);
    Decode(1, kUnitMs);
  }
}

TEST_F(WorkerHealthTest, ASlowStartEjectsNobody) {
  JoinRamped(3);
  PeersDecode(3, 2'000);
  Join(4);
  for (int i = 0; i < 8; ++i) {
    AdvanceMs(kRampUpMs / 10);
    for (uint64_t n = 1; n <= 3; ++n) Decode(n, kUnitMs);
    EXPECT_EQ(health_.OnSample(MakeWorkerId(4), {.phase = WorkSample::Phase::kDecode,
                                                 .duration_ns = kRampUpMs * kNsPerMs / 10,
                                                 .units = 1,
                                                 .batch_sequences = 4}),
              HealthChange::kNone);
  }
  EXPECT_FALSE(AnyoneIsEjected());
}

TEST_F(WorkerHealthTest, LargeBatchesAreComparedWithLargeOnes) {
  JoinRamped(3);
  for (int i = 0; i < 10; ++i) {
    AdvanceMs(16 * 8 * kUnitMs);
    for (uint64_t n = 2; n <= 3; ++n) {
      Decode(n, kUnitMs, 1);
      Decode(n, 12 * kUnitMs, 16);
    }
    EXPECT_EQ(Decode(1, 12 * kUnitMs, 16), HealthChange::kNone);
  }
  EXPECT_FALSE(AnyoneIsEjected());
}

TEST_F(WorkerHealthTest, LongPromptsAreComparedWithLongOnes) {
  JoinRamped(3, WorkerRole::kPrefill);
  HealthChange change = HealthChange::kNone;
  for (int i = 0; i < 10; ++i) {
    AdvanceMs(1'000);
    for (uint64_t n = 2; n <= 3; ++n) {
      Prefill(n, 1'000, 100);
      Prefill(n, 4, 8);
    }
    EXPECT_EQ(Prefill(1, 5, 10), HealthChange::kNone) << "20 times as long for a token as in a long prompt";
  }
  for (int i = 0; i < kSlowSamples; ++i) {
    AdvanceMs(1'000);
    for (uint64_t n = 2; n <= 3; ++n) Prefill(n, 1'000, 100);
    change = Prefill(1, 900, 1'000);
  }
  EXPECT_EQ(change, HealthChange::kEjected);
}

TEST_F(WorkerHealthTest, PeersThatHaveLongBeenIdleAreNoMeasure) {
  JoinRamped(3);
  PeersDecode(3, 2'000);
  AdvanceMs(kFreshMs + 1);
  for (int i = 0; i < 10; ++i) {
    AdvanceMs(8 * 10 * kUnitMs);
    EXPECT_EQ(Decode(1, 10 * kUnitMs), HealthChange::kNone);
  }
}

TEST_F(WorkerHealthTest, AtMostAThirdIsEjected) {
  JoinRamped(6);
  std::vector<uint64_t> slow = {1, 2, 3};
  for (int i = 0; i < 10; ++i) {
    for (int step = 0; step < 10; ++step) {
      AdvanceMs(8 * kUnitMs);
      for (uint64_t n = 4; n <= 6; ++n) Decode(n, kUnitMs);
    }
    for (const uint64_t n : slow) Decode(n, 10 * kUnitMs);
  }
  EXPECT_TRUE(health_.IsEjected(MakeWorkerId(1)));
  EXPECT_TRUE(health_.IsEjected(MakeWorkerId(2)));
  EXPECT_FALSE(health_.IsEjected(MakeWorkerId(3)));
}

TEST_F(WorkerHealthTest, AnEjectedWorkerGetsOneTrialAtATime) {
  JoinRamped(3);
  SlowSamples(3, 10, kSlowSamples);
  SetJobs(1, 1);
  AdvanceMs(kTrialIntervalMs);
  EXPECT_THAT(Ejected(), ElementsAre(1)) << "what it had still runs";
  SetJobs(1, 0);
  EXPECT_THAT(Ejected(), IsEmpty());
  health_.OnPlaced(MakeWorkerId(1));
  EXPECT_THAT(Ejected(), ElementsAre(1));
  AdvanceMs(kTrialIntervalMs);
  EXPECT_THAT(Ejected(), IsEmpty());
  EXPECT_TRUE(health_.IsEjected(MakeWorkerId(1)));
}

TEST_F(WorkerHealthTest, FastTrialsBringItBackAndItRampsUp) {
  JoinRamped(3);
  SlowSamples(3, 10, kSlowSamples);
  EXPECT_EQ(SlowSamples(3, 1, kFastSamples - 1), HealthChange::kNone);
  EXPECT_EQ(SlowSamples(3, 5, 1), HealthChange::kNone);
  EXPECT_EQ(SlowSamples(3, 1, kFastSamples - 1), HealthChange::kNone) << "the row begins anew";
  EXPECT_EQ(SlowSamples(3, 1, 1), HealthChange::kReturned);
  EXPECT_FALSE(AnyoneIsEjected());
  SetJobs(1, 1);
  EXPECT_THAT(Ramping(), ElementsAre(1));
}

TEST_F(WorkerHealthTest, ATrialRunsAloneAndItsPeersRunBatches) {
  JoinRamped(3);
  SlowSamples(3, 10, kSlowSamples);
  // A batch of 4 takes kUnitMs. Alone, the worker takes 1.5 times that: as slow as it was.
  for (int i = 0; i < 5; ++i) {
    PeersDecode(3, 8 * kUnitMs);
    EXPECT_EQ(Decode(1, kUnitMs * 3 / 2, 1), HealthChange::kNone);
  }
  EXPECT_TRUE(health_.IsEjected(MakeWorkerId(1)));
  for (int i = 0; i < kFastSamples; ++i) {
    PeersDecode(3, 8 * kUnitMs);
    Decode(1, kUnitMs / 2, 1);
  }
  EXPECT_FALSE(health_.IsEjected(MakeWorkerId(1)));
}

TEST_F(WorkerHealthTest, AnEjectionOfWhichNothingIsHeardEnds) {
  JoinRamped(3);
  SlowSamples(3, 10, kSlowSamples);
  AdvanceMs(kMaxEjectedMs / 2);
  PeersDecode(3, 2'000);
  Decode(1, 10 * kUnitMs);
  AdvanceMs(kMaxEjectedMs - 1);
  EXPECT_TRUE(health_.IsEjected(MakeWorkerId(1))) << "a slow trial keeps it away";
  AdvanceMs(1);
  EXPECT_FALSE(health_.IsEjected(MakeWorkerId(1)));
  SetJobs(1, 1);
  EXPECT_THAT(Ramping(), ElementsAre(1));
}

TEST_F(WorkerHealthTest, AWorkerThatJoinsOthersGetsAGrowingShare) {
  JoinRamped(2);
  Join(3);
  EXPECT_THAT(Ramping(), IsEmpty()) << "at least one";
  SetJobs(3, 1);
  EXPECT_THAT(Ramping(), ElementsAre(3));
  AdvanceMs(kRampUpMs / 2);
  EXPECT_THAT(Ramping(), IsEmpty());
  SetJobs(3, 8);
  EXPECT_THAT(Ramping(), ElementsAre(3)) << "half of its 16 sequences";
  AdvanceMs(kRampUpMs / 2);
  EXPECT_THAT(Ramping(), IsEmpty());
}

TEST_F(WorkerHealthTest, WorkersThatJoinTogetherDoNotRampUp) {
  for (uint64_t n = 1; n <= 4; ++n) {
    Join(n);
    AdvanceMs(100);
    SetJobs(n, 10);
  }
  EXPECT_THAT(Ramping(), IsEmpty());
}

TEST_F(WorkerHealthTest, AWorkerWithoutPeersDoesNotRampUp) {
  JoinRamped(2, WorkerRole::kPrefill);
  Join(3);
  SetJobs(3, 10);
  EXPECT_THAT(Ramping(), IsEmpty());
}

}  // namespace
}  // namespace baton::router
