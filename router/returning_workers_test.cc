#include "router/returning_workers.h"

#include <vector>

#include "common/limits.h"
#include "gmock/gmock.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kReturnMs = 1'000;
constexpr TimeNs kReturnNs = kReturnMs * kNsPerMs;

WorkerInfo Of(uint64_t n, WorkerRole role, const char* fingerprint = "f") {
  WorkerInfo info = MakeWorker(n, role);
  info.fingerprint = fingerprint;
  return info;
}

class ReturningWorkersTest : public ::testing::Test {
 protected:
  // For pairs, solo and local attempts without a bias.
  std::vector<TimeNs> Until() const {
    const auto all = returning_.ExpectedUntil(registry_);
    return {all.begin(), all.begin() + kAttemptKinds};
  }

  WorkerRegistry registry_;
  ReturningWorkers returning_{kReturnMs};
};

TEST_F(ReturningWorkersTest, AKindIsExpectedWhileLostWorkersMakeItUp) {
  EXPECT_THAT(Until(), ElementsAre(0, 0, 0));
  returning_.OnLost(Of(1, WorkerRole::kPrefill), 10);
  EXPECT_THAT(Until(), ElementsAre(0, kReturnNs + 10, 0));
  returning_.OnLost(Of(2, WorkerRole::kDecode, "g"), 20);
  EXPECT_THAT(Until(), ElementsAre(0, kReturnNs + 10, kReturnNs + 20)) << "two fingerprints make no pair";
  returning_.OnLost(Of(3, WorkerRole::kDecode), 30);
  EXPECT_THAT(Until(), ElementsAre(kReturnNs + 10, kReturnNs + 10, kReturnNs + 30))
      << "a pair is complete until the first of it is overdue";
  returning_.OnLost(Of(4, WorkerRole::kMixed), 40);
  EXPECT_THAT(Until(), ElementsAre(kReturnNs + 40, kReturnNs + 40, kReturnNs + 40));
}

TEST_F(ReturningWorkersTest, ForABiasOnlyThoseCountThatKnowIt) {
  const auto until = [this] {
    return returning_.ExpectedUntil(registry_)[JobNeeds{.features = kFeatureOfBias}.job_class()];
  };
  WorkerInfo former = Of(1, WorkerRole::kMixed);
  former.job_features = kFeatureOfGrammar;
  returning_.OnLost(former, 10);
  EXPECT_EQ(Until()[static_cast<size_t>(AttemptKind::kPair)], kReturnNs + 10);
  EXPECT_EQ(until(), 0);
  returning_.OnLost(Of(2, WorkerRole::kDecode), 20);
  EXPECT_EQ(until(), 0);
  returning_.OnLost(Of(3, WorkerRole::kPrefill), 30);
  EXPECT_EQ(until(), kReturnNs + 20);
}

TEST_F(ReturningWorkersTest, ServingWorkersCompleteThoseThatAreExpected) {
  ASSERT_TRUE(registry_.Join(Of(1, WorkerRole::kPrefill), 0).ok());
  returning_.OnLost(Of(2, WorkerRole::kDecode), 10);
  EXPECT_EQ(Until()[static_cast<size_t>(AttemptKind::kPair)], kReturnNs + 10);
  registry_.Heartbeat(MakeWorkerId(1), {.state = WorkerState::kDraining}, 0);
  EXPECT_EQ(Until()[static_cast<size_t>(AttemptKind::kPair)], 0);
}

TEST_F(ReturningWorkersTest, ALostWorkerIsForgottenWhenItsSuccessorJoinsOrWhenItIsOverdue) {
  returning_.OnLost(Of(1, WorkerRole::kMixed), 10);
  returning_.OnLost(Of(2, WorkerRole::kMixed), 20);
  returning_.OnJoined(Of(3, WorkerRole::kDecode));
  returning_.OnJoined(Of(4, WorkerRole::kMixed, "g"));
  EXPECT_EQ(returning_.NextExpiry(), kReturnNs + 10) << "these replace neither";
  returning_.OnJoined(Of(5, WorkerRole::kMixed));
  EXPECT_EQ(returning_.NextExpiry(), kReturnNs + 20);
  returning_.Expire(kReturnNs + 19);
  EXPECT_FALSE(returning_.empty());
  returning_.Expire(kReturnNs + 20);
  EXPECT_TRUE(returning_.empty());
  EXPECT_EQ(returning_.NextExpiry(), kNever);
}

