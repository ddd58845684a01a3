#include "router/waiting_line.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kTargetNs = 1000;

class WaitingLineTest : public ::testing::Test {
 protected:
  // Jobs are named by their place: 0, 1, ...
  DispatchJob& Add(TimeNs submitted, int prompt_tokens = 10, const std::string& tenant = "") {
    DispatchJob& job = jobs_.emplace_back();
    job.spec = MakeJob(jobs_.size(), {.prompt_tokens = prompt_tokens, .tenant = tenant});
    job.place_in_line = jobs_.size() - 1;
    job.marks.arrived = submitted;
    line_.Add(job);
    return job;
  }
  DispatchJob& AddWithPriority(TimeNs submitted, int32_t priority, const std::string& tenant = "") {
    DispatchJob& job = jobs_.emplace_back();
    auto spec = std::make_shared<JobSpec>(*MakeJob(jobs_.size(), {.prompt_tokens = 10, .tenant = tenant}));
    spec->priority = priority;
    job.spec = spec;
    job.place_in_line = jobs_.size() - 1;
    job.marks.arrived = submitted;
    line_.Add(job);
    return job;
  }
  DispatchJob& AddWithDeadline(TimeNs submitted, TimeNs deadline) {
    DispatchJob& job = jobs_.emplace_back();
    job.spec = MakeJob(jobs_.size(), {.prompt_tokens = 10, .deadline = deadline});
    job.place_in_line = jobs_.size() - 1;
    job.marks.arrived = submitted;
    line_.Add(job);
    return job;
  }
  static JobSpec SpecWithPriority(int32_t priority, const std::string& tenant = "") {
    JobSpec spec = *MakeJob(1'000, {.prompt_tokens = 10, .tenant = tenant});
    spec.priority = priority;
    return spec;
  }
  std::vector<uint64_t> Order() const {
    std::vector<uint64_t> order;
    for (const auto& [key, job] : line_.jobs()) order.push_back(job->place_in_line);
    return order;
  }
  // A prompt took `ns` for each token that had to be computed.
  void SawNsPerToken(int64_t ns) { line_.OnFirstToken(ns * 64, 64); }
  std::vector<uint64_t> Order(TimeNs now, int64_t tokens_ahead = 0) {
    line_.Rank(now, tokens_ahead);
    return Order();
  }

  // A deque, because the line keeps the jobs' addresses.
  std::deque<DispatchJob> jobs_;
  WaitingLine line_{kTargetNs};
};

TEST_F(WaitingLineTest, JobsThatAreOnTimeStayInOrder) {
  Add(0);
  Add(100);
  EXPECT_THAT(Order(1000), ElementsAre(0, 1));
}

TEST_F(WaitingLineTest, AJobPastTheTargetLetsThoseGoFirstThatAreNot) {
  Add(0);
  Add(100);
  Add(200);
  EXPECT_THAT(Order(1100), ElementsAre(1, 2, 0));
  EXPECT_THAT(Order(1101), ElementsAre(2, 0, 1)) << "late ones stay in order of submission";
}

TEST_F(WaitingLineTest, AJobIsLateAsSoonAsItsFirstTokenWouldBe) {
  SawNsPerToken(10);
  Add(0);
  Add(500);
  EXPECT_THAT(Order(900), ElementsAre(0, 1)) << "100 ns for its own 10 tokens";
  EXPECT_THAT(Order(900, 1), ElementsAre(1, 0)) << "and 10 for one that is computed before";
}

TEST_F(WaitingLineTest, TheEstimateFollowsWhatPromptsTake) {
  SawNsPerToken(1);
  Add(0);
  Add(500);
  for (int i = 0; i < 50; ++i) SawNsPerToken(40);
  EXPECT_THAT(Order(700), ElementsAre(1, 0));
}

TEST_F(WaitingLineTest, AJobThatWaitedForManyTargetsGoesFirst) {
  Add(0);
  EXPECT_THAT(Order(1001), ElementsAre(0));
  Add(3500);
  EXPECT_THAT(Order(3999), ElementsAre(1, 0));
  EXPECT_THAT(Order(kMaxLateTargets * kTargetNs), ElementsAre(0, 1));
}

TEST_F(WaitingLineTest, AJobThatComesBackHasItsRankAgain) {
  Add(0);
  Add(900);
  EXPECT_THAT(Order(1001), ElementsAre(1, 0));
  line_.Remove(jobs_[0]);
  Add(1000);
  line_.Add(jobs_[0]);
  EXPECT_THAT(Order(), ElementsAre(1, 2, 0));
}

TEST_F(WaitingLineTest, AJobThatGrewOldOnTimeIsOverdueAtOnce) {
  Add(0);
  Add(3500);
  EXPECT_THAT(Order(kMaxLateTargets * kTargetNs), ElementsAre(0, 1));
}

TEST_F(WaitingLineTest, AHurriedJobGoesFirst) {
  Add(0);
  Add(10);
  line_.Hurry(jobs_[1]);
  EXPECT_THAT(Order(20), ElementsAre(1, 0));
}

TEST_F(WaitingLineTest, AShortPromptThatTookLongCountsForItsTokensAlone) {
  for (int i = 0; i < 10; ++i) SawNsPerToken(1);
  line_.OnFirstToken(640, 1);
  Add(0);
  Add(500);
  EXPECT_THAT(Order(950), ElementsAre(0, 1)) << "10 tokens take 24 ns and not 800";
}

TEST_F(WaitingLineTest, WithoutATargetTheOrderIsThatOfSubmission) {
  WaitingLine line(0);
  DispatchJob first;
  DispatchJob second;
  second.place_in_line = 1;
  second.marks.arrived = kNsPerSecond;
  for (DispatchJob* job : {&first, &second}) {
    job->spec = MakeJob(1);
    line.Add(*job);
  }
  line.Rank(kNsPerSecond, 1'000'000);
  EXPECT_EQ(line.jobs().begin()->second, &first);
}

TEST_F(WaitingLineTest, AJobOfLowerPriorityLetsOthersGoFirst) {
  AddWithPriority(0, -1);
  AddWithPriority(0, -2);
  AddWithPriority(0, 0);
  AddWithPriority(0, -1);
  AddWithPriority(0, 0);
  EXPECT_THAT(Order(), ElementsAre(2, 4, 0, 3, 1));
  EXPECT_THAT(Order(1'001), ElementsAre(2, 4, 0, 3, 1)) << "a late job goes before all of lower priority";
}

TEST_F(WaitingLineTest, AJobOfLowerPriorityGoesFirstOnceItHasWaitedLongEnough) {
  for (const int64_t target_ns : {int64_t{0}, 2 * kMaxSteppedBackMs * kNsPerMs}) {
    WaitingLine line(target_ns);
    jobs_.clear();
    DispatchJob& low = AddWithPriority(0, -8);
    DispatchJob& high = AddWithPriority(kMaxSteppedBackMs * kNsPerMs, 0);
    for (DispatchJob* job : {&low, &high}) {
      line_.Remove(*job);
      line.Add(*job);
    }
    line.Rank(kMaxSteppedBackMs * kNsPerMs - 1, 0);
    EXPECT_EQ(line.jobs().begin()->second, &high);
    line.Rank(kMaxSteppedBackMs * kNsPerMs, 0);
    EXPECT_EQ(line.jobs().begin()->second, &low);
  }
}

TEST_F(WaitingLineTest, JobsThatWaitedLongEnoughGoInOrderOfSubmissionWhateverTheirPriority) {
  AddWithPriority(0, -1);
  AddWithPriority(1, 0);
  line_.Hurry(jobs_[1]);
  line_.Hurry(jobs_[0]);
  EXPECT_THAT(Order(), ElementsAre(0, 1));
}

TEST_F(WaitingLineTest, PrioritySavesNoTenantFromYielding) {
  DispatchJob& placed = Add(0, kQuantumTokens, "much");
  AddWithPriority(0, 0, "much");
  AddWithPriority(0, -8, "little");
  line_.OnPlaced(placed, {.cost = placed.waiting_cost});
  line_.Remove(placed);
  EXPECT_TRUE(line_.TakeTurns());
  EXPECT_THAT(Order(), ElementsAre(2, 1));
}

TEST_F(WaitingLineTest, AJobWhoseDeadlineLeavesLittleTimeOnceItIsOverdueIsNeverLate) {
  AddWithDeadline(0, 2 * kMaxLateTargets * kTargetNs - 1);
  AddWithDeadline(0, 2 * kMaxLateTargets * kTargetNs);
  AddWithDeadline(900, kNever);
  EXPECT_THAT(Order(1'001), ElementsAre(0, 2, 1));
}

TEST_F(WaitingLineTest, WhatIsAheadOfANewJobIsWhatGoesBeforeIt) {
  const int64_t each = line_.ExpectedCost(SpecWithPriority(0));
  Add(0);
  AddWithPriority(0, -1);
  AddWithPriority(0, -2);
  EXPECT_EQ(line_.CostAhead(SpecWithPriority(0), false), each);
  EXPECT_EQ(line_.CostAhead(SpecWithPriority(-1), false), 2 * each);
  EXPECT_EQ(line_.CostAhead(SpecWithPriority(-8), false), 3 * each);
  line_.Rank(1'001, 0);
  EXPECT_EQ(line_.CostAhead(SpecWithPriority(0), false), 0) << "the late one lets a new one go first";
  EXPECT_EQ(line_.CostAhead(SpecWithPriority(0), true), each);
  line_.Hurry(jobs_[2]);
  EXPECT_EQ(line_.CostAhead(SpecWithPriority(0), false), each) << "the hurried one does not";
  for (DispatchJob& job : jobs_) line_.Remove(job);
  EXPECT_EQ(line_.CostAhead(SpecWithPriority(-8), true), 0);
}

TEST_F(WaitingLineTest, JobsThatWaitCountAlikeHoweverLongThoseBecomeThatEnd) {
  JobSpec spec = SpecWithPriority(0);
  spec.sampling.max_tokens = 2'000;
  const int64_t before = line_.ExpectedCost(spec);
  DispatchJob& waits = Add(0);
  DispatchJob& placed = Add(0);
  line_.OnPlaced(placed, {.cost = placed.waiting_cost});
  line_.Remove(placed);
  placed.outputs.assign(1'000, 70);
  EXPECT_EQ(line_.OnEnded(placed), 0);
  EXPECT_EQ(line_.ExpectedCost(spec), before);
  line_.OnPlaced(waits, {.cost = waits.waiting_cost});
  line_.Remove(waits);
  waits.outputs.assign(1'000, 70);
  const double more = line_.OnEnded(waits);
  EXPECT_GT(more, 100);
  EXPECT_NEAR(static_cast<double>(line_.ExpectedCost(spec) - before), more, kOutputTokenCost);
}

TEST_F(WaitingLineTest, TheFloodOfAnotherTenantIsAheadOfANewJobByTheQuantumAtMost) {
  for (int i = 0; i < 100; ++i) Add(0, 1'000, "flood");
  EXPECT_LE(line_.CostAhead(SpecWithPriority(0, "few"), false), kQuantumTokens);
  EXPECT_GT(line_.CostAhead(SpecWithPriority(0, "flood"), false), 100 * 1'000);
}

TEST_F(WaitingLineTest, TheJobsOfATenantThatHasGotMoreComeLastButThoseWithOutputsDoNot) {
  DispatchJob& placed = Add(0, kQuantumTokens, "much");
  Add(0, 10, "much");
  Add(0, 10, "little");
  line_.OnPlaced(placed, {.cost = placed.waiting_cost});
  line_.Remove(placed);
  EXPECT_TRUE(line_.TakeTurns());
  EXPECT_THAT(Order(), ElementsAre(2, 1));
  placed.outputs = {70};
  line_.Add(placed);
  EXPECT_THAT(Order(), ElementsAre(0, 2, 1));
  EXPECT_FALSE(line_.TakeTurns());
}

TEST_F(WaitingLineTest, AJobThatYieldsIsRankedAmongThoseThatYield) {
  DispatchJob& placed = Add(0, kQuantumTokens, "much");
  Add(0, 10, "much");
  Add(500, 10, "much");
  Add(900, 10, "little");
  line_.OnPlaced(placed, {.cost = placed.waiting_cost});
  line_.Remove(placed);
  line_.TakeTurns();
  EXPECT_THAT(Order(1'001), ElementsAre(3, 2, 1)) << "the late one of a tenant lets its others go first";
  EXPECT_THAT(Order(4'000), ElementsAre(3, 1, 2)) << "an overdue job does not go before other tenants' jobs";
}

TEST_F(WaitingLineTest, AJobIsChargedOnceHoweverOftenItIsPlaced) {
  DispatchJob& placed = Add(0, kQuantumTokens / 2, "much");
  Add(0, 10, "much");
  Add(0, 10, "little");
  for (int attempt = 0; attempt < 5; ++attempt) {
    line_.OnPlaced(placed, {.cost = placed.waiting_cost});
    line_.Remove(placed);
    line_.Add(placed);
  }
  EXPECT_FALSE(line_.TakeTurns());
}

TEST_F(WaitingLineTest, AJobThatHasEndedHasCostWhatItReallyGave) {
  DispatchJob& placed = Add(0, kQuantumTokens, "much");
  Add(0, 10, "much");
  Add(0, 10, "little");
  line_.OnPlaced(placed, {.cost = placed.waiting_cost});
  line_.Remove(placed);
  EXPECT_TRUE(line_.TakeTurns());
  // It gave nothing, where some outputs were expected.
  line_.OnEnded(placed);
  EXPECT_TRUE(line_.TakeTurns());
  EXPECT_THAT(Order(), ElementsAre(1, 2));
}

// What the tenant's own pace says is the pace of the line where there is one tenant.
TEST_F(WaitingLineTest, AJobThatComesBackWithOutputsTellsThePaceAndARefusedOneDoesNot) {
  DispatchJob& job = Add(0);
  const auto tells_pace = [&](TimeNs now) {
    job.waits_since = now - kNsPerSecond;
    return line_.OnPlaced(job, {.cost = job.waiting_cost, .waits_since = job.waits_since, .now = now});
  };
  for (TimeNs now = kNsPerSecond; now < 10 * kNsPerSecond; now += kNsPerSecond) {
    EXPECT_EQ(tells_pace(now), now == kNsPerSecond) << "a worker has refused it";
  }
  EXPECT_EQ(line_.OwnWaitNs(*job.spec, job.waiting_cost, 10 * kNsPerSecond), 0) << "it is not known yet";
  const int64_t counter = *job.charged_cost;
  job.outputs = {7};
  for (TimeNs now = 10 * kNsPerSecond; now < 20 * kNsPerSecond; now += kNsPerSecond) EXPECT_TRUE(tells_pace(now));
  EXPECT_GT(line_.OwnWaitNs(*job.spec, job.waiting_cost, 19 * kNsPerSecond), 0);
  EXPECT_EQ(*job.charged_cost, counter) << "its tenant pays once";
}

}  // namespace
}  // namespace baton::router
