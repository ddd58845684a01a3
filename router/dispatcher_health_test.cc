// What hand-offs and speed say of workers decides where jobs go, and takes no job's chance away.
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const absl::Status kRefused = absl::UnavailableError("connection refused");

class DispatcherHealthTest : public DispatcherTest {
 protected:
  DispatcherHealthTest() { options_.worker_silence_ms = 1'000'000; }

  // Prefill workers 1 and 2, decode workers 3 and 4, all in full service.
  void JoinTwoByTwo() {
    Join(1, WorkerRole::kPrefill);
    Join(2, WorkerRole::kPrefill);
    Join(3, WorkerRole::kDecode);
    Join(4, WorkerRole::kDecode);
    RunMs(kRampUpMs);
  }
  // "1/3" of the job's attempt, which must have been placed just now.
  std::string PlacedPair() {
    std::string prefill = "-";
    std::string decode = "-";
    for (const DispatchAction& action : dispatcher().TakeActions()) {
      if (const auto* start = std::get_if<StartPrefill>(&action)) prefill = std::to_string(start->worker.low);
      if (const auto* start = std::get_if<StartDecode>(&action)) decode = std::to_string(start->worker.low);
    }
    return prefill + "/" + decode;
  }
  // D cannot fetch from P, which says so or is cancelled.
  void FailHandOff(const JobKey& key, const absl::Status& why = kRefused) {
    Started(kD, key);
    CallEnd(kD, key, why);
    RunMs(options_.echo_wait_ms);
    CallEnd(kP, key, kCancelledCall);
  }
  void Serve(const JobKey& key) {
    PrefillDone(key, 70);
    Committed(key);
    DecodeDone(key);
    dispatcher().TakeActions();
  }
  std::vector<std::string> Notes() { return dispatcher().TakeHealthNotes(); }
};

TEST_F(DispatcherHealthTest, TheNextAttemptAndLaterJobsAvoidAPairWhoseHandOffFailed) {
  JoinTwoByTwo();
  Submit(1);
  ASSERT_EQ(PlacedPair(), "1/3");
  FailHandOff(KeyOf(1));
  EXPECT_EQ(PlacedPair(), "2/3") << "both of its workers serve on";
  EXPECT_THAT(Notes(), ElementsAre(HasSubstr("from prefill worker host:1 to decode worker host:3 fail")));
  Serve(KeyOf(1, 2));
  for (uint64_t n = 2; n < 6; ++n) {
    Submit(n);
    EXPECT_NE(PlacedPair(), "1/3");
    Serve(KeyOf(n));
  }
  ExpectNothingLeft();
}

TEST_F(DispatcherHealthTest, EveryWayInWhichAHandOffFailsIsThePairs) {
  for (const absl::Status& why : {kRefused, absl::DataLossError("digest"), absl::NotFoundError("no such job"),
                                  absl::FailedPreconditionError("another process")}) {
    dispatcher_.reset();
    JoinTwoByTwo();
    Submit(1);
    ASSERT_EQ(PlacedPair(), "1/3");
    FailHandOff(KeyOf(1), why);
    EXPECT_EQ(PlacedPair(), "2/3") << why;
  }
  dispatcher_.reset();
  JoinTwoByTwo();
  Submit(1);
  ASSERT_EQ(PlacedPair(), "1/3");
  Started(kD, KeyOf(1));
  CallEnd(kP, KeyOf(1), absl::UnavailableError("no decode worker fetched the prompt"));
  EXPECT_EQ(PlacedPair(), "1/4") << "P said so";
}

TEST_F(DispatcherHealthTest, NoErrorBesidesAHandOffIsAPairs) {
  JoinTwoByTwo();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Committed(KeyOf(1));
  CallEnd(kD, KeyOf(1), kBroken);
  Actions();
  EXPECT_EQ(dispatcher().health().bad_pairs(), 0u) << "D had the KV";
  Submit(2);
  Refuse(kD, KeyOf(2));
  EXPECT_EQ(dispatcher().health().bad_pairs(), 0u) << "it had no room";
  Submit(3);
  dispatcher().OnWorkerLost(MakeWorkerId(1), kBroken);
  EXPECT_EQ(dispatcher().health().bad_pairs(), 0u) << "it was lost";
  EXPECT_THAT(Notes(), IsEmpty());
}

