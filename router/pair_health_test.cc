#include "router/pair_health.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <vector>

#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PairHealthTest : public ::testing::Test {
 protected:
  static Pair PairOf(uint64_t prefill, uint64_t decode) {
    return {.prefill = MakeWorkerId(prefill), .decode = MakeWorkerId(decode)};
  }
  void Join(std::initializer_list<uint64_t> workers, WorkerRole role) {
    for (const uint64_t n : workers) ASSERT_TRUE(registry_.Join(MakeWorker(n, role), clock_.Now()).ok());
  }
  // Prefill workers 1 and 2, decode workers 11 and 12.
  void JoinTwoByTwo() {
    Join({1, 2}, WorkerRole::kPrefill);
    Join({11, 12}, WorkerRole::kDecode);
  }
  bool Fail(const Pair& pair) { return health_.OnFailed(pair, clock_.Now()); }
  void AdvanceMs(int64_t ms) { clock_.Advance(ms * kNsPerMs); }
  // How long the pair is avoided from now on, to the millisecond.
  int64_t AvoidedMs(const Pair& pair) {
    int64_t ms = 0;
    for (; ms <= 2 * kMaxAvoidMs; ++ms, AdvanceMs(1)) {
      const std::vector<Pair> avoided = health_.Avoided();
      if (std::find(avoided.begin(), avoided.end(), pair) == avoided.end()) break;
    }
    return ms;
  }

  ManualClock clock_;
  SeededRandom random_{7};
  WorkerRegistry registry_;
  PairHealth health_{clock_, random_, registry_};
};

TEST_F(PairHealthTest, AFailedHandOffIsThePairsAndNotItsWorkers) {
  JoinTwoByTwo();
  EXPECT_TRUE(Fail(PairOf(1, 11)));
  EXPECT_THAT(health_.Avoided(), ElementsAre(PairOf(1, 11)));
  EXPECT_FALSE(health_.AtFault(MakeWorkerId(1)));
  EXPECT_FALSE(health_.AtFault(MakeWorkerId(11)));
}

TEST_F(PairHealthTest, TheTimesDoubleUpToABoundAndAreSpread) {
  JoinTwoByTwo();
  int64_t nominal_ms = kMinAvoidMs;
  std::set<int64_t> shares;
  for (int failures = 0; failures < 12; ++failures) {
    Fail(PairOf(1, 11));
    const int64_t avoided_ms = AvoidedMs(PairOf(1, 11));
    EXPECT_GE(avoided_ms, nominal_ms * 3 / 4);
    EXPECT_LE(avoided_ms, nominal_ms * 5 / 4 + 1);
    shares.insert(avoided_ms * 100 / nominal_ms);
    nominal_ms = std::min(2 * nominal_ms, kMaxAvoidMs);
  }
  EXPECT_GT(shares.size(), 4u);
}

TEST_F(PairHealthTest, ManyFailuresAtOnceAreOne) {
  JoinTwoByTwo();
  const TimeNs placed = clock_.Now();
  AdvanceMs(100);
  for (int i = 0; i < 20; ++i) health_.OnFailed(PairOf(1, 11), placed);
  EXPECT_LE(AvoidedMs(PairOf(1, 11)), kMinAvoidMs * 5 / 4 + 1);
}

TEST_F(PairHealthTest, ASingleJobTriesAPairWhoseTimeIsOver) {
  JoinTwoByTwo();
  Fail(PairOf(1, 11));
  AvoidedMs(PairOf(1, 11));
  health_.OnPlaced(PairOf(1, 11));
  EXPECT_THAT(health_.Avoided(), ElementsAre(PairOf(1, 11))) << "the trial is under way";
  EXPECT_LE(AvoidedMs(PairOf(1, 11)), kMinAvoidMs * 5 / 4 + 1) << "it had no result, so the next one is not later";
}

TEST_F(PairHealthTest, AJobThatHadNoOtherPairIsNoTrial) {
  JoinTwoByTwo();
  Fail(PairOf(1, 11));
  AdvanceMs(kMinAvoidMs / 2);
  health_.OnPlaced(PairOf(1, 11));
  EXPECT_LE(AvoidedMs(PairOf(1, 11)), kMinAvoidMs * 3 / 4 + 1);
}

