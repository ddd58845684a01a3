#include "worker/join_log.h"

#include <string>
#include <vector>

#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JoinLogTest : public ::testing::Test {
 protected:
  // What is said while attempts fail for this time, one each second with ten ticks between.
  std::vector<std::string> Fail(const absl::Status& why, int seconds) {
    std::vector<std::string> lines;
    const auto keep = [&lines](const std::optional<LogLine>& line) {
      if (line.has_value()) lines.push_back(line->text);
    };
    for (int second = 0; second < seconds; ++second) {
      keep(log_.OnNotJoined(why));
      for (int tick = 0; tick < 10; ++tick) {
        clock_.Advance(kNsPerSecond / 10);
        keep(log_.OnTick());
      }
    }
    return lines;
  }

  const absl::Status away_ = absl::UnavailableError(
      "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:9: Failed to connect to remote host: "
      "Connection refused");
  const absl::Status refusal_ = absl::FailedPreconditionError("this router serves tiny, the worker has other");
  ManualClock clock_;
  JoinLog log_{"host:1", clock_};
};

TEST_F(JoinLogTest, ARouterThatIsAwayIsWarnedOfAfterTwoSecondsAndThenEveryHalfMinute) {
  EXPECT_THAT(Fail(away_, 1), IsEmpty());
  const std::vector<std::string> first = Fail(away_, 2);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(
      first[0],
      "cannot reach the router at host:1 for 2.0 s: Connection refused; is `baton router` running there, and is this "
      "its --cluster-port? Asking on");
  const std::vector<std::string> later = Fail(away_, 60);
  ASSERT_EQ(later.size(), 2u);
  EXPECT_THAT(later[1], HasSubstr("for 1m2s"));
  const LogLine joined = log_.OnJoined();
  EXPECT_EQ(joined.level, LogLine::Level::kInfo);
  EXPECT_EQ(joined.text, "joined the router at host:1 after 1m3s");
}

TEST_F(JoinLogTest, AnAttemptThatHangsIsWarnedOfToo) {
  std::vector<std::string> lines;
  for (int tick = 0; tick < 100; ++tick) {
    clock_.Advance(kNsPerSecond / 20);
    if (const auto line = log_.OnTick()) lines.push_back(line->text);
  }
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("for 2.0 s: it does not answer"));
}

TEST_F(JoinLogTest, ARefusalIsAnErrorAtOnceAndAgainEveryHalfMinuteAndForAnotherReasonAtOnce) {
  const std::vector<std::string> lines = Fail(refusal_, 40);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            "the router at host:1 refuses this worker: this router serves tiny, the worker has other; asking again");
  EXPECT_THAT(lines[1], HasSubstr("; still asking, after 30.0 s"));
  const auto other = log_.OnNotJoined(absl::UnimplementedError(""));
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->level, LogLine::Level::kError);
  EXPECT_THAT(other->text, HasSubstr("--router names the router's --cluster-port"));
  EXPECT_FALSE(log_.OnNotJoined(absl::UnimplementedError("")).has_value());
}

TEST_F(JoinLogTest, AWorkerThatJoinsAtOnceSaysSoInOneLineAndMayBeRefusedAnew) {
  EXPECT_EQ(log_.OnJoined().text, "joined the router at host:1");
  const LogLine ended = log_.OnEnded(absl::UnavailableError("not heard for 5000 ms"));
  EXPECT_EQ(ended.level, LogLine::Level::kWarning);
  EXPECT_EQ(ended.text, "the router at host:1 ended the membership: not heard for 5000 ms; joining again");
  EXPECT_EQ(Fail(refusal_, 1).size(), 1u);
  EXPECT_EQ(log_.OnJoined().text, "joined the router at host:1 after 1.0 s");
  EXPECT_EQ(log_.OnEnded(absl::CancelledError("the router ends")).level, LogLine::Level::kInfo);
  EXPECT_THAT(Fail(away_, 1), IsEmpty()) << "the two seconds begin anew";
  EXPECT_EQ(log_.OnEnded(absl::OkStatus()).text, "left the router at host:1");
}

TEST_F(JoinLogTest, AWorkerThatDoesNotAskBecauseItsEngineIsStuckSaysSo) {
  const auto line = log_.OnStuck(31'000);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->text,
            "this worker does not ask the router at host:1 to join before its engine moves: its engine has been in one "
            "step for 31 s");
  EXPECT_FALSE(log_.OnStuck(32'000).has_value());
}

}  // namespace
}  // namespace baton::worker
