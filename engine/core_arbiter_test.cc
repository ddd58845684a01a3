#include "engine/core_arbiter.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

constexpr int64_t kPatientNs = 10 * kNsPerSecond;
constexpr int kManyTimes = 10'000;
// The bounds of the tests that reach them.
constexpr int64_t kMaxWaitNs = 300 * kNsPerMs;
constexpr int64_t kSilenceNs = 30 * kNsPerMs;
constexpr int kSomeSteps = 10;
constexpr int64_t kStepNs = kNsPerMs / 2;

void YieldIfAsked(StepGate& gate) {
  if (gate.ShouldYield()) gate.Yield();
}

// A decode step that waits for the cores while prefill holds them.
class WaitingDecode {
 public:
  explicit WaitingDecode(std::unique_ptr<CoreArbiter> arbiter) : arbiter_(std::move(arbiter)) {}
  ~WaitingDecode() {
    if (thread_.joinable()) thread_.join();
  }
  bool has_entered() const { return entered_; }
  // Waits until the step has ended. False when it ran because its wait was given up.
  bool WasGranted() {
    thread_.join();
    return granted_;
  }

 private:
  const std::unique_ptr<CoreArbiter> arbiter_;
  std::atomic<bool> entered_{false};
  std::atomic<bool> granted_{false};
  std::thread thread_{[this] {
    arbiter_->Enter();
    granted_ = arbiter_->granted();
    entered_ = true;
    arbiter_->Leave();
  }};
};

// A process of its own that can be stopped.
class Child {
 public:
  explicit Child(const std::function<void()>& run) : pid_(fork()) {
    if (pid_ != 0) return;
    run();
    _exit(0);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void AwaitStop() const {
    int status = 0;
    ASSERT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  void Stop() const {
    kill(pid_, SIGSTOP);
    AwaitStop();
  }
  void GoOn() const { kill(pid_, SIGCONT); }
  // Until it waits in the kernel.
  void AwaitSleep() const {
    const std::string path = absl::StrCat("/proc/", pid_, "/stat");
    char state = 0;
    while (state != 'S') {
      std::this_thread::yield();
      std::ifstream stat(path);
      std::string name;
      // The name of the program stands in brackets and has no blank.
      stat >> name >> name >> state;
    }
  }

 private:
  const pid_t pid_;
};

// Binds this thread to the processor that it runs on, as long as it lives.
class OneProcessor {
 public:
  OneProcessor() {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    CPU_ZERO(&one_);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one_);
    EXPECT_EQ(sched_setaffinity(0, sizeof(one_), &one_), 0);
  }
  ~OneProcessor() { sched_setaffinity(0, sizeof(before_), &before_); }
  // Binds the calling process to it, as one that runs only when nobody else does.
  void RunOnlyWhenIdle() const {
    const sched_param priority = {};
    sched_setaffinity(0, sizeof(one_), &one_);
    sched_setscheduler(0, SCHED_IDLE, &priority);
  }

 private:
  cpu_set_t before_;
  cpu_set_t one_;
};

class CoreArbiterTest : public testing::Test {
 protected:
  CoreArbiterTest() : fd_(*CreateCoreArbiter()) {}
  ~CoreArbiterTest() override { close(fd_); }

