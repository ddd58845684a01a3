#include "worker/router_link.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/limits.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/testing/fake_router.h"

namespace baton::worker {
namespace {

namespace pb = internal::v1;

// A phase that keeps what it is told.
class ToldPhase final : public Phase {
 public:
  void AddTo(WorkerCore&, UpdateSink&) override {}
  pb::CallStart::SideCase side() const override { return pb::CallStart::kDecode; }
  absl::Status Start(WorkerJob job, const pb::CallStart&) override {
    started.push_back(job.key);
    return absl::OkStatus();
  }
  void Cancel(const JobKey& key, const absl::Status&) override { cancelled.push_back(key); }

  std::vector<JobKey> started;
  std::vector<JobKey> cancelled;
};

pb::RouterMessage StartOf(uint64_t call, const JobKey& key) {
  pb::RouterMessage message;
  pb::CallStart* start = message.add_starts();
  start->set_call(call);
  rpc::ToProto({.key = key, .secret = {.high = 1, .low = 1}, .prompt = {1}}, 0, start->mutable_job());
  start->mutable_decode();
  return message;
}

// A worker: a link whose loop is a mutex, so that the test can look at the calls between its tasks.
class LinkedWorker {
 public:
  explicit LinkedWorker(const std::string& router, int64_t step_age_ms = 0) : step_age_ms_(step_age_ms) {
    sink_ = &calls_.Add(phase_);
    pb::Hello hello;
    hello.set_model("tiny");
    link_.emplace(RouterLink::Options{.router_target = router,
                                      .hello = hello,
                                      .load = [this] { return Load(); },
                                      .fault = [this] { return Fault(); },
                                      .on_fault_told =
                                          [this] {
                                            const absl::MutexLock lock(&mutex_);
                                            fault_is_told_ = true;
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
                                          }},
                  calls_);
    link_->Start();
  }
  ~LinkedWorker() { link_->Stop(); }

  RouterLink& link() { return *link_; }
  void SetStepAge(int64_t ms) {
    const absl::MutexLock lock(&mutex_);
    step_age_ms_ = ms;
  }
  void Die(const pb::Fault& fault) {
    const absl::MutexLock lock(&mutex_);
    fault_ = fault;
  }
  void AwaitFaultTold() {
    Await([this] { return fault_is_told_; });
  }
  // The link has looked several times whether it may join anew.
  void AwaitRoundsAfterTheFault() {
    Await([this] { return fault_asked_after_ >= 3; });
  }
  // Says something on the loop.
  void Say(const std::function<void(UpdateSink&)>& what) {
    const absl::MutexLock lock(&mutex_);
    what(*sink_);
    calls_.Flush();
  }
  void AwaitStarted(size_t count) {
    Await([this, count] { return phase_.started.size() >= count; });
  }
  void AwaitCancelled(const JobKey& key) {
    Await([this, key] {
      return std::find(phase_.cancelled.begin(), phase_.cancelled.end(), key) != phase_.cancelled.end();
    });
  }
  void AwaitServing(const std::vector<bool>& history) {
    Await([this, history] { return serving_ == history; });
  }
  void AwaitDrainsOrdered(int count) {
    Await([this, count] { return drains_ordered_ == count; });
  }
  void AwaitDrainAccepted() {
    Await([this] { return calls_.drain_accepted(); });
  }

 private:
  std::optional<pb::Fault> Fault() {
    const absl::MutexLock lock(&mutex_);
    if (fault_is_told_) ++fault_asked_after_;
    return fault_;
  }
  pb::Load Load() {
    const absl::MutexLock lock(&mutex_);
    pb::Load load;
    load.set_free_blocks(5);
    load.set_step_age_ms(step_age_ms_);
    return load;
  }
  template <typename Holds>
  void Await(Holds holds) {
    const absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&holds), absl::Seconds(20)));
  }

  absl::Mutex mutex_;
  int64_t step_age_ms_;
  std::vector<bool> serving_;
  std::optional<pb::Fault> fault_;
  bool fault_is_told_ = false;
  int drains_ordered_ = 0;
  int fault_asked_after_ = 0;
  ToldPhase phase_;
  WorkNote work_;
  RouterCalls calls_{MonotonicClock(), work_};
  UpdateSink* sink_ = nullptr;
  std::optional<RouterLink> link_;
};

const JobKey kKey = {.job = {.high = 1, .low = 2}, .attempt = 3};

