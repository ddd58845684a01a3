// Drains that an operator orders: to whom the order goes, who does not get it, and how it ends.
#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DispatcherDrainTest : public DispatcherTest {
 protected:
  absl::Status Order(uint64_t n) { return dispatcher().OrderDrain("host:" + std::to_string(n)).status(); }
  void SayDraining(uint64_t n) { dispatcher().OnWorkerLoad(MakeWorkerId(n), {.state = WorkerState::kDraining}); }
  void Leave(uint64_t n) { dispatcher().OnWorkerLost(MakeWorkerId(n), absl::UnavailableError("the worker left")); }
  DrainRecord Drain(uint64_t n) {
    const DrainRecord* record = dispatcher().drain_orders().Find(MakeIncarnation(n));
    if (record != nullptr) return *record;
    ADD_FAILURE() << "no drain of " << n;
    return {};
  }
};

TEST_F(DispatcherDrainTest, TheOrderGoesToTheNamedWorkerAlone) {
  JoinPair();
  const absl::StatusOr<WorkerId> ordered = dispatcher().OrderDrain("host:2");
  ASSERT_TRUE(ordered.ok()) << ordered.status();
  EXPECT_EQ(*ordered, MakeWorkerId(2));
  EXPECT_THAT(Actions(), ElementsAre("drain2"));
  EXPECT_EQ(Drain(2).state, DrainState::kDraining);
  EXPECT_EQ(dispatcher().drain_orders().Find(MakeIncarnation(1)), nullptr);
}

TEST_F(DispatcherDrainTest, UnknownNamesOrderNothing) {
  JoinPair();
  EXPECT_TRUE(absl::IsNotFound(Order(3)));
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(DispatcherDrainTest, AWorkerIsOrderedOnce) {
  JoinPair();
  ASSERT_TRUE(Order(2).ok());
  Actions();
  // Before it has said that it drains, and after.
  EXPECT_TRUE(absl::IsFailedPrecondition(Order(2)));
  SayDraining(2);
  EXPECT_THAT(std::string(Order(2).message()), HasSubstr("decode worker host:2 (pid 0) drains already"));
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(DispatcherDrainTest, AWorkerThatDrainsForItselfIsNotOrderedTo) {
  JoinPair();
  SayDraining(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(Order(1)));
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_EQ(dispatcher().drain_orders().Find(MakeIncarnation(1)), nullptr);
}

TEST_F(DispatcherDrainTest, AWorkerOfAFormerVersionIsNotOrderedAndServesOn) {
  WorkerInfo former = MakeWorker(1, WorkerRole::kMixed);
  former.takes_drain_orders = false;
  Join(former);
  const absl::Status refused = Order(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("takes no order to drain: send its process SIGTERM"));
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_EQ(dispatcher().drain_orders().Find(MakeIncarnation(1)), nullptr);
  Submit(1);
  EXPECT_THAT(Actions(), ElementsAre("local1 1/1"));
}

TEST_F(DispatcherDrainTest, ItHasLeftWhenItSaidThatItDrainsAndHadNoCall) {
  JoinPair();
  ASSERT_TRUE(Order(2).ok());
  SayDraining(2);
  Leave(2);
  EXPECT_EQ(Drain(2).state, DrainState::kLeft);
}

TEST_F(DispatcherDrainTest, ItIsLostWhenItHadNotBegunOrStillHadCallsOrDied) {
  for (uint64_t n = 1; n <= 3; ++n) Join(n, WorkerRole::kMixed);
  Submit(1);
  ASSERT_THAT(Actions(), ElementsAre("local1 1/1"));
  for (uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(Order(n).ok());
  // With a call.
  SayDraining(1);
  dispatcher().OnWorkerLost(MakeWorkerId(1), kBroken);
  EXPECT_EQ(Drain(1).state, DrainState::kLost);
  EXPECT_EQ(Drain(1).why, "connection reset");
  // Before the order came.
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  EXPECT_EQ(Drain(2).state, DrainState::kLost);
  // Its silence is found out by the router.
  SayDraining(3);
  RunMs(options_.worker_silence_ms + 200);
  EXPECT_EQ(Drain(3).state, DrainState::kLost);
  EXPECT_THAT(Drain(3).why, HasSubstr("not heard for"));
}

TEST_F(DispatcherDrainTest, AProcessThatJoinsAnewBeforeTheOrderReachedItIsOrderedAgain) {
  JoinPair();
  ASSERT_TRUE(Order(2).ok());
  Leave(2);
  EXPECT_EQ(Drain(2).state, DrainState::kLost);
  WorkerInfo again = MakeWorker(3, WorkerRole::kDecode);
  again.incarnation = MakeIncarnation(2);
  Join(again);
  Actions();
  ASSERT_TRUE(Order(3).ok());
  EXPECT_THAT(Actions(), ElementsAre("drain3"));
  EXPECT_EQ(Drain(2).state, DrainState::kDraining);
}

TEST_F(DispatcherDrainTest, AnOrderedWorkerGetsNothingNewOnceItSaysThatItDrains) {
  Join(1, WorkerRole::kMixed);
  Join(2, WorkerRole::kMixed);
  ASSERT_TRUE(Order(1).ok());
  SayDraining(1);
  Actions();
  Submit(1);
  Submit(2);
  EXPECT_THAT(Actions(), ElementsAre("local2 1/1", "local2 2/1"));
}

}  // namespace
}  // namespace baton::router
