#include "engine/core_arbiter.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

constexpr int64_t kPatientNs = 20 * kNsPerSecond;
constexpr int kManyTimes = 10'000;

void YieldIfAsked(StepGate& gate) {
  if (gate.ShouldYield()) gate.Yield();
}

// A decode step that waits for the cores while prefill holds them.
class WaitingDecode {
 public:
  explicit WaitingDecode(std::unique_ptr<CoreArbiter> arbiter) : arbiter_(std::move(arbiter)) {}
  ~WaitingDecode() { thread_.join(); }
  bool has_entered() const { return entered_; }

 private:
  const std::unique_ptr<CoreArbiter> arbiter_;
  std::atomic<bool> entered_{false};
  std::thread thread_{[this] {
    arbiter_->Enter();
    entered_ = true;
    arbiter_->Leave();
  }};
};

class CoreArbiterTest : public testing::Test {
 protected:
  CoreArbiterTest() : fd_(*CreateCoreArbiter()) {}
  ~CoreArbiterTest() override { close(fd_); }

  std::unique_ptr<CoreArbiter> Open(const CoreArbiterOptions& options) {
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
  // A prefill that has held the cores for held_ns keeps them, and lets decode in after quantum_ns.
  void ExpectQuantum(const CoreArbiterOptions& options, int64_t held_ns, int64_t quantum_ns) {
    const auto prefill = Open(options);
    prefill->Enter();
    const WaitingDecode waiting(Open({.max_wait_ns = kPatientNs}));
    clock_.Advance(held_ns);
    for (int i = 0; i < kManyTimes; ++i) YieldIfAsked(*prefill);
    EXPECT_FALSE(waiting.has_entered());
    clock_.Advance(quantum_ns - held_ns);
    while (!waiting.has_entered()) YieldIfAsked(*prefill);
    prefill->Leave();
  }

  const int fd_;
  ManualClock clock_;
};

TEST_F(CoreArbiterTest, OneHolderAtATime) {
  constexpr int kSteps = 2000;
  std::atomic<int> inside{0};
  const auto work = [&](bool yields) {
    const auto arbiter = Open({.yields = yields, .period_ns = 0, .min_quantum_ns = 0, .decode_tokens_pause_ns = 0});
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
  const WaitingDecode waiting(Open({}));
  // Ends only when prefill lets the other in.
  while (!waiting.has_entered()) YieldIfAsked(*prefill);
  prefill->Leave();
}

TEST_F(CoreArbiterTest, DecodeDoesNotYield) {
  const auto decode = Open({.period_ns = 0, .min_quantum_ns = 0});
  decode->Enter();
  const WaitingDecode waiting(Open({.max_wait_ns = kPatientNs}));
  clock_.Advance(kNsPerSecond);
  for (int i = 0; i < kManyTimes; ++i) EXPECT_FALSE(decode->ShouldYield());
  decode->Leave();
}

TEST_F(CoreArbiterTest, PrefillHasWhatADecodeStepLeavesOfThePeriod) {
  TakeDecodeTurn(16);
  ExpectQuantum({.yields = true, .period_ns = 36, .min_quantum_ns = 5, .max_wait_ns = kPatientNs}, 9, 20);
}

TEST_F(CoreArbiterTest, PrefillHasItsLeastQuantumHoweverLongADecodeStepTakes) {
  TakeDecodeTurn(1'000);
  ExpectQuantum({.yields = true, .period_ns = 36, .min_quantum_ns = 10, .max_wait_ns = kPatientNs}, 4, 10);
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
  const auto arbiter = Open({.max_wait_ns = 20 * kNsPerSecond});
  arbiter->Enter();
  arbiter->Leave();
}

TEST_F(CoreArbiterTest, AHolderThatNeverLeavesDelaysOthersForTheBoundOnly) {
  const auto holder = Open({});
  holder->Enter();
  std::thread other([&] {
    const auto arbiter = Open({.max_wait_ns = kNsPerMs});
    arbiter->Enter();
    arbiter->Leave();
  });
  other.join();
  holder->Leave();
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