TEST(RouterLink, StatesTheProtocolThatItSpeaksAndIgnoresFeaturesThatItDoesNotKnow) {
  FakeRouter router(Answer());
  LinkedWorker worker(router.target());
  const FakeRouter::Seen seen = router.AwaitMessages(4);
  ASSERT_EQ(seen.hellos.size(), 1u);
  EXPECT_EQ(seen.closed, 0);
  EXPECT_EQ(seen.hellos[0].protocol_version(), rpc::kProtocolVersion);
  EXPECT_EQ(seen.hellos[0].features(), rpc::kProtocolFeatures);
  EXPECT_EQ(seen.hellos[0].resumes(), "");
  for (const pb::WorkerMessage& message : seen.messages) {
    EXPECT_EQ(message.membership(), std::string(16, 'b'));
    EXPECT_EQ(message.load().free_blocks(), 5);
  }
}

TEST(RouterLink, LeavesARouterOfAnotherProtocolVersionAndAsksAgain) {
  for (const uint32_t version : {rpc::kProtocolVersion - 1, rpc::kProtocolVersion + 1}) {
    FakeRouter router(Answer(version));
    LinkedWorker worker(router.target());
    const auto seen = router.AwaitSeen([](const FakeRouter::Seen& s) { return s.closed >= 1 && s.hellos.size() >= 2; });
    EXPECT_TRUE(seen.messages.empty());
    EXPECT_FALSE(worker.link().is_member());
  }
}

TEST(RouterLink, JoinsAgainWithinASecondOfTheEndOfItsMembershipAndSaysWhichItHad) {
  FakeRouter router(Answer());
  LinkedWorker worker(router.target());
  for (size_t joins = 1; joins <= 3; ++joins) {
    router.AwaitHellos(joins);
    router.AwaitMessages(1);
    const absl::Time ended = absl::Now();
    router.End({grpc::StatusCode::UNAVAILABLE, "given up"});
    const FakeRouter::Seen seen = router.AwaitHellos(joins + 1);
    EXPECT_LT(seen.hello_times.back() - ended, absl::Seconds(1));
    EXPECT_EQ(seen.hellos.back().resumes(), std::string(16, static_cast<char>('a' + joins)));
  }
}

TEST(RouterLink, AsksAnewWhereTheRouterDoesNotAnswerAndWaitsLongerEachTime) {
  FakeRouter router(Answer(), /*unanswered=*/2);
  LinkedWorker worker(router.target());
  router.AwaitHellos(3);
  const FakeRouter::Seen seen = router.AwaitMessages(1);
  EXPECT_EQ(seen.closed, 2);
  const absl::Duration first = seen.hello_times[1] - seen.hello_times[0];
  EXPECT_GE(seen.hello_times[2] - seen.hello_times[1], first + absl::Milliseconds(500));
  worker.AwaitServing({true});
}

TEST(RouterLink, TheEndOfTheMembershipCancelsItsCallsAndTheNextOneStartsAnew) {
  FakeRouter router(Answer());
  LinkedWorker worker(router.target());
  router.AwaitMessages(1);
  router.Say(StartOf(1, kKey));
  worker.AwaitStarted(1);
  router.End({grpc::StatusCode::UNAVAILABLE, "given up"});
  worker.AwaitCancelled(kKey);
  router.AwaitHellos(2);
  router.AwaitMessages(1);
  const JobKey next = {.job = kKey.job, .attempt = 4};
  router.Say(StartOf(1, next));
  worker.AwaitStarted(2);
  worker.Say([&](UpdateSink& sink) { sink.Update(next, {.kind = WorkerUpdate::Kind::kStarted, .token = {}}); });
  router.AwaitSeen([](const FakeRouter::Seen& s) {
    return std::any_of(s.messages.begin(), s.messages.end(), [](const auto& m) { return m.started_size() == 1; });
  });
}

TEST(RouterLink, StartsAndCancelsReachThePhaseAndItsReportsTheRouter) {
  FakeRouter router(Answer());
  LinkedWorker worker(router.target());
  router.AwaitMessages(1);
  router.Say(StartOf(8, kKey));
  worker.AwaitStarted(1);
  worker.Say([](UpdateSink& sink) {
    for (int32_t i = 0; i < 3; ++i) {
      sink.Update(kKey, {.kind = WorkerUpdate::Kind::kToken, .token = {.index = i, .token = 10 + i}});
    }
  });
  const FakeRouter::Seen seen = router.AwaitSeen([](const FakeRouter::Seen& s) {
    return std::any_of(s.messages.begin(), s.messages.end(), [](const auto& m) { return m.tokens_size() > 0; });
  });
  const auto tokens = std::find_if(seen.messages.begin(), seen.messages.end(),
                                   [](const pb::WorkerMessage& m) { return m.tokens_size() > 0; });
  EXPECT_EQ(tokens->tokens_size(), 3) << "a round is one message";
  EXPECT_EQ(tokens->tokens(2).call(), 8u);
  EXPECT_EQ(tokens->membership(), std::string(16, 'b'));
  pb::RouterMessage cancel;
  cancel.add_cancels(8);
  router.Say(cancel);
  worker.AwaitCancelled(kKey);
}

