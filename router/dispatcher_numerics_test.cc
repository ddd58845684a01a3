// A job whose client allows other numerics goes on, labelled, where no worker is left that computes exactly the same.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kOwn = "exact-v2/kv:bf16/weights:w/probe:1";
constexpr const char* kOther = "exact-v2/kv:int8/weights:w/probe:2";

class DispatcherNumericsTest : public DispatcherTest {
 protected:
  // No worker is silent in these tests.
  DispatcherNumericsTest() { options_.worker_silence_ms = 1'000'000; }

  static WorkerInfo Worker(uint64_t n, WorkerRole role, const std::string& fingerprint) {
    WorkerInfo info = MakeWorker(n, role);
    info.fingerprint = fingerprint;
    return info;
  }
  void JoinPairOf(uint64_t prefill, uint64_t decode, const std::string& fingerprint) {
    Join(Worker(prefill, WorkerRole::kPrefill, fingerprint));
    Join(Worker(decode, WorkerRole::kDecode, fingerprint));
  }
  void Lose(uint64_t n) { dispatcher().OnWorkerLost(MakeWorkerId(n), kBroken); }
  // Outputs of an attempt from `begin` to `end` - 1: 70, 71 and so on by their index. P gives the first of them.
  void Stream(const JobKey& key, int32_t begin, int32_t end) {
    Started(kD, key);
    Started(kP, key);
    Token(kP, key, begin, 70 + begin);
    Finished(kP, key);
    CallEnd(kP, key);
    Committed(key);
    Token(kD, key, begin, 70 + begin);
    for (int32_t i = begin + 1; i < end; ++i) Token(kD, key, i, 70 + i);
  }
  void FinishAt(const JobKey& key, int32_t index) {
    Token(kD, key, index, 70 + index, FinishReason::kStop);
    Finished(kD, key);
    CallEnd(kD, key);
  }
  // Job 1 has two outputs of workers 1 and 2, of which 2 is lost. Workers 3 and 4 are of `other`.
  void LoseTheOnlyDecoder(const JobShape& shape, const std::string& other = kOther) {
    JoinPairOf(1, 2, kOwn);
    Submit(1, shape);
    Stream(KeyOf(1), 0, 2);
    JoinPairOf(3, 4, other);
    Lose(2);
    EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "1:0=70", "1:1=71"));
  }
};

TEST_F(DispatcherNumericsTest, AJobThatAllowsItGoesOnAfterAWhileAndEachOutputFromThereOnIsLabelled) {
  LoseTheOnlyDecoder({.allows_other_numerics = true});
  RunMs(options_.placing.other_numerics_wait_ms - 1);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("P3 1/2 after 2", "D4 1/2 after 2"));
  Stream(KeyOf(1, 2), 2, 4);
  FinishAt(KeyOf(1, 2), 4);
  EXPECT_THAT(Actions(), ElementsAre("1:2~72", "1:3~73", "1:4~74", "1:OK"));
  EXPECT_EQ(LastResult().other_numerics_from, 2);
  EXPECT_EQ(LastResult().fingerprint, kOther);
  EXPECT_EQ(LastResult().failovers, 1);
  ExpectNothingLeft();
}

TEST_F(DispatcherNumericsTest, AJobThatDoesNotAllowItWaitsForItsOwnAndEnds) {
  LoseTheOnlyDecoder({});
  RunMs(options_.placing.worker_return_ms - 1);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("no other worker of its fingerprint"));
  EXPECT_EQ(LastResult().other_numerics_from, std::nullopt);
}

TEST_F(DispatcherNumericsTest, AnotherModelNeverGoesOn) {
  LoseTheOnlyDecoder({.allows_other_numerics = true}, "exact-v2/kv:bf16/weights:v/probe:1");
  RunMs(options_.placing.worker_return_ms - 1);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("no other worker of its model"));
}

TEST_F(DispatcherNumericsTest, AWorkerOfItsOwnThatComesInTimeGoesOnWithoutALabel) {
  LoseTheOnlyDecoder({.allows_other_numerics = true});
  RunMs(options_.placing.other_numerics_wait_ms - 1);
  Join(Worker(5, WorkerRole::kDecode, kOwn));
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2 after 2", "D5 1/2 after 2"));
  Stream(KeyOf(1, 2), 2, 3);
  FinishAt(KeyOf(1, 2), 3);
  EXPECT_THAT(Actions(), ElementsAre("1:2=72", "1:3=73", "1:OK"));
  EXPECT_EQ(LastResult().other_numerics_from, std::nullopt);
}

TEST_F(DispatcherNumericsTest, AFullWorkerOfItsOwnIsWaitedFor) {
  JoinPairOf(1, 2, kOwn);
  Submit(1, {.allows_other_numerics = true});
  Stream(KeyOf(1), 0, 2);
  WorkerInfo narrow = Worker(5, WorkerRole::kDecode, kOwn);
  narrow.max_sequences = 1;
  Join(narrow);
  Submit(2);
  Stream(KeyOf(2), 0, 2);
  JoinPairOf(3, 4, kOther);
  Actions();
  Lose(2);
  RunMs(10 * options_.placing.other_numerics_wait_ms);
  EXPECT_THAT(Actions(), IsEmpty());
  FinishAt(KeyOf(2), 2);
  EXPECT_THAT(Actions(), ElementsAre("2:2=72", "2:OK", "P1 1/2 after 2", "D5 1/2 after 2"));
}

