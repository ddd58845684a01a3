// A router's loop whose only worker answers by a script. For tests.
#ifndef BATON_ROUTER_TESTING_SCRIPTED_LOOP_TEST_H_
#define BATON_ROUTER_TESTING_SCRIPTED_LOOP_TEST_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "common/random.h"
#include "common/rpc/event_queue.h"
#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"
#include "router/router_loop.h"
#include "router/testing/scripted_worker.h"
#include "router/testing/tiny_served_model.h"

namespace baton::router {

// A test that gives the loop something of its own stops the loop in its destructor.
class ScriptedLoopTest : public ::testing::Test {
 protected:
  ~ScriptedLoopTest() override { loop_.Stop(); }

  void StartLoop(WorkerScript script) {
    worker_ = std::make_unique<ScriptedWorker>(loop_, std::move(script));
    loop_.Start(*worker_);
    worker_->Join();
  }
  // How many jobs the loop has, once it has done all that was posted before.
  int32_t Jobs() {
    absl::Notification done;
    int32_t jobs = -1;
    loop_.PostWhenRoom([&](Dispatcher& dispatcher) {
      jobs = dispatcher.running_jobs() + dispatcher.queued_jobs();
      done.Notify();
    });
    done.WaitForNotification();
    return jobs;
  }

  const ServedModel model_ = TestModel();
  const ManualClock clock_{};
  SeededRandom random_{1};
  rpc::EventQueue events_;
  RouterLoop loop_{DispatcherOptions{}, clock_, SystemRandom(), events_};
  std::unique_ptr<ScriptedWorker> worker_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_SCRIPTED_LOOP_TEST_H_