TEST(RouterLink, AHeartbeatComesAsOftenAsTheRouterAsks) {
  FakeRouter router(Answer(rpc::kProtocolVersion, 100));
  LinkedWorker worker(router.target());
  const FakeRouter::Seen seen = router.AwaitMessages(6);
  // The first comes at once.
  EXPECT_GE(absl::Now() - seen.hello_times[0], absl::Milliseconds(5 * 100 - 50));
}

TEST(RouterLink, SaysThatItDrainsAndHearsTheRoutersConsent) {
  FakeRouter router(Answer());
  LinkedWorker worker(router.target());
  router.AwaitMessages(1);
  worker.link().Drain();
  router.AwaitSeen(
      [](const FakeRouter::Seen& s) { return !s.messages.empty() && s.messages.back().load().draining(); });
  pb::RouterMessage accepted;
  accepted.set_drain_accepted(true);
  router.Say(accepted);
  worker.AwaitDrainAccepted();
  worker.AwaitServing({true, false});
}

TEST(RouterLink, AnOrderToDrainIsPassedOnAndWhatComesWithItIsHeard) {
  FakeRouter router(Answer());
  LinkedWorker worker(router.target());
  router.AwaitMessages(1);
  pb::RouterMessage order = StartOf(1, kKey);
  order.set_drain(true);
  router.Say(order);
  worker.AwaitDrainsOrdered(1);
  worker.AwaitStarted(1);
  // The process decides what it does: the link itself goes on as before.
  const size_t said = router.AwaitMessages(1).messages.size();
  const FakeRouter::Seen later = router.AwaitMessages(said + 2);
  EXPECT_FALSE(later.messages.back().load().draining());
  router.Say(StartOf(2, {.job = {.high = 1, .low = 3}, .attempt = 1}));
  worker.AwaitStarted(2);
  worker.AwaitDrainsOrdered(1);
}

TEST(RouterLink, AWorkerWhoseEngineIsStuckDoesNotJoinUntilItMovesAgain) {
  FakeRouter router(Answer());
  LinkedWorker worker(router.target(), kEngineStallMs + 1);
  EXPECT_FALSE(worker.link().is_member());
  worker.SetStepAge(kEngineStallMs);
  router.AwaitMessages(1);
  worker.AwaitServing({true});
  worker.SetStepAge(kEngineStallMs + 1);
  worker.AwaitServing({true, false});
}

TEST(RouterLink, ServesWhileItIsAMember) {
  FakeRouter router(Answer());
  LinkedWorker worker(router.target());
  router.AwaitMessages(1);
  EXPECT_TRUE(worker.link().is_member());
  router.End({grpc::StatusCode::UNAVAILABLE, "given up"});
  worker.AwaitServing({true, false, true});
}

TEST(RouterLink, StopLeavesTheRouterAndIsHeardThere) {
  FakeRouter router(Answer());
  {
    LinkedWorker worker(router.target());
    router.AwaitMessages(1);
  }
  router.AwaitSeen([](const FakeRouter::Seen& s) { return s.closed == 1; });
}

TEST(RouterLink, TellsOnceOfWhatTheProcessDiesAndLetsItDieWhenTheRouterHasHeardThat) {
  FakeRouter router(Answer());
  LinkedWorker worker(router.target());
  router.AwaitMessages(1);
  pb::Fault fault;
  fault.set_signal(11);
  rpc::ToProto(kKey, fault.add_at_work());
  worker.Die(fault);
  const auto seen = router.AwaitSeen([](const FakeRouter::Seen& s) { return s.closed >= 1; });
  worker.AwaitFaultTold();
  worker.AwaitRoundsAfterTheFault();
  EXPECT_EQ(router.AwaitHellos(1).hellos.size(), 1u) << "it joins no more";
  int told = 0;
  for (const pb::WorkerMessage& message : seen.messages) {
    if (!message.has_fault()) continue;
    ++told;
    EXPECT_EQ(message.fault().signal(), 11);
    ASSERT_EQ(message.fault().at_work_size(), 1);
    EXPECT_EQ(rpc::FromProto(message.fault().at_work(0)).value(), kKey);
  }
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace baton::worker
