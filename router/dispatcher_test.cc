// A placed job up to its end: rows of the dispatcher's table, and updates that come late, twice or never.
#include "router/dispatcher.h"

#include "gmock/gmock.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(DispatcherTest, APairIsCalledAtOnceAndItsTokensComeInOrder) {
  JoinPair();
  Submit(1, {.max_tokens = 3});
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1"));
  PrefillDone(KeyOf(1), 70);
  EXPECT_THAT(Actions(), ElementsAre("1:0=70"));
  Committed(KeyOf(1));
  Token(kD, KeyOf(1), 0, 70);
  Token(kD, KeyOf(1), 1, 71);
  Token(kD, KeyOf(1), 2, 72, FinishReason::kLength);
  EXPECT_THAT(Actions(), ElementsAre("1:1=71", "1:2=72"));
  Finished(kD, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:OK"));
  EXPECT_EQ(LastResult().finish, FinishReason::kLength);
  EXPECT_EQ(LastResult().output_tokens, 3);
  EXPECT_EQ(LastResult().prompt_tokens, 40);
  EXPECT_EQ(LastResult().attempts, 1);
  EXPECT_EQ(LastResult().prefill.compute_ns, 11);
  EXPECT_EQ(LastResult().decode.compute_ns, 22);
  CallEnd(kD, KeyOf(1));
  EXPECT_THAT(Actions(), IsEmpty());
  ExpectNothingLeft();
}

TEST_F(DispatcherTest, StartDecodeNamesThePrefillWorker) {
  JoinPair();
  Submit(1);
  const std::vector<DispatchAction> actions = dispatcher().TakeActions();
  const auto& start = std::get<StartDecode>(actions.at(1));
  EXPECT_EQ(start.prefill_incarnation, MakeIncarnation(1));
  EXPECT_EQ(start.prefill_target, "host:1");
  EXPECT_EQ(start.target, "host:2");
  EXPECT_EQ(start.incarnation, MakeIncarnation(2));
}

TEST_F(DispatcherTest, EveryAttemptHasASecretOfItsOwnThatBothItsWorkersKnow) {
  JoinPair();
  Submit(1);
  const std::vector<DispatchAction> first = dispatcher().TakeActions();
  Refuse(kD, KeyOf(1));
  CallEnd(kP, KeyOf(1), kCancelledCall);
  dispatcher().TakeActions();
  RunMs(20);
  const std::vector<DispatchAction> second = dispatcher().TakeActions();
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  const Id128 secret = std::get<StartPrefill>(first[0]).secret;
  EXPECT_FALSE(secret.is_zero());
  EXPECT_EQ(std::get<StartDecode>(first[1]).secret, secret);
  EXPECT_NE(std::get<StartPrefill>(second[0]).secret, secret);
  EXPECT_EQ(std::get<StartDecode>(second[1]).secret, std::get<StartPrefill>(second[0]).secret);
}

TEST_F(DispatcherTest, OneOutputTokenNeedsNoDecodeWorker) {
  Join(1, WorkerRole::kPrefill);
  Submit(1, {.max_tokens = 1});
  EXPECT_THAT(Actions(), ElementsAre("solo1 1/1"));
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70, FinishReason::kLength);
  Finished(kP, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "1:OK"));
  EXPECT_EQ(LastResult().finish, FinishReason::kLength);
  EXPECT_EQ(LastResult().phases.transfer_ns, 0);
}

TEST_F(DispatcherTest, AShortPromptIsPrefilledByTheDecodeWorker) {
  options_.placing.local_prefill_tokens = 41;
  JoinPair();
  Submit(1);
  EXPECT_THAT(Actions(), ElementsAre("local2 1/1"));
  Submit(2, {.prompt_tokens = 41});
  EXPECT_THAT(Actions(), ElementsAre("P1 2/1", "D2 2/1"));
  Started(kD, KeyOf(1), 16);
  Token(kD, KeyOf(1), 0, 70, FinishReason::kStop);
  Finished(kD, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "1:OK"));
  EXPECT_EQ(LastResult().cached_tokens, 16);
}

TEST_F(DispatcherTest, AMixedWorkerDoesBoth) {
  Join(3, WorkerRole::kMixed);
  Submit(1);
  EXPECT_THAT(Actions(), ElementsAre("local3 1/1"));
}

TEST_F(DispatcherTest, TheDecodeWorkersRefusalCancelsPrefillInTheSameStepAndRequeues) {
  JoinPair();
  Submit(1);
  Actions();
  Refuse(kD, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1"));
  EXPECT_EQ(dispatcher().queued_jobs(), 1);
  CallEnd(kP, KeyOf(1), kCancelledCall);
  EXPECT_THAT(Actions(), IsEmpty()) << "the same worker is not asked again so soon";
  RunMs(19);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2", "D2 1/2"));
}

TEST_F(DispatcherTest, ARefusingWorkerIsAskedAgainWhenItsLoadIsHeard) {
  JoinPair();
  Submit(1);
  Refuse(kD, KeyOf(1));
  CallEnd(kP, KeyOf(1), kCancelledCall);
  Actions();
  dispatcher().OnWorkerLoad(MakeWorkerId(2), {.used_blocks = 10});
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2", "D2 1/2"));
}

TEST_F(DispatcherTest, AnotherDecodeWorkerIsAskedAtOnceAfterARefusal) {
  JoinPair();
  Join(3, WorkerRole::kDecode);
  Submit(1);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1"));
  Refuse(kD, KeyOf(1));
  // P counts the cancelled attempt until it has ended it.
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "P1 1/2", "D3 1/2"));
}