  // Whoever is silent counts as stopped, because the tests' threads share a process that is not.
  std::unique_ptr<CoreArbiter> Open(CoreArbiterOptions options) {
    options.is_stopped = [](pid_t) { return true; };
    auto arbiter = CoreArbiter::Open(fd_, options, clock_);
    EXPECT_TRUE(arbiter.ok()) << arbiter.status();
    return *std::move(arbiter);
  }
  void TakeDecodeTurn(int64_t turn_ns) {
    const auto decode = Open({});
    decode->Enter();
    clock_.Advance(turn_ns);
    decode->Leave();
  }
  void AwaitWaiter() {
    const auto observer = Open({});
    while (!observer->SomebodyIsNext()) std::this_thread::yield();
  }
  // A prefill that has held the cores for held_ns keeps them, and lets decode in after quantum_ns.
  void ExpectQuantum(const CoreArbiterOptions& options, int64_t held_ns, int64_t quantum_ns) {
    const auto prefill = Open(options);
    prefill->Enter();
    WaitingDecode waiting(Open({.silence_ns = kPatientNs, .max_wait_ns = kPatientNs}));
    AwaitWaiter();
    clock_.Advance(held_ns);
    for (int i = 0; i < kManyTimes; ++i) EXPECT_FALSE(prefill->ShouldYield());
    EXPECT_FALSE(waiting.has_entered());
    clock_.Advance(quantum_ns - held_ns);
    EXPECT_TRUE(prefill->ShouldYield());
    prefill->Yield();
    EXPECT_TRUE(waiting.has_entered()) << "the one that yields queues behind the one that waits";
    EXPECT_TRUE(waiting.WasGranted());
    prefill->Leave();
  }
  // Runs a step; how long it waited for the cores.
  static int64_t WaitOf(CoreArbiter& arbiter, bool expect_granted) {
    const TimeNs asked = MonotonicClock().Now();
    arbiter.Enter();
    const int64_t waited_ns = MonotonicClock().Now() - asked;
    EXPECT_EQ(arbiter.granted(), expect_granted);
    arbiter.Leave();
    return waited_ns;
  }
  // The steps of a neighbour that has given one wait up for a stopped process. The waits are of the machine's own
  // clock, and a busy machine may take the processor from one step for as long as it would wait, but not from two of
  // these.
  static void ExpectNoMoreWaits(CoreArbiter& arbiter, bool expect_granted) {
    std::vector<int64_t> waits_ns;
    for (int i = 0; i < kSomeSteps; ++i) waits_ns.push_back(WaitOf(arbiter, expect_granted));
    std::sort(waits_ns.begin(), waits_ns.end());
    EXPECT_LT(waits_ns[kSomeSteps - 2], kSilenceNs);
  }

