#include "worker/side_thread.h"

#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/mailbox.h"
#include "gtest/gtest.h"
#include "worker/grammar_constraints.h"

namespace baton::worker {
namespace {

constexpr int64_t kPatienceNs = 60 * kNsPerSecond;

Id128 NumberOf(uint64_t number) { return {.high = 7, .low = number}; }

// The test's thread is the loop.
class SideThreadTest : public ::testing::Test {
 protected:
  void RunUntil(const std::function<bool()>& done) {
    while (!done()) {
      loop_.Wait(kPatienceNs);
      for (const SideWork::Task& task : loop_.Take()) task();
    }
  }

  Mailbox<SideWork::Task> loop_{100};
  SideThread side_{[this](SideWork::Task task) { loop_.PostWhenRoom(std::move(task)); }, 3 * WorkPool::kBytesPerTask};
};

TEST_F(SideThreadTest, WorkRunsBesideTheLoopAtALowPriorityAndItsResultOnTheLoop) {
  const int own_nice = getpriority(PRIO_PROCESS, 0);
  int nice = 0;
  std::thread::id ran_by;
  ASSERT_TRUE(side_.Post(NumberOf(1), 0, [&]() -> SideWork::Task {
    const int found = getpriority(PRIO_PROCESS, 0);
    return [&, found, worker = std::this_thread::get_id()] {
      nice = found;
      ran_by = worker;
      EXPECT_NE(std::this_thread::get_id(), worker);
    };
  }));
  RunUntil([&] { return ran_by != std::thread::id(); });
  EXPECT_EQ(nice, std::min(own_nice + SideThread::kNice, 19)) << "no thread is nicer";
}

TEST_F(SideThreadTest, WorkThatWaitsCanBeTakenBackAndBeyondTheBoundThereIsNoRoom) {
  absl::Notification busy;
  absl::Notification release;
  std::vector<int> done;
  const auto work = [&](int number) {
    return [&done, number]() -> SideWork::Task { return [&done, number] { done.push_back(number); }; };
  };
  ASSERT_TRUE(side_.Post(NumberOf(0), 0, [&]() -> SideWork::Task {
    busy.Notify();
    release.WaitForNotification();
    return [] {};
  }));
  busy.WaitForNotification();
  for (const int number : {1, 2, 3}) ASSERT_TRUE(side_.Post(NumberOf(static_cast<uint64_t>(number)), 0, work(number)));
  EXPECT_FALSE(side_.Post(NumberOf(4), 0, work(4)));
  side_.Drop(NumberOf(2));
  side_.Drop(NumberOf(9));
  EXPECT_TRUE(side_.Post(NumberOf(5), 0, work(5)));
  release.Notify();
  RunUntil([&] { return done.size() == 3; });
  EXPECT_EQ(done, (std::vector<int>{1, 3, 5}));
}

TEST_F(SideThreadTest, NothingIsSaidToALoopThatHasStopped) {
  absl::Notification began;
  absl::Notification release;
  bool said = false;
  ASSERT_TRUE(side_.Post(NumberOf(1), 0, [&]() -> SideWork::Task {
    began.Notify();
    release.WaitForNotification();
    return [&said] { said = true; };
  }));
  began.WaitForNotification();
  ASSERT_TRUE(side_.Post(NumberOf(2), 0, [&]() -> SideWork::Task {
    ADD_FAILURE() << "it had not begun";
    return [] {};
  }));
  loop_.Close();
  side_.Drop(NumberOf(2));
  release.Notify();
  side_.Stop();
  EXPECT_TRUE(loop_.Take().empty());
  EXPECT_FALSE(said);
  EXPECT_FALSE(side_.Post(NumberOf(3), 0, [] { return [] {}; }));
}

// Grammars come, are dropped and come again while others are compiled and used.
TEST_F(SideThreadTest, GrammarsThatAreCompiledBesideTheLoopAllowWhatTheyAllowOtherwise) {
  std::vector<std::string> texts;
  for (char c = 'a'; c <= 'z'; ++c) texts.emplace_back(1, c);
  texts.emplace_back();
  const auto vocabulary = grammar::Vocabulary::Create(texts, {26});
  SideThread side([this](SideWork::Task task) { loop_.PostWhenRoom(std::move(task)); });
  GrammarConstraints plain(vocabulary);
  GrammarConstraints constraints(vocabulary);
  constraints.PrepareBeside(side, side);
  for (int i = 0; i < 200; ++i) {
    const OutputGrammar source = {.kind = GrammarKind::kRegex, .text = absl::StrCat("(a|b){", i % 40 + 1, "}[c-k]")};
    const auto prepared = constraints.Prepare(source);
    const auto dropped = constraints.Prepare({.kind = GrammarKind::kRegex, .text = absl::StrCat("z{", i + 1, "}")});
    RunUntil([&] { return prepared->is_ready(); });
    const auto one = constraints.Make(source).value();
    const auto other = plain.Make(source).value();
    for (int token = 0; token <= i % 40; ++token) {
      const engine::AllowedTokens allowed = one->Allowed();
      const engine::AllowedTokens expected = other->Allowed();
      ASSERT_EQ(std::vector<uint64_t>(allowed.words.begin(), allowed.words.end()),
                std::vector<uint64_t>(expected.words.begin(), expected.words.end()));
      ASSERT_TRUE(one->Accept(token % 2));
      ASSERT_TRUE(other->Accept(token % 2));
    }
  }
  loop_.Close();
  side.Stop();
}

}  // namespace
}  // namespace baton::worker