TEST_F(DispatcherTest, ThePrefillWorkersRefusalCancelsDecodeAndRequeues) {
  JoinPair();
  Submit(1);
  Actions();
  Refuse(kP, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1"));
  CallEnd(kD, KeyOf(1), kCancelledCall);
  RunMs(20);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2", "D2 1/2"));
}

TEST_F(DispatcherTest, BothRefuseAndTheJobIsRequeuedOnce) {
  JoinPair();
  Submit(1);
  Actions();
  Refuse(kD, KeyOf(1));
  Refuse(kP, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1"));
  RunMs(20);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2", "D2 1/2"));
}

TEST_F(DispatcherTest, RefusalsEndTheJobOnlyAtTheirBound) {
  options_.max_refusals = 3;
  JoinPair();
  Submit(1);
  for (uint32_t attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_TRUE(results_.empty());
    Refuse(kD, KeyOf(1, attempt));
    CallEnd(kP, KeyOf(1, attempt), kCancelledCall);
    RunMs(20);
    Actions();
  }
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(LastResult().status));
  EXPECT_EQ(LastResult().attempts, 3);
  ExpectNothingLeft();
}

TEST_F(DispatcherTest, LackOfRoomAfterTheStartIsNoRefusal) {
  JoinPair();
  Submit(1);
  Started(kD, KeyOf(1));
  Actions();
  Refuse(kD, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "1:RESOURCE_EXHAUSTED"));
}

TEST_F(DispatcherTest, WordsOfAnEarlierAttemptAreIgnored) {
  JoinPair();
  Join(3, WorkerRole::kDecode);
  Submit(1);
  Refuse(kD, KeyOf(1));
  Actions();
  Started(kP, KeyOf(1, 1));
  Token(kP, KeyOf(1, 1), 0, 99, FinishReason::kStop);
  Finished(kP, KeyOf(1, 1));
  CallEnd(kP, KeyOf(1, 1), absl::InternalError("late"));
  EXPECT_THAT(Actions(), IsEmpty());
  PrefillDone(KeyOf(1, 2), 70);
  EXPECT_THAT(Actions(), ElementsAre("1:0=70"));
}

TEST_F(DispatcherTest, ACancelledAttemptCountsUntilItsWorkerEndedTheCall) {
  JoinPair();
  Submit(1);
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::CancelledError("by the client"));
  EXPECT_EQ(dispatcher().running_jobs(), 0);
  EXPECT_EQ(dispatcher().assigned().at(MakeWorkerId(1)).uncomputed_prompt_tokens, 40);
  EXPECT_EQ(dispatcher().assigned().at(MakeWorkerId(2)).reserved_blocks, 3);
  CallEnd(kP, KeyOf(1), kCancelledCall);
  CallEnd(kD, KeyOf(1), kCancelledCall);
  ExpectNothingLeft();
}

TEST_F(DispatcherTest, TokenZeroOfTheDecodeWorkerMayComeFirst) {
  JoinPair();
  Submit(1);
  Actions();
  Started(kD, KeyOf(1));
  Committed(KeyOf(1));
  Token(kD, KeyOf(1), 0, 70);
  Token(kD, KeyOf(1), 1, 71);
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70);
  Finished(kP, KeyOf(1));
  CallEnd(kP, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "1:1=71"));
}

TEST_F(DispatcherTest, DifferentTokensZeroAreInternal) {
  JoinPair();
  Submit(1);
  Actions();
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70);
  Token(kD, KeyOf(1), 0, 71);
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "-P1 1/1", "-D2 1/1", "1:INTERNAL"));
}

TEST_F(DispatcherTest, MoreCachedTokensThanThePromptHasAreInternal) {
  JoinPair();
  for (const auto& [job, side, cached] :
       std::vector<std::tuple<uint64_t, Side, int32_t>>{{1, kP, 41}, {2, kP, -1}, {3, kD, 41}}) {
    Submit(job, {.prompt_tokens = 40});
    Actions();
    Started(side, KeyOf(job), cached);
    const std::string name = std::to_string(job);
    EXPECT_THAT(Actions(), ElementsAre("-P1 " + name + "/1", "-D2 " + name + "/1", name + ":INTERNAL"));
    CallEnd(kP, KeyOf(job), kCancelledCall);
    CallEnd(kD, KeyOf(job), kCancelledCall);
    ExpectNothingLeft();
  }
}

