// Jobs that a former router took: this one takes them up before its workers are back.
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DispatcherRecoveryTest : public DispatcherTest {
 protected:
  void Recover(uint64_t n, const std::string& fingerprint, int prompt_tokens = 40) {
    auto spec = std::make_shared<JobSpec>(*MakeJob(n, {.prompt_tokens = prompt_tokens}));
    spec->is_recovered = true;
    spec->attempts_before = 1 << 16;
    spec->fingerprint = fingerprint;
    ASSERT_TRUE(dispatcher().Submit(std::move(spec)).ok());
  }
  static JobKey SecondLife(uint64_t n) { return KeyOf(n, (1 << 16) + 1); }
  void JoinMixed(uint64_t n, const std::string& fingerprint, int blocks = 100) {
    WorkerInfo info = MakeWorker(n, WorkerRole::kMixed);
    info.fingerprint = fingerprint;
    info.total_blocks = blocks;
    Join(info);
  }
};

TEST_F(DispatcherRecoveryTest, ItsAttemptsGetNumbersThatNoFormerOneHad) {
  Recover(1, "");
  AdvanceMs(30'000);
  dispatcher().OnTimer();
  EXPECT_THAT(Actions(), IsEmpty()) << "its workers may still come back";
  JoinMixed(1, "f");
  EXPECT_THAT(Actions(), ElementsAre("local1 1/65537"));
}

TEST_F(DispatcherRecoveryTest, OnlyWorkersOfTheFingerprintThatGaveItsOutputsTakeIt) {
  Recover(1, "f");
  JoinMixed(1, "other");
  RunMs(1'000);
  EXPECT_THAT(Actions(), IsEmpty());
  JoinMixed(2, "f");
  EXPECT_THAT(Actions(), ElementsAre("local2 1/65537"));
}

TEST_F(DispatcherRecoveryTest, ItWaitsForALargerWorkerWhereOnlyASmallOneIsBack) {
  for (const std::string fingerprint : {"", "f"}) {
    SCOPED_TRACE(fingerprint);
    dispatcher_.reset();
    JoinMixed(1, "f", /*blocks=*/10);
    Recover(1, fingerprint, /*prompt_tokens=*/1'000);
    RunMs(1'000);
    EXPECT_THAT(Actions(), IsEmpty());
    JoinMixed(2, "f");
    EXPECT_THAT(Actions(), ElementsAre("local2 1/65537"));
  }
}

TEST_F(DispatcherRecoveryTest, ItEndsWhenNobodyIsBackInTimeThatCouldServeIt) {
  options_.worker_silence_ms = 1'000'000;
  for (const std::string fingerprint : {"", "f"}) {
    SCOPED_TRACE(fingerprint);
    dispatcher_.reset();
    if (!fingerprint.empty()) JoinMixed(1, "other");
    Recover(1, fingerprint);
    RunMs(options_.placing.worker_return_ms - 1);
    EXPECT_THAT(Actions(), IsEmpty());
    RunMs(1);
    EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
    ExpectNothingLeft();
  }
}

TEST_F(DispatcherRecoveryTest, ItGoesBeforeAJobThatComesWhenItIsLateAlready) {
  options_.placing.ttft_target_ms = 1'000;
  Recover(1, "");
  RunMs(2'000);
  Submit(2);
  JoinMixed(1, "f");
  const std::vector<std::string> actions = Actions();
  ASSERT_FALSE(actions.empty());
  EXPECT_EQ(actions.front(), "local1 1/65537");
}

TEST_F(DispatcherRecoveryTest, AFullQueueAndAnEmptyBucketRefuseNoneOfThem) {
  options_.max_queued_jobs = 1;
  options_.tenant_buckets = {.tokens_per_second = 1, .burst_tokens = 1};
  for (const uint64_t n : {1, 2, 3}) Recover(n, "");
  EXPECT_EQ(dispatcher().queued_jobs(), 3);
  EXPECT_FALSE(dispatcher().Submit(MakeJob(4)).ok());
}

TEST_F(DispatcherRecoveryTest, TheFingerprintOfOutputsIsToldWithThemAndWithTheEnd) {
  JoinMixed(1, "f");
  Submit(1);
  const ChoiceKey key = KeyOf(1).choice_key();
  EXPECT_EQ(dispatcher().FingerprintOf(key), "");
  Started(kD, KeyOf(1));
  Token(kD, KeyOf(1), 0, 70);
  EXPECT_EQ(dispatcher().FingerprintOf(key), "f");
  DecodeDone(KeyOf(1));
  Actions();
  EXPECT_EQ(LastResult().fingerprint, "f");
  EXPECT_EQ(dispatcher().FingerprintOf(key), "") << "it has ended";
  Recover(2, "f");
  EXPECT_EQ(dispatcher().FingerprintOf(KeyOf(2).choice_key()), "") << "it has no output yet";
}

TEST_F(DispatcherRecoveryTest, ItKeepsItsFingerprintWhenItsFirstAttemptFails) {
  Recover(1, "f");
  JoinMixed(1, "f");
  Actions();
  Started(kD, SecondLife(1));
  JoinMixed(2, "other");
  dispatcher().OnWorkerLost(MakeWorkerId(1), kBroken);
  EXPECT_THAT(Actions(), IsEmpty()) << "the other worker would give other tokens";
  JoinMixed(3, "f");
  EXPECT_THAT(Actions(), ElementsAre("local3 1/65538"));
}

}  // namespace
}  // namespace baton::router