TEST_F(DispatcherHealthTest, TheOnlyPairIsUsedHoweverBadItIs) {
  JoinPair();
  Submit(1);
  FailHandOff(KeyOf(1));
  EXPECT_THAT(Actions(), Contains("D2 1/2"));
  FailHandOff(KeyOf(1, 2));
  EXPECT_THAT(Actions(), Contains("D2 1/3"));
  Serve(KeyOf(1, 3));
  EXPECT_THAT(Notes(), ElementsAre(HasSubstr("fail"), HasSubstr("go well again")));
  ExpectNothingLeft();
}

TEST_F(DispatcherHealthTest, AJobWaitsForAGoodPairRatherThanMeetABadOne) {
  options_.placing.placement.max_pending_chunks = 1;
  Join(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kPrefill);
  Join(3, WorkerRole::kDecode);
  Submit(1);
  ASSERT_EQ(PlacedPair(), "1/3");
  FailHandOff(KeyOf(1));
  ASSERT_EQ(PlacedPair(), "2/3");
  Submit(2);
  EXPECT_EQ(PlacedPair(), "-/-") << "worker 2 computes";
  PrefillDone(KeyOf(1, 2), 70);
  EXPECT_EQ(PlacedPair(), "2/3");
}

TEST_F(DispatcherHealthTest, ASingleJobTriesTheBadPairAgainAndItsSuccessClearsIt) {
  JoinTwoByTwo();
  Submit(1);
  FailHandOff(KeyOf(1));
  Serve(KeyOf(1, 2));
  RunMs(2 * kMinAvoidMs);
  Submit(2);
  Submit(3);
  std::vector<std::string> actions = Actions();
  EXPECT_THAT(actions, ElementsAre("P1 2/1", "D3 2/1", "P2 3/1", "D4 3/1"));
  Serve(KeyOf(3));
  Submit(4);
  EXPECT_NE(PlacedPair(), "1/3");
  Serve(KeyOf(4));
  Serve(KeyOf(2));
  EXPECT_EQ(dispatcher().health().bad_pairs(), 0u);
}

TEST_F(DispatcherHealthTest, APairIsForgottenWithItsWorkers) {
  JoinTwoByTwo();
  Submit(1);
  FailHandOff(KeyOf(1));
  Serve(KeyOf(1, 2));
  EXPECT_EQ(dispatcher().health().bad_pairs(), 1u);
  EXPECT_THAT(dispatcher().health().ConditionOf(MakeWorkerId(1)).bad_partners, ElementsAre("host:3"));
  dispatcher().OnWorkerLost(MakeWorkerId(3), kBroken);
  EXPECT_EQ(dispatcher().health().bad_pairs(), 0u);
}

// 2,000 jobs in 100 s, while a pair of four is cut off for the first half of them. Of these, every other one would meet
// it.
TEST_F(DispatcherHealthTest, APairThatIsCutOffForLongCostsAFewAttempts) {
  JoinTwoByTwo();
  int failed = 0;
  int pair_served = 0;
  for (uint64_t n = 1; n <= 1'000; ++n) {
    AdvanceMs(100);
    // Another job keeps the first workers busy at every other time, so that all pairs have their turn.
    const uint64_t other = 10'000 + n;
    Submit(other);
    const std::string others_pair = PlacedPair();
    Submit(n);
    std::string pair = PlacedPair();
    uint32_t attempt = 1;
    if (n <= 500 && pair == "1/3") {
      ++failed;
      FailHandOff(KeyOf(n));
      pair = PlacedPair();
      attempt = 2;
    }
    if (n > 500) pair_served += (pair == "1/3") + (others_pair == "1/3");
    Serve(KeyOf(n, attempt));
    uint32_t others_attempt = 1;
    if (n <= 500 && others_pair == "1/3") {
      ++failed;
      FailHandOff(KeyOf(other));
      ASSERT_NE(PlacedPair(), "1/3");
      others_attempt = 2;
    }
    Serve(KeyOf(other, others_attempt));
  }
  std::cout << failed << " of 1,000 jobs met the pair while it was cut off, and " << pair_served << " afterwards\n";
  EXPECT_GE(failed, 4);
  EXPECT_LE(failed, 8) << "trials after 1, 2, 4, 8, 16 and 32 s";
  EXPECT_GT(pair_served, 100) << "it comes back by itself";
  ExpectNothingLeft();
}

