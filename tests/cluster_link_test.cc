// Both ends of the stream between router and worker, over a real connection: router/cluster_server and
// worker/router_link.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/rpc/event_queue.h"
#include "common/rpc/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/cluster_server.h"
#include "router/router_loop.h"
#include "router/testing/worker_hello.h"
#include "worker/router_calls.h"
#include "worker/router_link.h"

namespace baton {
namespace {

namespace pb = internal::v1;
using ::testing::ElementsAre;

class Listener final : public router::JobListener {
 public:
  void OnToken(const OutputToken& token) override { tokens.push_back(token.token); }
  void OnEnd(const router::JobResult& result) override {
    status = result.status;
    ended.Notify();
  }
  std::vector<int32_t> tokens;
  absl::Status status;
  absl::Notification ended;
};

// A router with its loop and its cluster server, which may be replaced by another at the same port.
class Router {
 public:
  explicit Router(int port = 0)
      : loop_(router::DispatcherOptions{}, MonotonicClock(), SystemRandom(), events_),
        server_({.bind = "127.0.0.1", .port = port, .members = {.model = "tiny"}}, MonotonicClock(), SystemRandom(),
                loop_, events_) {
    absl::Status listening = server_.Listen();
    EXPECT_TRUE(listening.ok()) << listening;
  }

  const std::string& address() const { return server_.address(); }
  int port() const { return std::stoi(address().substr(address().rfind(':') + 1)); }

  std::shared_ptr<Listener> Submit(uint64_t n) {
    auto job = std::make_shared<router::JobSpec>();
    job->id = {.high = 2, .low = n};
    job->prompt = {1, 2, 3};
    job->sampling.max_tokens = 100;
    job->trace.traceparent = "trace";
    auto listener = std::make_shared<Listener>();
    loop_.PostWhenRoom([this, job, listener](router::Dispatcher&) { EXPECT_TRUE(loop_.Submit(job, listener).ok()); });
    return listener;
  }
  void Cancel(uint64_t n) {
    loop_.PostWhenRoom([n](router::Dispatcher& dispatcher) {
      dispatcher.Cancel({.job = {.high = 2, .low = n}}, absl::CancelledError("client"));
    });
  }
  // The loads of the workers that are members.
  std::vector<router::WorkerLoad> Loads() {
    std::vector<router::WorkerLoad> loads;
    absl::Notification read;
    loop_.PostWhenRoom([&](router::Dispatcher& dispatcher) {
      for (const auto& [id, worker] : dispatcher.registry().workers()) loads.push_back(worker.load);
      read.Notify();
    });
    read.WaitForNotification();
    return loads;
  }

 private:
  rpc::EventQueue events_;
  router::RouterLoop loop_;
  router::ClusterServer server_;
};

// A worker whose phase keeps what it is told, and whose loop is a mutex.
class Worker final : public worker::Phase {
 public:
  explicit Worker(const std::string& router) : sink_(calls_.Add(*this)) {
    pb::Hello hello = router::MakeHello(1, pb::WORKER_ROLE_MIXED);
    hello.set_incarnation(rpc::ToBytes(SystemRandom().NextId()));
    hello.set_total_blocks(1000);
    link_.emplace(worker::RouterLink::Options{.router_target = router,
                                              .hello = hello,
                                              .load =
                                                  [] {
                                                    pb::Load load;
                                                    load.set_free_blocks(1000);
                                                    load.set_steps(7);
                                                    return load;
                                                  },
                                              .post =
                                                  [this](const std::function<void()>& task) {
                                                    const absl::MutexLock lock(&mutex_);
                                                    task();
                                                    calls_.Flush();
                                                  }},
                  calls_);
    link_->Start();
  }
  ~Worker() override { link_->Stop(); }

  void AddTo(worker::WorkerCore&, UpdateSink&) override {}
  pb::CallStart::SideCase side() const override { return pb::CallStart::kDecode; }
  absl::Status Start(WorkerJob job, const pb::CallStart& start) override {
    EXPECT_TRUE(start.decode().local_prefill());
    EXPECT_EQ(job.trace.traceparent, "trace");
    EXPECT_FALSE(job.secret.is_zero());
    started_.push_back(job.key);
    return absl::OkStatus();
  }
  void Cancel(const JobKey& key, const absl::Status& why) override {
    ++cancelled_;
    sink_.End(key, why);
  }

