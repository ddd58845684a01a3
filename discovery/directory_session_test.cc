#include "discovery/directory_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/limits.h"
#include "common/random.h"
#include "common/testing/manual_clock.h"

namespace baton::discovery {
namespace {

using State = DirectorySession::State;
using ::testing::ElementsAre;

constexpr char kOwnKey[] = "/fleet/routers/1";
constexpr int64_t kLease = 77;

std::string Name(const Action& action) {
  static constexpr const char* kNames[] = {"Grant", "Put", "List", "Watch", "KeepAlive", "Revoke", "HangUp", "Changed"};
  return kNames[action.index()];
}

class DirectorySessionTest : public ::testing::Test {
 protected:
  std::vector<std::string> Actions() {
    std::vector<std::string> names;
    for (const Action& action : session_.TakeActions()) names.push_back(Name(action));
    return names;
  }

  // The only action there is, which is of this type.
  template <typename Kind>
  Kind TheAction() {
    const std::vector<Action> actions = session_.TakeActions();
    EXPECT_EQ(actions.size(), 1u);
    const Kind* kind = actions.empty() ? nullptr : std::get_if<Kind>(&actions.front());
    EXPECT_NE(kind, nullptr);
    return kind == nullptr ? Kind{} : *kind;
  }

  // From apart to following, with these entries.
  void Follow(const Entries& entries = {{kOwnKey, "me"}}) {
    clock_.AdvanceMs(2'000);
    session_.OnTimer();
    session_.OnGranted(kLease, 10);
    session_.OnPut();
    session_.OnListed(entries, 40);
    ASSERT_EQ(session_.state(), State::kFollowing);
    session_.TakeActions();
  }

  // When the next attempt begins, from now.
  int64_t BackoffMs() const { return (session_.NextTimer() - clock_.Now()) / kNsPerMs; }

  ManualClock clock_;
  SeededRandom random_{20261125};
  DirectorySession session_{{.key = kOwnKey, .value = "me"}, clock_, random_};
};

TEST_F(DirectorySessionTest, AnnouncesItselfUnderALeaseBeforeItListsTheOthers) {
  session_.OnTimer();
  EXPECT_EQ(TheAction<action::Grant>().ttl_s, kDirectoryTtlS);
  session_.OnGranted(kLease, 10);
  const auto put = TheAction<action::Put>();
  EXPECT_EQ(put.key, kOwnKey);
  EXPECT_EQ(put.value, "me");
  EXPECT_EQ(put.lease, kLease);
  session_.OnPut();
  TheAction<action::List>();
  EXPECT_EQ(session_.state(), State::kListing);
}

TEST_F(DirectorySessionTest, WatchesFromTheRevisionBehindItsList) {
  session_.OnTimer();
  session_.OnGranted(kLease, 10);
  session_.OnPut();
  session_.TakeActions();
  session_.OnListed({{kOwnKey, "me"}}, 40);
  const std::vector<Action> actions = session_.TakeActions();
  ASSERT_EQ(actions.size(), 3u);
  EXPECT_EQ(std::get<action::Watch>(actions[0]).from_revision, 41);
  EXPECT_EQ(std::get<action::KeepAlive>(actions[1]).lease, kLease);
  EXPECT_EQ(Name(actions[2]), "Changed");
}

TEST_F(DirectorySessionTest, TellsOnlyChangesThatChangeAnEntry) {
  Follow();
  session_.OnChanges({{.key = "/fleet/workers/2", .value = "w"}});
  EXPECT_THAT(Actions(), ElementsAre("Changed"));
  session_.OnChanges({{.key = "/fleet/workers/2", .value = "w"}, {.key = "/fleet/workers/9", .deleted = true}});
  EXPECT_THAT(Actions(), ElementsAre());
  session_.OnChanges({{.key = "/fleet/workers/2", .value = {}, .deleted = true}});
  EXPECT_THAT(Actions(), ElementsAre("Changed"));
  EXPECT_EQ(session_.entries(), (Entries{{kOwnKey, "me"}}));
}

TEST_F(DirectorySessionTest, KeepsItsLeaseAliveThreeTimesInItsTime) {
  Follow();
  for (int i = 0; i < 10; ++i) {
    clock_.Set(session_.NextTimer());
    session_.OnTimer();
    EXPECT_EQ(TheAction<action::KeepAlive>().lease, kLease);
    session_.OnKeptAlive(10);
  }
  EXPECT_EQ(clock_.Now(), kNsPerSecond + After(0, 2'000 + 10 * 3'333));
  EXPECT_EQ(session_.state(), State::kFollowing);
}

TEST_F(DirectorySessionTest, ALeaseThatIsNotKeptAliveForItsTimeIsGivenUp) {
  Follow();
  const TimeNs until = After(clock_.Now(), 10'000);
  while (session_.state() == State::kFollowing) {
    clock_.Set(session_.NextTimer());
    session_.OnTimer();
  }
  EXPECT_EQ(clock_.Now(), until);
  EXPECT_EQ(Actions().back(), "HangUp");
  EXPECT_EQ(session_.broken().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(DirectorySessionTest, AnExpiredLeaseIsReplacedAtOnce) {
  Follow();
  clock_.AdvanceMs(8'000);
  session_.OnKeptAlive(0);
  EXPECT_THAT(Actions(), ElementsAre("HangUp"));
  session_.OnTimer();
  EXPECT_THAT(Actions(), ElementsAre("Grant"));
}

TEST_F(DirectorySessionTest, AnEntryThatSomebodyDeletesIsWrittenAgain) {
  Follow();
  clock_.AdvanceMs(8'000);
  session_.OnChanges({{.key = kOwnKey, .value = {}, .deleted = true}});
  EXPECT_THAT(Actions(), ElementsAre("Changed", "HangUp"));
  session_.OnTimer();
  session_.OnGranted(kLease + 1, 10);
  session_.TakeActions();
  EXPECT_EQ(session_.state(), State::kAnnouncing);
}

TEST_F(DirectorySessionTest, WhoDeletesTheEntryAgainAndAgainMakesNoBusyLoop) {
  Follow();
  session_.OnChanges({{.key = kOwnKey, .value = {}, .deleted = true}});
  EXPECT_GE(BackoffMs(), 50);
}

TEST_F(DirectorySessionTest, WhatIsKnownStaysKnownWhileTheStoreIsAway) {
  Follow({{kOwnKey, "me"}, {"/fleet/workers/2", "w"}});
  session_.OnBroken(absl::UnavailableError("reset"));
  EXPECT_THAT(Actions(), ElementsAre("HangUp"));
  EXPECT_EQ(session_.entries().size(), 2u);
  Follow({{kOwnKey, "me"}});
  EXPECT_EQ(session_.entries().size(), 1u);
}

TEST_F(DirectorySessionTest, AListThatEqualsWhatIsKnownIsNoChange) {
  Follow();
  session_.OnBroken(absl::UnavailableError("reset"));
  session_.TakeActions();
  clock_.AdvanceMs(2'000);
  session_.OnTimer();
  session_.OnGranted(kLease, 10);
  session_.OnPut();
  session_.OnListed({{kOwnKey, "me"}}, 90);
  EXPECT_THAT(Actions(), ElementsAre("Grant", "Put", "List", "Watch", "KeepAlive"));
}

TEST_F(DirectorySessionTest, TheBackOffDoublesToItsBoundAndIsDrawn) {
  int64_t most_ms = 0;
  for (int64_t expected_ms = 100; expected_ms < 40'000; expected_ms *= 2) {
    clock_.Set(session_.NextTimer());
    session_.OnTimer();
    session_.OnBroken(absl::UnavailableError("refused"));
    const int64_t bound_ms = std::min<int64_t>(expected_ms, 2'000);
    EXPECT_GE(BackoffMs(), bound_ms / 2);
    EXPECT_LE(BackoffMs(), bound_ms);
    most_ms = std::max(most_ms, BackoffMs());
  }
  EXPECT_GT(most_ms, 1'000);
}

TEST_F(DirectorySessionTest, AnAnswerThatDoesNotComeEndsTheAttempt) {
  session_.OnTimer();
  session_.OnGranted(kLease, 10);
  session_.TakeActions();
  clock_.Set(session_.NextTimer());
  session_.OnTimer();
  EXPECT_THAT(Actions(), ElementsAre("HangUp"));
  EXPECT_EQ(session_.state(), State::kApart);
}

TEST_F(DirectorySessionTest, AnUntrueTimeOfALeaseIsBounded) {
  for (const int64_t ttl_s : {int64_t{-1}, int64_t{0}, std::numeric_limits<int64_t>::max()}) {
    DirectorySession session({.key = kOwnKey, .value = "me"}, clock_, random_);
    session.OnTimer();
    session.OnGranted(kLease, ttl_s);
    session.OnPut();
    session.OnListed({}, 1);
    EXPECT_GT(session.NextTimer(), clock_.Now());
    EXPECT_LE(session.NextTimer(), After(clock_.Now(), 20'000));
  }
}

TEST_F(DirectorySessionTest, LeavesByRevokingItsLease) {
  Follow();
  session_.Leave();
  EXPECT_EQ(TheAction<action::Revoke>().lease, kLease);
  session_.OnRevoked();
  EXPECT_THAT(Actions(), ElementsAre("HangUp"));
  EXPECT_EQ(session_.state(), State::kGone);
  EXPECT_EQ(session_.NextTimer(), kNever);
}

TEST_F(DirectorySessionTest, LeavesWithoutAnAnswerAfterASecond) {
  Follow();
  session_.Leave();
  session_.TakeActions();
  clock_.AdvanceMs(999);
  session_.OnTimer();
  EXPECT_EQ(session_.state(), State::kLeaving);
  clock_.AdvanceMs(1);
  session_.OnTimer();
  EXPECT_EQ(session_.state(), State::kGone);
}

TEST_F(DirectorySessionTest, LeavesAtOnceWhereNothingIsAnnounced) {
  session_.OnTimer();
  session_.TakeActions();
  session_.Leave();
  EXPECT_THAT(Actions(), ElementsAre("HangUp"));
  EXPECT_EQ(session_.state(), State::kGone);
}

TEST_F(DirectorySessionTest, EntriesBeyondTheirBoundAreLeftOut) {
  Entries entries = {{kOwnKey, "me"}};
  for (size_t i = 0; i < kMaxDirectoryEntries + 5; ++i) entries.emplace("/fleet/workers/" + std::to_string(i), "w");
  entries.emplace("/fleet/a", std::string(kMaxAnnouncementBytes + 1, 'x'));
  Follow(entries);
  EXPECT_EQ(session_.entries().size(), kMaxDirectoryEntries);
  EXPECT_FALSE(session_.entries().contains("/fleet/a"));
  session_.OnChanges({{.key = "/fleet/workers/z", .value = "w"}});
  EXPECT_THAT(Actions(), ElementsAre());
  session_.OnChanges({{.key = kOwnKey, .value = "changed"}});
  EXPECT_THAT(Actions(), ElementsAre("Changed"));
}

TEST_F(DirectorySessionTest, AnswersThatNobodyAwaitsChangeNothing) {
  session_.OnPut();
  session_.OnListed({{"a", "b"}}, 3);
  session_.OnChanges({{.key = "a", .value = "b"}});
  session_.OnKeptAlive(0);
  session_.OnRevoked();
  session_.OnBroken(absl::UnavailableError("late"));
  EXPECT_THAT(Actions(), ElementsAre());
  EXPECT_EQ(session_.state(), State::kApart);
  EXPECT_TRUE(session_.entries().empty());
}

}  // namespace
}  // namespace baton::discovery