class DispatcherGrayTest : public DispatcherHealthTest {
 protected:
  // Prefill worker 1, decode workers 2, 3 and 4, all in full service.
  void JoinThreeDecoders() {
    Join(1, WorkerRole::kPrefill);
    for (const uint64_t n : {2, 3, 4}) Join(n, WorkerRole::kDecode);
    RunMs(kRampUpMs);
  }
  // Jobs 1, 2 and 3 stream from decode workers 2, 3 and 4.
  void Begin() {
    for (uint64_t n = 1; n <= 3; ++n) {
      Submit(n, {.max_tokens = 100'000});
      PrefillDone(KeyOf(n), 70);
      Committed(KeyOf(n));
      index_[n] = 1;
    }
    Actions();
  }
  // The jobs give outputs, each at its pace.
  void Run(int64_t ms, std::initializer_list<int64_t> itl_ms) {
    for (int64_t now = 1; now <= ms; ++now) {
      AdvanceMs(1);
      uint64_t job = 0;
      for (const int64_t itl : itl_ms) {
        if (++job; now % itl == 0) Token(kD, KeyOf(job), index_[job]++, 5);
      }
    }
    Actions();
  }
  bool IsSlow(uint64_t worker) { return dispatcher().health().ConditionOf(MakeWorkerId(worker)).slow; }

  std::map<uint64_t, int32_t> index_;
};

TEST_F(DispatcherGrayTest, AWorkerTenTimesSlowerGetsNothingButTrials) {
  JoinThreeDecoders();
  Begin();
  Run(5'000, {100, 10, 10});
  EXPECT_TRUE(IsSlow(2));
  EXPECT_THAT(Notes(), ElementsAre(HasSubstr("decode worker host:2 is much slower than its peers")));
  EXPECT_EQ(dispatcher().health().ejections()[static_cast<size_t>(WorkerRole::kDecode)], 1);
  for (uint64_t n = 11; n < 31; ++n) {
    Submit(n);
    EXPECT_THAT(Actions(), Not(Contains(HasSubstr("D2"))));
    PrefillDone(KeyOf(n), 70);
  }
}

TEST_F(DispatcherGrayTest, AWorkerThatTakesSecondsForAFewOutputsIsKnownWithinSeconds) {
  JoinThreeDecoders();
  Begin();
  Run((kSlowSamples + 1) * kTimedOutputsMs, {kTimedOutputsMs / 2, 40, 40});
  EXPECT_TRUE(IsSlow(2));
}

TEST_F(DispatcherGrayTest, ItsStreamsGoOnAndBringItBackWhenItIsFastAgain) {
  JoinThreeDecoders();
  Begin();
  Run(5'000, {100, 10, 10});
  ASSERT_TRUE(IsSlow(2));
  Run(1'000, {10, 10, 10});
  EXPECT_FALSE(IsSlow(2));
  EXPECT_THAT(Notes(), ElementsAre(HasSubstr("slower"), HasSubstr("as fast as its peers again")));
}

TEST_F(DispatcherGrayTest, EqualWorkersAreNeverEjected) {
  JoinThreeDecoders();
  Begin();
  Run(20'000, {11, 10, 13});
  EXPECT_THAT(Notes(), IsEmpty());
}

TEST_F(DispatcherGrayTest, APausedWorkerIsNotEjectedAndNeitherAreThoseOfAPausedRouter) {
  JoinThreeDecoders();
  Begin();
  Run(1'000, {10, 10, 10});
  Run(1'400, {1'401, 10, 10});
  Run(1'000, {10, 10, 10});
  AdvanceMs(3'000);
  Run(1'000, {10, 10, 10});
  EXPECT_THAT(Notes(), IsEmpty());
}

TEST_F(DispatcherGrayTest, TheLastWorkerServesHoweverSlowItIs) {
  JoinThreeDecoders();
  Begin();
  Run(5'000, {100, 10, 10});
  ASSERT_TRUE(IsSlow(2));
  for (const uint64_t job : {2, 3}) dispatcher().Cancel(KeyOf(job).choice_key(), absl::CancelledError("enough"));
  for (const uint64_t worker : {3, 4}) dispatcher().OnWorkerLost(MakeWorkerId(worker), kBroken);
  Actions();
  Submit(20);
  EXPECT_THAT(Actions(), Contains("D2 20/1"));
}

TEST_F(DispatcherGrayTest, ASlowPrefillWorkerIsEjectedByItsReports) {
  for (const uint64_t n : {1, 2, 3}) Join(n, WorkerRole::kPrefill);
  Join(4, WorkerRole::kDecode);
  RunMs(kRampUpMs);
  uint64_t job = 0;
  for (int round = 0; round < 12; ++round) {
    // Three jobs at once, one for each worker.
    for (int i = 0; i < 3; ++i) Submit(++job);
    AdvanceMs(500);
    std::map<uint64_t, uint64_t> worker_of;
    for (const DispatchAction& action : dispatcher().TakeActions()) {
      if (const auto* start = std::get_if<StartPrefill>(&action)) worker_of[start->key.job.low] = start->worker.low;
    }
    for (const auto& [n, worker] : worker_of) {
      const JobKey key = KeyOf(n);
      Started(kD, key);
      Started(kP, key);
      Token(kP, key, 0, 70);
      Finished(kP, key, (worker == 1 ? 400 : 40) * kNsPerMs);
      CallEnd(kP, key);
      Committed(key);
      DecodeDone(key);
    }
  }
  EXPECT_TRUE(IsSlow(1));
  EXPECT_EQ(dispatcher().health().ejections()[static_cast<size_t>(WorkerRole::kPrefill)], 1);
}

class DispatcherRampUpTest : public DispatcherHealthTest {
 protected:
  // How many of `jobs` new jobs go to each decode worker. Their prompts are done at once.
  std::map<uint64_t, int> Decoders(int jobs) {
    std::map<uint64_t, int> counts;
    for (int i = 0; i < jobs; ++i) {
      Submit(++last_job_);
      for (const DispatchAction& action : dispatcher().TakeActions()) {
        if (const auto* start = std::get_if<StartDecode>(&action)) ++counts[start->worker.low];
      }
      PrefillDone(KeyOf(last_job_), 70);
    }
    return counts;
  }

  uint64_t last_job_ = 0;
};

TEST_F(DispatcherRampUpTest, AWorkerThatJoinsABusyClusterGetsItsShareGradually) {
  JoinPair();
  RunMs(kRampUpMs);
  EXPECT_EQ(Decoders(4)[2], 4);
  Join(3, WorkerRole::kDecode);
  EXPECT_THAT(Decoders(4), ElementsAre(std::pair(2u, 3), std::pair(3u, 1)));
  RunMs(kRampUpMs / 2);
  EXPECT_THAT(Decoders(4), ElementsAre(std::pair(3u, 4)));
}

TEST_F(DispatcherRampUpTest, NoJobWaitsForARampWhileAWorkerHasRoom) {
  JoinPair();
  RunMs(kRampUpMs);
  EXPECT_EQ(Decoders(16)[2], 16) << "all of its sequences";
  Join(3, WorkerRole::kDecode);
  EXPECT_EQ(Decoders(16)[3], 16);
}

TEST_F(DispatcherRampUpTest, AFreshClusterServesWithAllItsWorkersAtOnce) {
  JoinPair();
  Join(3, WorkerRole::kDecode);
  EXPECT_THAT(Decoders(8), ElementsAre(std::pair(2u, 4), std::pair(3u, 4)));
}

TEST_F(DispatcherRampUpTest, AWorkerAloneTakesEverythingAtOnce) {
  Join(1, WorkerRole::kPrefill);
  RunMs(kRampUpMs);
  Join(2, WorkerRole::kDecode);
  EXPECT_EQ(Decoders(16)[2], 16);
}

}  // namespace
}  // namespace baton::router