  const int fd_;
  ManualClock clock_;
};

TEST_F(CoreArbiterTest, OneHolderAtATime) {
  constexpr int kSteps = 2000;
  std::atomic<int> inside{0};
  const auto work = [&](bool yields) {
    const auto arbiter = Open(
        {.yields = yields, .period_ns = 0, .min_quantum_ns = 0, .decode_tokens_pause_ns = 0, .silence_ns = kPatientNs});
    for (int i = 0; i < kSteps; ++i) {
      arbiter->Enter();
      EXPECT_EQ(inside.fetch_add(1), 0);
      inside.fetch_sub(1);
      YieldIfAsked(*arbiter);
      EXPECT_EQ(inside.fetch_add(1), 0);
      inside.fetch_sub(1);
      arbiter->Leave();
    }
  };
  std::thread first(work, true);
  std::thread second(work, true);
  std::thread third(work, false);
  first.join();
  second.join();
  third.join();
}

TEST_F(CoreArbiterTest, DecodeEntersDuringALongPrefill) {
  const auto prefill = Open({.yields = true, .period_ns = 0, .min_quantum_ns = 0});
  prefill->Enter();
  WaitingDecode waiting(Open({.silence_ns = kPatientNs, .max_wait_ns = kPatientNs}));
  while (!waiting.has_entered()) YieldIfAsked(*prefill);
  EXPECT_TRUE(waiting.WasGranted());
  prefill->Leave();
}

TEST_F(CoreArbiterTest, DecodeDoesNotYield) {
  const auto decode = Open({.period_ns = 0, .min_quantum_ns = 0});
  decode->Enter();
  const WaitingDecode waiting(Open({.silence_ns = kPatientNs, .max_wait_ns = kPatientNs}));
  AwaitWaiter();
  clock_.Advance(kNsPerSecond);
  EXPECT_FALSE(decode->ShouldYield());
  decode->Leave();
}

TEST_F(CoreArbiterTest, PrefillHasWhatADecodeStepLeavesOfThePeriod) {
  TakeDecodeTurn(16);
  ExpectQuantum(
      {.yields = true, .period_ns = 36, .min_quantum_ns = 5, .silence_ns = kPatientNs, .max_wait_ns = kPatientNs}, 9,
      20);
}

TEST_F(CoreArbiterTest, PrefillHasItsLeastQuantumHoweverLongADecodeStepTakes) {
  TakeDecodeTurn(1'000);
  ExpectQuantum(
      {.yields = true, .period_ns = 36, .min_quantum_ns = 10, .silence_ns = kPatientNs, .max_wait_ns = kPatientNs}, 4,
      10);
}

TEST_F(CoreArbiterTest, TheWaitOfAYieldAndTheGrantBehindItCount) {
  ManualClock clock;
  const auto prefill = *CoreArbiter::Open(fd_, {.yields = true}, clock);
  prefill->Enter();
  prefill->Yield();
  prefill->Leave();
  EXPECT_EQ(prefill->grant_count(), 2);
  EXPECT_EQ(prefill->yield_count(), 1);
  EXPECT_EQ(prefill->wait_ns(), 0) << "nobody else had the cores";
}

TEST_F(CoreArbiterTest, PrefillLeavesTheCoresToTheTokensOfADecodeStep) {
  constexpr int64_t kDecodeTokensPauseNs = 5 * kNsPerMs;
  const Clock& clock = MonotonicClock();
  const auto decode = *CoreArbiter::Open(fd_, {}, clock);
  const auto prefill = *CoreArbiter::Open(fd_, {.yields = true, .decode_tokens_pause_ns = kDecodeTokensPauseNs}, clock);
  decode->Enter();
  const TimeNs left = clock.Now();
  decode->Leave();
  prefill->Enter();
  EXPECT_GE(clock.Now() - left, kDecodeTokensPauseNs);
  prefill->Leave();
}

TEST_F(CoreArbiterTest, TwoWorkersThatDecodeWithoutAPauseDoNotKeepPrefillFromTheCores) {
  std::atomic<bool> stopping{false};
  std::atomic<int> turns{0};
  // A step is long enough for the others to fall asleep while they wait.
  const auto compute = [] {
    const TimeNs end = MonotonicClock().Now() + kStepNs;
    while (MonotonicClock().Now() < end) {
    }
  };
  const auto decode = [&](std::atomic<bool>& began) {
    const auto arbiter = Open({.silence_ns = kPatientNs, .max_wait_ns = kPatientNs});
    while (!stopping) {
      arbiter->Enter();
      began = true;
      ++turns;
      compute();
      arbiter->Leave();
    }
  };
  std::array<std::atomic<bool>, 2> began = {false, false};
  std::thread first(decode, std::ref(began[0]));
  std::thread second(decode, std::ref(began[1]));
  while (!began[0] || !began[1]) std::this_thread::yield();
  const auto prefill = Open({.yields = true, .silence_ns = kPatientNs, .max_wait_ns = kPatientNs});
  std::vector<int> turns_before_prefill;
  for (int step = 0; step < kSomeSteps; ++step) {
    const int before = turns;
    prefill->Enter();
    turns_before_prefill.push_back(turns - before);
    EXPECT_TRUE(prefill->granted());
    compute();
    prefill->Leave();
  }
  stopping = true;
  first.join();
  second.join();
  // A busy machine may let others enter before this thread has queued, but not in most steps.
  std::sort(turns_before_prefill.begin(), turns_before_prefill.end());
  EXPECT_LE(turns_before_prefill[kSomeSteps / 2], 4);
}

// The second waiter hardly gets a processor to run on, so it is next at once only if the first one hands that to it.
// Otherwise whoever runs could take its turn again and again.
TEST_F(CoreArbiterTest, WhoeverHasWaitedLongestIsNextEvenBeforeItRunsAgain) {
  const CoreArbiterOptions patient = {.silence_ns = kPatientNs, .max_wait_ns = kPatientNs};
  for (int round = 0; round < kSomeSteps; ++round) {
    const auto holder = Open({});
    holder->Enter();
    std::atomic<bool> entered{false};
    std::atomic<bool> may_leave{false};
    std::thread first([&, arbiter = Open(patient)] {
      arbiter->Enter();
      entered = true;
      while (!may_leave) std::this_thread::yield();
      arbiter->Leave();
    });
    AwaitWaiter();
    const OneProcessor processor;
    const Child second([&] {
      const auto arbiter = *CoreArbiter::Open(fd_, patient, clock_);
      processor.RunOnlyWhenIdle();
      arbiter->Enter();
      arbiter->Leave();
      while (true) pause();
    });
    second.AwaitSleep();
    holder->Leave();
    while (!entered) {
    }
    EXPECT_TRUE(holder->SomebodyIsNext());
    may_leave = true;
    first.join();
    while (holder->SomebodyIsNext()) std::this_thread::yield();
  }
}

TEST_F(CoreArbiterTest, ADeadHolderHandsTheCoresOn) {
  const pid_t child = fork();
  if (child == 0) {
    const auto arbiter = Open({});
    arbiter->Enter();
    // Without giving the cores back, its memory still mapped.
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto arbiter = Open({.silence_ns = kPatientNs, .max_wait_ns = kPatientNs});
  arbiter->Enter();
  arbiter->Leave();
}

TEST_F(CoreArbiterTest, AHolderThatNeverLeavesDelaysOthersForTheBoundOnly) {
  const auto holder = Open({});
  holder->Enter();
  ASSERT_TRUE(holder->granted());
  const auto other = Open({.silence_ns = kSilenceNs, .max_wait_ns = kMaxWaitNs});
  std::atomic<bool> computing{true};
  std::thread life([&] {
    while (computing) holder->ShowLife();
  });
  EXPECT_GE(WaitOf(*other, /*expect_granted=*/false), kMaxWaitNs);
  computing = false;
  life.join();
  // It has gone on since, so the first of these still waits for a sign of its life.
  ExpectNoMoreWaits(*other, /*expect_granted=*/false);
  holder->Leave();
  EXPECT_LT(WaitOf(*other, /*expect_granted=*/true), kMaxWaitNs);
}

TEST_F(CoreArbiterTest, AHolderThatShowsLifeIsWaitedForHoweverLongItsStepTakes) {
  const auto holder = Open({});
  holder->Enter();
  WaitingDecode waiting(Open({.silence_ns = kSilenceNs, .max_wait_ns = kPatientNs}));
  AwaitWaiter();
  const TimeNs until = MonotonicClock().Now() + kMaxWaitNs;
  while (MonotonicClock().Now() < until) holder->ShowLife();
  EXPECT_FALSE(waiting.has_entered());
  holder->Leave();
  EXPECT_TRUE(waiting.WasGranted());
}

TEST_F(CoreArbiterTest, WhoeverWaitsBehindTheNextOneTakesItForAliveWhileItWaits) {
  const auto holder = Open({});
  holder->Enter();
  const CoreArbiterOptions options = {.silence_ns = kSilenceNs, .max_wait_ns = kPatientNs};
  WaitingDecode next(Open(options));
  AwaitWaiter();
  WaitingDecode behind(Open(options));
  const TimeNs until = MonotonicClock().Now() + 2 * kNextSilenceFactor * kSilenceNs;
  while (MonotonicClock().Now() < until) holder->ShowLife();
  EXPECT_FALSE(next.has_entered());
  EXPECT_FALSE(behind.has_entered());
  holder->Leave();
  EXPECT_TRUE(next.WasGranted());
  EXPECT_TRUE(behind.WasGranted());
}

TEST_F(CoreArbiterTest, AStoppedHolderCostsOneWaitUntilItGoesOn) {
  const Child prefill([&] {
    const auto arbiter = *CoreArbiter::Open(fd_, {.yields = true, .period_ns = 0, .min_quantum_ns = 0}, clock_);
    arbiter->Enter();
    raise(SIGSTOP);
    while (true) YieldIfAsked(*arbiter);
  });
  prefill.AwaitStop();
  const auto decode = *CoreArbiter::Open(fd_, {.silence_ns = kSilenceNs, .max_wait_ns = kPatientNs}, clock_);
  const int64_t waited_ns = WaitOf(*decode, /*expect_granted=*/false);
  EXPECT_GE(waited_ns, kSilenceNs);
  EXPECT_LT(waited_ns, kPatientNs) << "the holder was not known to be stopped";
  ExpectNoMoreWaits(*decode, /*expect_granted=*/false);

  prefill.GoOn();
  // Not at once, because the other process has to be scheduled first.
  const auto is_granted = [&] {
    decode->Enter();
    const bool granted = decode->granted();
    decode->Leave();
    return granted;
  };
  const TimeNs until = MonotonicClock().Now() + kPatientNs;
  while (!is_granted() && MonotonicClock().Now() < until) std::this_thread::yield();
  for (int i = 0; i < kSomeSteps; ++i) WaitOf(*decode, /*expect_granted=*/true);
}

TEST_F(CoreArbiterTest, AStoppedWaiterCostsOneWaitAndTheCoresAreStillGranted) {
  const auto holder = Open({});
  holder->Enter();
  const Child waiter([&] {
    const auto arbiter = *CoreArbiter::Open(fd_, {.silence_ns = kPatientNs, .max_wait_ns = kPatientNs}, clock_);
    arbiter->Enter();
    arbiter->Leave();
    while (true) pause();
  });
  AwaitWaiter();
  waiter.Stop();
  holder->Leave();
  const auto decode = *CoreArbiter::Open(fd_, {.silence_ns = kSilenceNs, .max_wait_ns = kPatientNs}, clock_);
  const int64_t waited_ns = WaitOf(*decode, /*expect_granted=*/true);
  EXPECT_GE(waited_ns, kNextSilenceFactor * kSilenceNs);
  EXPECT_LT(waited_ns, kPatientNs) << "the waiter was not known to be stopped";
  ExpectNoMoreWaits(*decode, /*expect_granted=*/true);

  waiter.GoOn();
  while (decode->SomebodyIsNext()) std::this_thread::yield();
}

// The first waiter is handed the second place by the kernel and stops before it has run again.
TEST_F(CoreArbiterTest, AWaiterThatIsStoppedBeforeItKnowsThatItIsNextCostsOneWait) {
  const auto holder = Open({});
  holder->Enter();
  std::atomic<bool> entered{false};
  std::thread first([&, arbiter = Open({.silence_ns = kPatientNs, .max_wait_ns = kPatientNs})] {
    arbiter->Enter();
    entered = true;
    arbiter->Leave();
  });
  AwaitWaiter();
  const OneProcessor processor;
  const Child second([&] {
    const auto arbiter = *CoreArbiter::Open(fd_, {.silence_ns = kPatientNs, .max_wait_ns = kPatientNs}, clock_);
    processor.RunOnlyWhenIdle();
    arbiter->Enter();
    arbiter->Leave();
    while (true) pause();
  });
  second.AwaitSleep();
  holder->Leave();
  while (!entered) {
  }
  second.Stop();
  first.join();
  const auto decode = *CoreArbiter::Open(fd_, {.silence_ns = kSilenceNs, .max_wait_ns = kPatientNs}, clock_);
  EXPECT_LT(WaitOf(*decode, /*expect_granted=*/true), kPatientNs);

  second.GoOn();
  while (decode->SomebodyIsNext()) std::this_thread::yield();
}

TEST_F(CoreArbiterTest, ASilentHolderWhoseProcessRunsIsWaitedFor) {
  const auto holder = Open({});
  holder->Enter();
  const auto decode = *CoreArbiter::Open(fd_, {.silence_ns = kSilenceNs, .max_wait_ns = kMaxWaitNs}, clock_);
  EXPECT_GE(WaitOf(*decode, /*expect_granted=*/false), kMaxWaitNs);
  holder->Leave();
}

// A busy machine makes a wait longer, but not every one of these.
TEST_F(CoreArbiterTest, AHolderThatComputesIsWaitedForAgainForItsSilenceAlone) {
  const auto prefill = Open({.yields = true, .min_quantum_ns = kNsPerSecond});
  prefill->Enter();
  const auto decode = Open({.silence_ns = kSilenceNs, .max_wait_ns = kPatientNs});
  int64_t least_ns = WaitOf(*decode, /*expect_granted=*/false);
  for (int i = 0; i < kSomeSteps; ++i) {
    clock_.Advance(kNsPerMs);
    EXPECT_FALSE(prefill->ShouldYield());
    least_ns = std::min(least_ns, WaitOf(*decode, /*expect_granted=*/false));
  }
  EXPECT_GE(least_ns, kSilenceNs);
  EXPECT_LT(least_ns, 2 * kSilenceNs);
  prefill->Leave();
}

TEST_F(CoreArbiterTest, AStepWithoutAGrantMakesWayWhenTheHolderGoesOn) {
  const auto decode = Open({});
  decode->Enter();
  const auto prefill = Open({.yields = true, .period_ns = 5, .min_quantum_ns = 5, .max_wait_ns = kNsPerMs});
  prefill->Enter();
  ASSERT_FALSE(prefill->granted());
  clock_.Advance(10);
  EXPECT_FALSE(prefill->ShouldYield()) << "the holder is still stopped";
  decode->Leave();
  EXPECT_TRUE(prefill->ShouldYield());
  prefill->Yield();
  EXPECT_TRUE(prefill->granted());
  prefill->Leave();
}

TEST_F(CoreArbiterTest, RefusesWhatIsNotAnArbiter) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  EXPECT_EQ(CoreArbiter::Open(fds[0], {}, clock_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CoreArbiter::Open(-1, {}, clock_).status().code(), absl::StatusCode::kInvalidArgument);
  close(fds[0]);
  close(fds[1]);
}

}  // namespace
}  // namespace baton::engine
