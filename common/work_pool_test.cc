#include "common/work_pool.h"

#include <sys/resource.h>

#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using testing::ElementsAre;

constexpr size_t kRoomForTwo = 2 * (100 + WorkPool::kBytesPerTask);

// A pool whose one thread is busy until Release, so that later tasks wait.
class WorkPoolTest : public ::testing::Test {
 protected:
  WorkPoolTest() {
    EXPECT_TRUE(pool_.Post({.id = Id128{9, 9}, .run = [this](const absl::Status&) {
                              busy_.Notify();
                              release_.WaitForNotification();
                            }}));
    busy_.WaitForNotification();
  }
  ~WorkPoolTest() override { Release(); }

  void Release() {
    if (!release_.HasBeenNotified()) release_.Notify();
  }
  // What ran by the time that the pool has stopped, and with which status.
  std::vector<std::pair<uint64_t, absl::StatusCode>> FinishAll() {
    absl::Notification last;
    const bool posted = pool_.Post({.id = Id128{8, 8}, .run = [&](const absl::Status&) { last.Notify(); }});
    EXPECT_TRUE(posted);
    Release();
    if (posted) last.WaitForNotification();
    pool_.Stop();
    return ran_;
  }
  WorkTask Task(uint64_t number, size_t bytes = 0, TimeNs deadline = kNever) {
    return {.id = Id128{0, number}, .bytes = bytes, .deadline = deadline, .run = [this, number](const absl::Status& s) {
              ran_.emplace_back(number, s.code());
            }};
  }
  bool Post(uint64_t number, size_t bytes = 0) { return pool_.Post(Task(number, bytes)); }

  ManualClock clock_;
  absl::Notification busy_;
  absl::Notification release_;
  // Only the pool's one thread writes it.
  std::vector<std::pair<uint64_t, absl::StatusCode>> ran_;
  WorkPool pool_{{.threads = 1, .nice = 3, .max_queued_bytes = kRoomForTwo}, clock_};
};

TEST_F(WorkPoolTest, TasksRunInTheOrderInWhichTheyCame) {
  EXPECT_TRUE(Post(1));
  EXPECT_TRUE(Post(2));
  Release();
  absl::Notification last;
  while (!pool_.Post({.id = Id128{8, 8}, .run = [&](const absl::Status&) { last.Notify(); }})) {
  }
  last.WaitForNotification();
  pool_.Stop();
  EXPECT_THAT(ran_, ElementsAre(std::pair(1, absl::StatusCode::kOk), std::pair(2, absl::StatusCode::kOk)));
}

TEST_F(WorkPoolTest, TakesBytesUpToItsBoundAndNotOneMore) {
  EXPECT_FALSE(Post(1, kRoomForTwo - WorkPool::kBytesPerTask + 1));
  EXPECT_TRUE(Post(2, 100));
  EXPECT_FALSE(Post(3, 101));
  EXPECT_TRUE(Post(4, 100));
  EXPECT_FALSE(Post(5, 0)) << "a task without bytes costs memory, too";
}

TEST_F(WorkPoolTest, ADroppedTaskNeverRunsAndItsMemoryIsFreeAtOnce) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> memory = held;
  EXPECT_TRUE(pool_.Post({.id = Id128{0, 1}, .bytes = 1124, .run = [this, held](const absl::Status& s) {
                            ran_.emplace_back(1, s.code());
                          }}));
  held.reset();
  EXPECT_FALSE(Post(2, 100));
  EXPECT_TRUE(pool_.Drop(Id128{0, 1}));
  EXPECT_TRUE(memory.expired());
  EXPECT_FALSE(pool_.Drop(Id128{0, 1}));
  EXPECT_TRUE(Post(2, 100));
  EXPECT_THAT(FinishAll(), ElementsAre(std::pair(2, absl::StatusCode::kOk)));
}

TEST_F(WorkPoolTest, ATaskThatRunsCannotBeDropped) { EXPECT_FALSE(pool_.Drop(Id128{9, 9})); }

TEST_F(WorkPoolTest, ATaskWhoseDeadlineHasPassedIsOnlyTold) {
  EXPECT_TRUE(pool_.Post(Task(1, 0, /*deadline=*/clock_.Now() + 5)));
  clock_.Advance(5);
  EXPECT_THAT(FinishAll(), ElementsAre(std::pair(1, absl::StatusCode::kDeadlineExceeded)));
}

TEST_F(WorkPoolTest, APoolThatStopsTellsThoseThatWaitAndRefusesLaterOnes) {
  EXPECT_TRUE(Post(1));
  std::thread stopper([this] { pool_.Stop(); });
  while (Post(2)) EXPECT_TRUE(pool_.Drop(Id128{0, 2}));
  Release();
  stopper.join();
  EXPECT_THAT(ran_, ElementsAre(std::pair(1, absl::StatusCode::kUnavailable)));
}

TEST_F(WorkPoolTest, ItsThreadsAreNicerThanTheOthers) {
  const int own = getpriority(PRIO_PROCESS, 0);
  int nice = 0;
  EXPECT_TRUE(
      pool_.Post({.id = Id128{0, 1}, .run = [&](const absl::Status&) { nice = getpriority(PRIO_PROCESS, 0); }}));
  FinishAll();
  EXPECT_EQ(nice, std::min(own + 3, 19));
}

}  // namespace
}  // namespace baton