TEST_F(DispatcherNumericsTest, AWorkerOfItsOwnThatDrainsOrIsTooSmallIsNotWaitedFor) {
  JoinPairOf(1, 2, kOwn);
  Submit(1, {.prompt_tokens = 1'000, .allows_other_numerics = true});
  Stream(KeyOf(1), 0, 2);
  Join(Worker(5, WorkerRole::kDecode, kOwn));
  WorkerInfo small = Worker(6, WorkerRole::kDecode, kOwn);
  small.total_blocks = 10;
  Join(small);
  JoinPairOf(3, 4, kOther);
  Actions();
  dispatcher().OnWorkerLoad(MakeWorkerId(5), {.state = WorkerState::kDraining});
  Lose(2);
  RunMs(options_.placing.other_numerics_wait_ms);
  EXPECT_THAT(Actions(), ElementsAre("P3 1/2 after 2", "D4 1/2 after 2"));
}

TEST_F(DispatcherNumericsTest, AJobDoesNotWaitForItsOwnBeyondHalfOfTheTimeToItsDeadline) {
  LoseTheOnlyDecoder({.deadline = clock_.Now() + 1'000 * kNsPerMs, .allows_other_numerics = true});
  RunMs(499);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("P3 1/2 after 2", "D4 1/2 after 2"));
}

TEST_F(DispatcherNumericsTest, AJobWaitsForWorkersOfAnyNumericsAndTakesThoseThatComeFirst) {
  JoinPairOf(1, 2, kOwn);
  Submit(1, {.allows_other_numerics = true});
  Stream(KeyOf(1), 0, 2);
  Lose(2);
  Actions();
  RunMs(options_.placing.worker_return_ms / 2);
  EXPECT_THAT(Actions(), IsEmpty());
  JoinPairOf(3, 4, kOther);
  EXPECT_THAT(Actions(), ElementsAre("P3 1/2 after 2", "D4 1/2 after 2"));
}

TEST_F(DispatcherNumericsTest, AFullWorkerOfOtherNumericsIsWaitedForBeyondTheTimeInWhichWorkersReturn) {
  JoinPairOf(1, 2, kOwn);
  Submit(1, {.allows_other_numerics = true});
  Stream(KeyOf(1), 0, 2);
  Join(Worker(3, WorkerRole::kPrefill, kOther));
  WorkerInfo narrow = Worker(4, WorkerRole::kDecode, kOther);
  narrow.max_sequences = 1;
  Join(narrow);
  Submit(2);
  Stream(KeyOf(2), 0, 2);
  EXPECT_THAT(Actions(), ::testing::Contains("D4 2/1"));
  Lose(2);
  RunMs(2 * options_.placing.worker_return_ms);
  EXPECT_THAT(Actions(), IsEmpty());
  FinishAt(KeyOf(2), 2);
  EXPECT_THAT(Actions(), ElementsAre("2:2=72", "2:OK", "P3 1/2 after 2", "D4 1/2 after 2"));
}

TEST_F(DispatcherNumericsTest, TheFingerprintOfTheLastOutputIsItsOwnAndTheLabelStays) {
  LoseTheOnlyDecoder({.allows_other_numerics = true});
  RunMs(options_.placing.other_numerics_wait_ms);
  Stream(KeyOf(1, 2), 2, 4);
  Actions();
  Join(Worker(5, WorkerRole::kDecode, kOwn));
  Join(Worker(6, WorkerRole::kDecode, kOther));
  Lose(4);
  EXPECT_THAT(Actions(), ElementsAre("P3 1/3 after 4", "D6 1/3 after 4"));
  Stream(KeyOf(1, 3), 4, 5);
  Lose(6);
  EXPECT_THAT(Actions(), ElementsAre("1:4~74"));
  RunMs(options_.placing.other_numerics_wait_ms);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/4 after 5", "D5 1/4 after 5"));
  Stream(KeyOf(1, 4), 5, 6);
  FinishAt(KeyOf(1, 4), 6);
  EXPECT_THAT(Actions(), ElementsAre("1:5~75", "1:6~76", "1:OK"));
  EXPECT_EQ(LastResult().other_numerics_from, 2);
}

TEST_F(DispatcherNumericsTest, AnAttemptWithoutAnOutputChangesNothingOfTheNextOne) {
  LoseTheOnlyDecoder({.allows_other_numerics = true});
  RunMs(options_.placing.other_numerics_wait_ms);
  Actions();
  Join(Worker(5, WorkerRole::kDecode, kOwn));
  Lose(4);
  EXPECT_THAT(Actions(), ElementsAre("-P3 1/2", "P1 1/3 after 2", "D5 1/3 after 2"));
  Stream(KeyOf(1, 3), 2, 3);
  EXPECT_THAT(Actions(), ElementsAre("1:2=72"));
}

TEST_F(DispatcherNumericsTest, OthersOfAFormerVersionGetNoJobThatHasOutputs) {
  JoinPairOf(1, 2, kOwn);
  Submit(1, {.allows_other_numerics = true});
  Stream(KeyOf(1), 0, 2);
  Actions();
  WorkerInfo former = Worker(3, WorkerRole::kMixed, kOther);
  former.resumes_jobs = false;
  Join(former);
  Lose(2);
  RunMs(10 * options_.placing.other_numerics_wait_ms);
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(DispatcherNumericsTest, AllowingItChangesNothingOfTheFirstAttempt) {
  for (const bool allows : {false, true}) {
    SCOPED_TRACE(allows);
    dispatcher_.reset();
    JoinPairOf(1, 2, kOwn);
    JoinPairOf(3, 4, kOther);
    for (const uint64_t job : {1, 2}) Submit(job, {.allows_other_numerics = allows});
    EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "P3 2/1", "D4 2/1"));
    // One that has no output yet begins anew anywhere, and is labelled nowhere.
    Lose(2);
    EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "P3 1/2", "D4 1/2"));
    Stream(KeyOf(1, 2), 0, 2);
    EXPECT_THAT(Actions(), ElementsAre("1:0=70", "1:1=71"));
  }
}

}  // namespace
}  // namespace baton::router