TEST_F(PairHealthTest, OnlyTheHandOffOfALaterAttemptClearsThePair) {
  JoinTwoByTwo();
  const TimeNs before = clock_.Now();
  AdvanceMs(5);
  Fail(PairOf(1, 11));
  EXPECT_FALSE(health_.OnHandedOver(PairOf(1, 11), before));
  EXPECT_THAT(health_.Avoided(), SizeIs(1));
  EXPECT_TRUE(health_.OnHandedOver(PairOf(1, 11), clock_.Now()));
  EXPECT_THAT(health_.Avoided(), IsEmpty());
  Fail(PairOf(1, 11));
  EXPECT_LE(AvoidedMs(PairOf(1, 11)), kMinAvoidMs * 5 / 4 + 1) << "it begins anew";
}

TEST_F(PairHealthTest, AWorkerIsAtFaultThatIsGoodWithNobodyWhileItsPartnersAreGoodWithOthers) {
  JoinTwoByTwo();
  Fail(PairOf(1, 11));
  EXPECT_FALSE(health_.AtFault(MakeWorkerId(1)));
  Fail(PairOf(1, 12));
  EXPECT_TRUE(health_.AtFault(MakeWorkerId(1)));
  EXPECT_FALSE(health_.AtFault(MakeWorkerId(11)));
  Fail(PairOf(2, 11));
  EXPECT_FALSE(health_.AtFault(MakeWorkerId(1))) << "worker 11 is good with nobody either";
}

TEST_F(PairHealthTest, WithoutOtherPartnersNobodySaysWhoseFaultItIs) {
  Join({1}, WorkerRole::kPrefill);
  Join({11, 12}, WorkerRole::kDecode);
  Fail(PairOf(1, 11));
  Fail(PairOf(1, 12));
  EXPECT_FALSE(health_.AtFault(MakeWorkerId(1)));
  EXPECT_FALSE(health_.AtFault(MakeWorkerId(11)));
}

TEST_F(PairHealthTest, ANewPartnerOfAWorkerAtFaultIsTried) {
  JoinTwoByTwo();
  Fail(PairOf(1, 11));
  Fail(PairOf(1, 12));
  Join({13}, WorkerRole::kDecode);
  EXPECT_FALSE(health_.AtFault(MakeWorkerId(1)));
  EXPECT_THAT(health_.Avoided(), ElementsAre(PairOf(1, 11), PairOf(1, 12)));
}

TEST_F(PairHealthTest, AWorkerAtFaultIsTriedWithOnePartnerAtATime) {
  JoinTwoByTwo();
  Fail(PairOf(1, 11));
  Fail(PairOf(1, 12));
  AdvanceMs(2 * kMinAvoidMs);
  ASSERT_THAT(health_.Avoided(), IsEmpty());
  health_.OnPlaced(PairOf(1, 11));
  EXPECT_THAT(health_.Avoided(), ElementsAre(PairOf(1, 11), PairOf(1, 12)));
}

TEST_F(PairHealthTest, PairsOfWorkersThatAreNotAtFaultAreTriedByThemselves) {
  JoinTwoByTwo();
  Fail(PairOf(1, 11));
  Fail(PairOf(2, 12));
  AdvanceMs(2 * kMinAvoidMs);
  health_.OnPlaced(PairOf(1, 11));
  EXPECT_THAT(health_.Avoided(), ElementsAre(PairOf(1, 11)));
}

TEST_F(PairHealthTest, OnlyPairsOfMembersAreKept) {
  JoinTwoByTwo();
  EXPECT_FALSE(Fail(PairOf(1, 99)));
  EXPECT_EQ(health_.size(), 0u);
  Fail(PairOf(1, 11));
  Fail(PairOf(2, 11));
  Fail(PairOf(2, 12));
  registry_.Leave(MakeWorkerId(11));
  health_.OnWorkerLost(MakeWorkerId(11));
  EXPECT_EQ(health_.size(), 1u);
  EXPECT_THAT(health_.BadPartners(MakeWorkerId(12)), ElementsAre(MakeWorkerId(2)));
}

}  // namespace
}  // namespace baton::router