TEST_F(ReturningWorkersTest, AProcessThatWasLostTwiceCountsOnce) {
  const WorkerInfo first = Of(1, WorkerRole::kMixed);
  WorkerInfo again = Of(2, WorkerRole::kMixed);
  again.incarnation = first.incarnation;
  again.resumes = first.id;
  returning_.OnLost(first, 10);
  returning_.OnLost(again, 20);
  EXPECT_EQ(returning_.Everybody(registry_).workers().size(), 1u);
}

TEST_F(ReturningWorkersTest, AnAnnouncedWorkerIsExpectedOnceUntilItJoinsOrIsAnnouncedNoMore) {
  const WorkerInfo first = Of(1, WorkerRole::kMixed);
  const WorkerInfo second = Of(2, WorkerRole::kMixed);
  returning_.OnAnnounced({first, second}, registry_, 10);
  EXPECT_THAT(Until(), ElementsAre(kReturnNs + 10, kReturnNs + 10, kReturnNs + 10));
  ASSERT_TRUE(registry_.Join(second, 0).ok());
  returning_.OnJoined(second);
  EXPECT_FALSE(returning_.empty()) << "the other one is still to come";
  returning_.OnAnnounced({second}, registry_, 20);
  EXPECT_TRUE(returning_.empty());
}

TEST_F(ReturningWorkersTest, AnAnnouncedWorkerThatDoesNotComeIsNotExpectedAgain) {
  returning_.OnAnnounced({Of(1, WorkerRole::kMixed)}, registry_, 10);
  returning_.Expire(kReturnNs + 10);
  returning_.OnAnnounced({Of(1, WorkerRole::kMixed), Of(2, WorkerRole::kDecode)}, registry_, 2 * kReturnNs);
  EXPECT_EQ(returning_.Everybody(registry_).workers().size(), 1u) << "worker 2 alone";
}

TEST_F(ReturningWorkersTest, MembersAndNonsenseAreNotExpected) {
  ASSERT_TRUE(registry_.Join(Of(1, WorkerRole::kMixed), 0).ok());
  WorkerInfo member = Of(1, WorkerRole::kMixed);
  member.id = MakeWorkerId(101);
  WorkerInfo nonsense = Of(2, WorkerRole::kMixed);
  nonsense.total_blocks = 0;
  returning_.OnAnnounced({member, nonsense}, registry_, 10);
  EXPECT_TRUE(returning_.empty());
}

TEST_F(ReturningWorkersTest, AnAnnouncedSuccessorReplacesTheLostWorkerWhenItJoins) {
  returning_.OnLost(Of(1, WorkerRole::kMixed), 10);
  returning_.OnAnnounced({Of(1, WorkerRole::kMixed), Of(2, WorkerRole::kMixed)}, registry_, 20);
  EXPECT_EQ(returning_.Everybody(registry_).workers().size(), 2u) << "a lost worker whose entry lives on counts once";
  returning_.OnJoined(Of(2, WorkerRole::kMixed));
  EXPECT_TRUE(returning_.empty());
}

TEST_F(ReturningWorkersTest, ALostWorkerIsExpectedAlsoWhenItsEntryIsGone) {
  returning_.OnAnnounced({Of(1, WorkerRole::kMixed)}, registry_, 10);
  returning_.OnJoined(Of(1, WorkerRole::kMixed));
  returning_.OnLost(Of(1, WorkerRole::kMixed), 20);
  returning_.OnAnnounced({}, registry_, 30);
  EXPECT_EQ(returning_.NextExpiry(), kReturnNs + 20);
}

TEST_F(ReturningWorkersTest, AJoinedWorkerTakesNoOtherAnnouncedWorkersPlace) {
  returning_.OnAnnounced({Of(1, WorkerRole::kMixed)}, registry_, 10);
  returning_.OnJoined(Of(2, WorkerRole::kMixed));
  EXPECT_EQ(returning_.NextExpiry(), kReturnNs + 10);
}

TEST_F(ReturningWorkersTest, AnnouncedWorkersAreBounded) {
  std::vector<WorkerInfo> many;
  for (uint64_t n = 0; n <= kMaxWorkers; ++n) many.push_back(Of(n + 1, WorkerRole::kMixed));
  returning_.OnAnnounced(many, registry_, 10);
  EXPECT_EQ(returning_.Everybody(registry_).workers().size(), static_cast<size_t>(kMaxWorkers));
}

TEST_F(ReturningWorkersTest, LostWorkersAreBounded) {
  for (uint64_t n = 0; n <= kMaxWorkers; ++n) returning_.OnLost(Of(n + 1, WorkerRole::kMixed), static_cast<TimeNs>(n));
  EXPECT_EQ(returning_.NextExpiry(), kReturnNs + 1) << "the first one has made room";
}

}  // namespace
}  // namespace baton::router
