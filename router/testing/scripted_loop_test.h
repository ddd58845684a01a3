// A router's loop whose only worker answers by a script. For tests.
#ifndef BATON_ROUTER_TESTING_SCRIPTED_LOOP_TEST_H_
#define BATON_ROUTER_TESTING_SCRIPTED_LOOP_TEST_H_

#include <cstdint>
#include <memory>
#include <type_traits>
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
    return AskLoop([](Dispatcher& dispatcher) { return dispatcher.running_jobs() + dispatcher.queued_jobs(); });
  }
  // How many of the choices are paused, once they are so many; fewer if that does not come about.
  size_t AwaitPaused(size_t count) {
    size_t paused = 0;
    // Each turn of the loop brings a choice one step further.
    for (size_t turn = 0; turn < 10 * count && paused < count; ++turn) {
      paused = AskLoop([](Dispatcher& dispatcher) { return dispatcher.paused().size(); });
    }
    return paused;
  }

  // What the loop says of its dispatcher, once it has done all that was posted before.
  template <typename Question>
  std::invoke_result_t<Question, Dispatcher&> AskLoop(Question question) {
    absl::Notification done;
    std::invoke_result_t<Question, Dispatcher&> answer{};
    loop_.PostWhenRoom([&](Dispatcher& dispatcher) {
      answer = question(dispatcher);
      done.Notify();
    });
    done.WaitForNotification();
    return answer;
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
