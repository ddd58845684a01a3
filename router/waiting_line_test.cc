#include "router/waiting_line.h"

#include <deque>
#include <memory>
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
  void Add(TimeNs submitted, int prompt_tokens = 10) {
    DispatchJob& job = jobs_.emplace_back();
    job.spec = MakeJob(jobs_.size(), {.prompt_tokens = prompt_tokens});
    job.place_in_line = jobs_.size() - 1;
    job.marks.arrived = submitted;
    line_.Add(job);
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

}  // namespace
}  // namespace baton::router
