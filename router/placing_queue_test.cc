#include "router/placing_queue.h"

#include <vector>

#include "common/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PlacingQueueTest : public ::testing::Test {
 protected:
  PlacingQueueTest() : queue_(options_, clock_, registry_, ledger_, health_) {}

  void JoinPair() {
    ASSERT_TRUE(registry_.Join(MakeWorker(1, WorkerRole::kPrefill), clock_.Now()).ok());
    ASSERT_TRUE(registry_.Join(MakeWorker(2, WorkerRole::kDecode), clock_.Now()).ok());
    queue_.OnWorkersChanged();
  }
  DispatchJob& Add(uint64_t n) {
    DispatchJob& job = jobs_[n];
    job.spec = MakeJob(n);
    job.place_in_line = n;
    job.marks.arrived = clock_.Now();
    queue_.Add(job);
    return job;
  }
  // The numbers of the jobs that the queue starts now.
  std::vector<uint64_t> Place(bool has_room = true) {
    std::vector<uint64_t> started;
    queue_.PlaceJobs([&] { return has_room; }, [&](DispatchJob& job) { started.push_back(job.spec->id.low); },
                     [](DispatchJob& job) { ADD_FAILURE() << "refused " << job.spec->id.low; });
    return started;
  }

  PlacingOptions options_;
  ManualClock clock_;
  WorkerRegistry registry_;
  CallLedger ledger_;
  SeededRandom random_{1};
  ClusterHealth health_{clock_, random_, registry_};
  PlacingQueue queue_;
  std::map<uint64_t, DispatchJob> jobs_;
};

TEST_F(PlacingQueueTest, AStartedJobHasItsPairAndIsOutOfTheQueue) {
  const DispatchJob& job = Add(1);
  EXPECT_THAT(Place(), IsEmpty()) << "there are no workers";
  JoinPair();
  EXPECT_THAT(Place(), ElementsAre(1));
  EXPECT_EQ(job.pair.prefill, MakeWorkerId(1));
  EXPECT_EQ(job.pair.decode, MakeWorkerId(2));
  EXPECT_EQ(job.kind, AttemptKind::kPair);
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(PlacingQueueTest, NothingIsTriedAgainUntilRoomChanges) {
  JoinPair();
  Add(1);
  EXPECT_THAT(Place(/*has_room=*/false), IsEmpty());
  EXPECT_THAT(Place(), IsEmpty());
  queue_.OnRoomChanged();
  EXPECT_THAT(Place(), ElementsAre(1));
}

TEST_F(PlacingQueueTest, ARefusedJobAvoidsItsWorkerUntilTheBackoffOrRoomThere) {
  JoinPair();
  DispatchJob& job = Add(1);
  const auto refuse = [&] {
    ASSERT_THAT(Place(), ElementsAre(1));
    queue_.OnRefusal(job, MakeWorkerId(2));
    queue_.Add(job);
    ASSERT_THAT(Place(), IsEmpty());
  };
  refuse();
  queue_.OnRoomChanged(MakeWorkerId(1));
  EXPECT_THAT(Place(), IsEmpty()) << "room came at the other worker";
  queue_.OnRoomChanged(MakeWorkerId(2));
  refuse();
  EXPECT_EQ(queue_.NextTimer(), clock_.Now() + options_.refusal_backoff_ms * kNsPerMs);
  clock_.Set(queue_.NextTimer());
  queue_.OnTimer();
  EXPECT_THAT(Place(), ElementsAre(1));
}

TEST_F(PlacingQueueTest, JobsWithoutWorkersAreGivenUpInTime) {
  DispatchJob& job = Add(1);
  EXPECT_THAT(queue_.UnservedJobs(), IsEmpty());
  EXPECT_EQ(queue_.NextTimer(), clock_.Now() + options_.no_worker_wait_ms * kNsPerMs);
  clock_.Set(queue_.NextTimer());
  EXPECT_THAT(queue_.UnservedJobs(), ElementsAre(&job));
}

TEST_F(PlacingQueueTest, ARoundInWhichManyFitServesEachTenant) {
  JoinPair();
  for (uint64_t n = 1; n <= 16; ++n) {
    DispatchJob& job = jobs_[n];
    job.spec = MakeJob(n, {.prompt_tokens = 800, .tenant = n <= 14 ? "flood" : "few"});
    job.place_in_line = n;
    job.marks.arrived = clock_.Now();
    queue_.Add(job);
  }
  // Each costs more than 800.
  EXPECT_THAT(Place(), ::testing::ElementsAreArray({1, 2, 3, 15, 4, 16, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
}

}  // namespace
}  // namespace baton::router
