#include "common/log_limit.h"

#include <thread>
#include <vector>

#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(LogLimit, AdmitsTheFirstLinesOfAPeriodAndSaysLaterHowManyItLeftOut) {
  ManualClock clock;
  LogLimit limit({.lines_per_period = 2, .period_ms = 1000}, clock);
  const uint64_t before = DroppedLogLines();
  EXPECT_EQ(limit.Admit(), 0u);
  EXPECT_EQ(limit.Admit(), 0u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(limit.Admit(), std::nullopt);
  clock.AdvanceMs(999);
  EXPECT_EQ(limit.Admit(), std::nullopt) << "the period is not over yet";
  clock.AdvanceMs(1);
  EXPECT_EQ(limit.Admit(), 8u);
  EXPECT_EQ(limit.Admit(), 0u) << "what was left out is said once";
  EXPECT_EQ(limit.Admit(), std::nullopt);
  EXPECT_EQ(DroppedLogLines() - before, 9u);
}

TEST(LogLimit, APeriodBeginsWithALineAndNotWithTheClock) {
  ManualClock clock;
  LogLimit limit({.lines_per_period = 1, .period_ms = 1000}, clock);
  clock.AdvanceMs(700);
  EXPECT_EQ(limit.Admit(), 0u);
  clock.AdvanceMs(700);
  EXPECT_EQ(limit.Admit(), std::nullopt);
}

TEST(LogLimit, EveryLineIsAdmittedOrCountedWhateverTheThreads) {
  constexpr int kThreads = 4;
  constexpr int kLines = 1000;
  ManualClock clock;
  LogLimit limit({.lines_per_period = 10, .period_ms = 1000}, clock);
  const uint64_t before = DroppedLogLines();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int line = 0; line < kLines; ++line) limit.Admit();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(DroppedLogLines() - before, kThreads * kLines - 10u);
}

TEST(LogLimit, TheNoteSaysNothingOfNoLines) {
  EXPECT_EQ(LeftOutNote(0), "");
  EXPECT_EQ(LeftOutNote(1), " (1 similar line left out)");
  EXPECT_EQ(LeftOutNote(20), " (20 similar lines left out)");
}

}  // namespace
}  // namespace baton