TEST_F(DispatcherTest, AGapInTheTokensIsInternal) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Actions();
  Token(kD, KeyOf(1), 2, 72);
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1", "1:INTERNAL"));
}

TEST_F(DispatcherTest, ATokenBehindWhichNoneMayFollowIsInternalUnlessItIsTheLast) {
  JoinPair();
  Submit(1, {.max_tokens = 2});
  PrefillDone(KeyOf(1), 70);
  Actions();
  Token(kD, KeyOf(1), 1, 71);
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1", "1:INTERNAL"));
  Submit(2, {.max_tokens = 1});
  Actions();
  Token(kP, KeyOf(2), 0, 70);
  EXPECT_THAT(Actions(), ElementsAre("-P1 2/1", "2:INTERNAL"));
}

TEST_F(DispatcherTest, ALaterTokenTwiceIsInternal) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Token(kD, KeyOf(1), 1, 71);
  Actions();
  Token(kD, KeyOf(1), 1, 71);
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1", "1:INTERNAL"));
}

TEST_F(DispatcherTest, ATokenOfTheWrongSideIsInternal) {
  JoinPair();
  Submit(2);
  Token(kP, KeyOf(2), 0, 70);
  Actions();
  Token(kP, KeyOf(2), 1, 71);
  EXPECT_THAT(Actions(), ElementsAre("-P1 2/1", "-D2 2/1", "2:INTERNAL"));
}

TEST_F(DispatcherTest, ChoicesOfAJobRunAndEndByThemselves) {
  JoinPair();
  Submit(1);
  Submit(1, {.choice = 1});
  EXPECT_TRUE(absl::IsAlreadyExists(dispatcher().Submit(MakeJob(1, {.choice = 1}))));
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "P1 1.1/1", "D2 1.1/1"));
  PrefillDone(KeyOf(1, 1, 1), 80);
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::CancelledError("the client wants the other one"));
  DecodeDone(KeyOf(1, 1, 1));
  EXPECT_THAT(Actions(), ElementsAre("1.1:0=80", "-P1 1/1", "-D2 1/1", "1:CANCELLED", "1.1:1=71", "1.1:OK"));
}

TEST_F(DispatcherTest, PhasesAreContiguousAndAddUp) {
  JoinPair();
  const TimeNs start = clock_.Now();
  Submit(1, {.max_tokens = 2});
  AdvanceMs(1);
  Refuse(kD, KeyOf(1));
  CallEnd(kP, KeyOf(1), kCancelledCall);
  RunMs(20);
  AdvanceMs(2);
  Started(kD, KeyOf(1, 2));
  AdvanceMs(3);
  Started(kP, KeyOf(1, 2), 16);
  AdvanceMs(50);
  Token(kP, KeyOf(1, 2), 0, 70);
  AdvanceMs(4);
  Committed(KeyOf(1, 2));
  AdvanceMs(7);
  Token(kD, KeyOf(1, 2), 1, 71, FinishReason::kLength);
  Finished(kD, KeyOf(1, 2));
  Actions();
  const PhaseTimes& phases = LastResult().phases;
  EXPECT_EQ(phases.queue_ns, 21 * kNsPerMs);
  EXPECT_EQ(phases.admission_ns, 5 * kNsPerMs);
  EXPECT_EQ(phases.prefill_ns, 50 * kNsPerMs);
  EXPECT_EQ(phases.transfer_ns, 4 * kNsPerMs);
  EXPECT_EQ(phases.decode_ns, 7 * kNsPerMs);
  EXPECT_EQ(start + 87 * kNsPerMs, clock_.Now());
  EXPECT_EQ(LastResult().cached_tokens, 16);
  EXPECT_EQ(LastResult().attempts, 2);
}

TEST_F(DispatcherTest, PhasesBeginWhenTheWorkersBeganThemAndNotWhenTheirWordOfItCame) {
  JoinPair();
  const JobKey key = KeyOf(1);
  Submit(1, {.max_tokens = 2});
  AdvanceMs(9);
  Started(kD, key);
  Started(kP, key);
  AdvanceMs(50);
  Token(kP, key, 0, 70);
  Finished(kP, key, 54 * kNsPerMs);
  AdvanceMs(8);
  Committed(key);
  AdvanceMs(7);
  Token(kD, key, 1, 71, FinishReason::kLength);
  Finished(kD, key, 10 * kNsPerMs);
  Actions();
  const PhaseTimes& phases = LastResult().phases;
  EXPECT_EQ(phases.queue_ns, 0);
  EXPECT_EQ(phases.admission_ns, 5 * kNsPerMs);
  EXPECT_EQ(phases.prefill_ns, 54 * kNsPerMs);
  EXPECT_EQ(phases.transfer_ns, 5 * kNsPerMs);
  EXPECT_EQ(phases.decode_ns, 10 * kNsPerMs);
}

}  // namespace
}  // namespace baton::router
