#include "worker/router_links.h"

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/clock.h"
#include "common/work_note.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/testing/fake_router.h"

namespace baton::worker {
namespace {

namespace pb = internal::v1;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A worker without phases, with a link to each of two routers.
class RouterLinksTest : public ::testing::Test {
 protected:
  RouterLinksTest() : links_(Options(), calls_) { links_.Follow({first_.target(), second_.target()}); }
  ~RouterLinksTest() override { links_.Stop(); }

  RouterLink::Options Options() {
    return {.load = [] { return pb::Load(); },
            .fault =
                [this] {
                  const absl::MutexLock lock(&mutex_);
                  return fault_;
                },
            .on_fault_told =
                [this] {
                  const absl::MutexLock lock(&mutex_);
                  ++faults_told_;
                },
            .on_drain_ordered =
                [this] {
                  const absl::MutexLock lock(&mutex_);
                  ++drains_ordered_;
                },
            .post =
                [this](const std::function<void()>& task) {
                  const absl::MutexLock lock(&mutex_);
                  task();
                },
            .on_serving =
                [this](bool serving) {
                  const absl::MutexLock lock(&mutex_);
                  serving_.push_back(serving);
                }};
  }
  template <typename Holds>
  void Await(Holds holds) {
    const absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&holds), absl::Seconds(20)));
  }
  // The process begins to die of a fault.
  void Fail() {
    const absl::MutexLock lock(&mutex_);
    fault_.emplace().set_signal(11);
  }
  int faults_told() {
    const absl::MutexLock lock(&mutex_);
    return faults_told_;
  }
  // Until the worker is a member of these places.
  void AwaitMembers(const std::vector<size_t>& places) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (links_.Members() != places && absl::Now() < deadline) std::this_thread::yield();
    EXPECT_EQ(links_.Members(), places);
  }
  // Both know the worker and its load.
  void AwaitBoth() {
    for (FakeRouter* router : {&first_, &second_}) router->AwaitMessages(1);
  }

  absl::Mutex mutex_;
  std::optional<pb::Fault> fault_;
  int faults_told_ = 0;
  int drains_ordered_ = 0;
  std::vector<bool> serving_;
  WorkNote work_;
  WorkerCalls calls_{2, MonotonicClock(), work_};
  FakeRouter first_{Answer()};
  FakeRouter second_{Answer()};
  RouterLinks links_;
};

TEST_F(RouterLinksTest, AWorkerIsAMemberOfEachOfItsRoutersAndServesWhileOneHasIt) {
  AwaitBoth();
  EXPECT_THAT(links_.Members(), ElementsAre(0, 1));
  EXPECT_EQ(links_.joins(), 2);
  first_.End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the router ends"));
  first_.AwaitHellos(2);
  first_.AwaitMessages(1);
  EXPECT_EQ(second_.AwaitHellos(1).hellos.size(), 1u) << "the other membership goes on";
  links_.Stop();
  EXPECT_THAT(serving_, ElementsAre(true, false)) << "it served all the time until it left";
  EXPECT_THAT(links_.Members(), IsEmpty());
}

TEST_F(RouterLinksTest, ADrainThatOneRouterOrdersIsToldToAll) {
  AwaitBoth();
  pb::RouterMessage order;
  order.set_drain(true);
  second_.Say(order);
  Await([this] { return drains_ordered_ == 1; });
  links_.Drain();
  for (FakeRouter* router : {&first_, &second_}) {
    router->AwaitSeen([](const FakeRouter::Seen& seen) { return seen.messages.back().load().draining(); });
  }
}

TEST_F(RouterLinksTest, TheProcessMayDieWhenEveryMemberHasHeardWhy) {
  AwaitBoth();
  second_.HoldEnds();
  Fail();
  for (FakeRouter* router : {&first_, &second_}) {
    router->AwaitSeen(
        [](const FakeRouter::Seen& seen) { return seen.messages.back().has_fault() && seen.closed == 1; });
  }
  // A link loses its calls after it has said that its router knows.
  Await([this] { return !calls_.Of(0).has_joined(); });
  EXPECT_EQ(faults_told(), 0) << "the second router has not said that it has heard all";
  second_.LetEnd();
  Await([this] { return faults_told_ == 1; });
}

TEST_F(RouterLinksTest, ADyingProcessDoesNotWaitForARouterThatHasNotAcceptedIt) {
  FakeRouter silent(Answer(), /*unanswered=*/1000);
  AwaitBoth();
  links_.Stop();
  RouterLinks links(Options(), calls_);
  links.Follow({first_.target(), silent.target()});
  first_.AwaitHellos(2);
  first_.AwaitMessages(1);
  silent.AwaitHellos(1);
  Fail();
  Await([this] { return faults_told_ == 1; });
}

TEST_F(RouterLinksTest, AMembershipOutlivesTheNameOfItsRouterAndIsNotBegunAnew) {
  AwaitBoth();
  links_.Follow({second_.target()});
  EXPECT_THAT(links_.Members(), ElementsAre(0, 1));
  first_.End(grpc::Status::OK);
  AwaitMembers({1});
  EXPECT_EQ(first_.AwaitHellos(1).hellos.size(), 1u);
  links_.Follow({first_.target(), second_.target()});
  first_.AwaitHellos(2);
  AwaitMembers({0, 1});
  EXPECT_EQ(second_.AwaitHellos(1).hellos.size(), 1u) << "the other membership goes on";
}

TEST_F(RouterLinksTest, ARouterThatIsNamedLaterTakesThePlaceOfOneThatIsGone) {
  FakeRouter third(Answer());
  AwaitBoth();
  links_.Follow({second_.target(), third.target()});
  EXPECT_TRUE(third.AwaitHellos(0).hellos.empty()) << "the worker is a member at both places";
  first_.End(grpc::Status::OK);
  AwaitMembers({1});
  links_.Follow({second_.target(), third.target()});
  third.AwaitMessages(1);
  EXPECT_THAT(links_.Members(), ElementsAre(0, 1));
  EXPECT_EQ(links_.joins(), 3) << "what was counted for the router that is gone stays counted";
  EXPECT_EQ(first_.AwaitHellos(1).hellos.size(), 1u);
  Await([this] { return calls_.Of(0).has_joined(); });
  // Its stream to the third router, which ends first here.
  links_.Stop();
}

TEST_F(RouterLinksTest, AWorkerThatDrainsAsksNoNewRouter) {
  AwaitBoth();
  links_.Drain();
  first_.End(grpc::Status::OK);
  AwaitMembers({1});
  FakeRouter third(Answer());
  links_.Follow({third.target()});
  second_.AwaitSeen([](const FakeRouter::Seen& seen) { return seen.messages.back().load().draining(); });
  links_.Stop();
  EXPECT_TRUE(third.AwaitHellos(0).hellos.empty());
}

}  // namespace
}  // namespace baton::worker