  worker::RouterLink& link() { return *link_; }
  JobKey AwaitStarted(size_t count) {
    Await([this, count] { return started_.size() >= count; });
    const absl::MutexLock lock(&mutex_);
    return started_.at(count - 1);
  }
  void AwaitCancelled(int count) {
    Await([this, count] { return cancelled_ >= count; });
  }
  void AwaitDrainAccepted() {
    Await([this] { return calls_.drain_accepted(); });
  }
  // All that `what` says is one round.
  void Say(const std::function<void(UpdateSink&)>& what) {
    const absl::MutexLock lock(&mutex_);
    what(sink_);
    calls_.Flush();
  }

 private:
  template <typename Holds>
  void Await(Holds holds) {
    const absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&holds), absl::Seconds(20)));
  }

  absl::Mutex mutex_;
  std::vector<JobKey> started_;
  int cancelled_ = 0;
  WorkNote work_;
  worker::RouterCalls calls_{MonotonicClock(), work_};
  UpdateSink& sink_;
  std::optional<worker::RouterLink> link_;
};

void SayToken(UpdateSink& sink, const JobKey& key, int32_t index, FinishReason finish = FinishReason::kNone) {
  sink.Update(key,
              {.kind = WorkerUpdate::Kind::kToken, .token = {.index = index, .token = 100 + index, .finish = finish}});
}

void AwaitLoads(Router& router, const std::function<bool(const std::vector<router::WorkerLoad>&)>& holds) {
  const TimeNs until = After(MonotonicClock().Now(), 20'000);
  while (!holds(router.Loads()) && MonotonicClock().Now() < until) absl::SleepFor(absl::Milliseconds(2));
  EXPECT_TRUE(holds(router.Loads()));
}

TEST(ClusterLink, AJobAndItsTokensTravelAndAllIsForgottenAtItsEnd) {
  Router router;
  Worker worker(router.address());
  const auto listener = router.Submit(1);
  const JobKey key = worker.AwaitStarted(1);
  worker.Say([&](UpdateSink& sink) {
    sink.Update(key, {.kind = WorkerUpdate::Kind::kStarted, .token = {}});
    SayToken(sink, key, 0);
    SayToken(sink, key, 1);
  });
  worker.Say([&](UpdateSink& sink) {
    SayToken(sink, key, 2, FinishReason::kStop);
    sink.Update(key, {.kind = WorkerUpdate::Kind::kFinished, .token = {}});
    sink.End(key, absl::OkStatus());
  });
  listener->ended.WaitForNotification();
  EXPECT_TRUE(listener->status.ok()) << listener->status;
  EXPECT_THAT(listener->tokens, ElementsAre(100, 101, 102));
  AwaitLoads(router, [](const auto& loads) { return loads.size() == 1 && loads[0].steps == 7; });
}

TEST(ClusterLink, ACancelReachesThePhase) {
  Router router;
  Worker worker(router.address());
  const auto listener = router.Submit(1);
  worker.AwaitStarted(1);
  router.Cancel(1);
  listener->ended.WaitForNotification();
  worker.AwaitCancelled(1);
}

TEST(ClusterLink, AWorkerJoinsARestartedRouterWithinASecondAndItsOldJobsAreCancelled) {
  std::optional<Router> router(std::in_place);
  Worker worker(router->address());
  router->Submit(1);
  worker.AwaitStarted(1);
  const int port = router->port();
  router.reset();
  worker.AwaitCancelled(1);
  router.emplace(port);
  const TimeNs began = MonotonicClock().Now();
  const auto listener = router->Submit(2);
  const JobKey key = worker.AwaitStarted(2);
  EXPECT_LT(MonotonicClock().Now() - began, 2 * kNsPerSecond) << "a second of back-off, and a busy machine";
  worker.Say([&](UpdateSink& sink) {
    SayToken(sink, key, 0, FinishReason::kStop);
    sink.Update(key, {.kind = WorkerUpdate::Kind::kFinished, .token = {}});
    sink.End(key, absl::OkStatus());
  });
  listener->ended.WaitForNotification();
  EXPECT_TRUE(listener->status.ok()) << listener->status;
}

TEST(ClusterLink, AWorkerThatDrainsHearsTheRoutersConsentAndGetsNothingMore) {
  Router router;
  Worker worker(router.address());
  AwaitLoads(router, [](const auto& loads) { return loads.size() == 1; });
  worker.link().Drain();
  worker.AwaitDrainAccepted();
  const auto loads = router.Loads();
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].state, router::WorkerState::kDraining);
}

}  // namespace
}  // namespace baton
