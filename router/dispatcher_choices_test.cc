// Several choices of one job: those that follow choice 0 begin when the prompt is computed, beside it.
#include <vector>

#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DispatcherChoicesTest : public DispatcherTest {
 protected:
  void SubmitChoices(uint64_t job, uint32_t choices, JobShape shape = {}) {
    for (uint32_t i = 0; i < choices; ++i) {
      shape.choice = i;
      if (i > 0) shape.follows = 0;
      Submit(job, shape);
    }
  }
};

TEST_F(DispatcherChoicesTest, TheOthersBeginWhenThePromptsKvIsCommitted) {
  JoinPair();
  SubmitChoices(1, 3);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1"));
  EXPECT_EQ(dispatcher().queued_jobs(), 2);
  EXPECT_EQ(dispatcher().running_jobs(), 1);
  PrefillDone(KeyOf(1), 70);
  EXPECT_THAT(Actions(), ElementsAre("1:0=70")) << "the decode worker does not have the KV yet";
  Committed(KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("P1 1.1/1", "D2 1.1/1", "P1 1.2/1", "D2 1.2/1"));
  EXPECT_EQ(dispatcher().queued_jobs(), 0);
  DecodeDone(KeyOf(1));
  for (const uint32_t choice : {1, 2}) {
    PrefillDone(KeyOf(1, 1, choice), 80);
    DecodeDone(KeyOf(1, 1, choice));
  }
  EXPECT_THAT(Actions(),
              ElementsAre("1:1=71", "1:OK", "1.1:0=80", "1.1:1=71", "1.1:OK", "1.2:0=80", "1.2:1=71", "1.2:OK"));
  ExpectNothingLeft();
}

TEST_F(DispatcherChoicesTest, TheyWaitForTheFirstOutputAlsoWhereTheWordOfTheKvOvertakesIt) {
  JoinPair();
  SubmitChoices(1, 2);
  Actions();
  Started(kP, KeyOf(1));
  Committed(KeyOf(1));
  EXPECT_THAT(Actions(), IsEmpty());
  Token(kP, KeyOf(1), 0, 70);
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "P1 1.1/1", "D2 1.1/1"));
}

TEST_F(DispatcherChoicesTest, TheyGoToTheWorkersThatHaveThePromptAsLongAsTheseHaveRoom) {
  JoinPair();
  Submit(9);
  PrefillDone(KeyOf(9), 70);
  Committed(KeyOf(9));
  Join(3, WorkerRole::kPrefill);
  WorkerInfo decode = MakeWorker(4, WorkerRole::kDecode);
  decode.max_sequences = 2;
  Join(decode);
  Actions();
  SubmitChoices(1, 3);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D4 1/1"));
  PrefillDone(KeyOf(1), 70);
  Submit(8, {.prompt_tokens = 80});
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "P1 8/1", "D2 8/1"));
  Committed(KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("P1 1.1/1", "D4 1.1/1", "P3 1.2/1", "D2 1.2/1"))
      << "worker 1 has no room for the prompt of 1.2, and worker 4 none for a third sequence";
}

TEST_F(DispatcherChoicesTest, TheyGoToTheDecodeWorkerThatHasThePromptAlthoughAnotherHasLessToDo) {
  JoinPair();
  SubmitChoices(1, 2);
  Join(4, WorkerRole::kDecode);
  PrefillDone(KeyOf(1), 70);
  Actions();
  Committed(KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("P1 1.1/1", "D2 1.1/1"));
}

TEST_F(DispatcherChoicesTest, ChoicesOfOneTokenFollowTheTokenOfTheFirst) {
  JoinPair();
  SubmitChoices(1, 2, {.max_tokens = 1});
  EXPECT_THAT(Actions(), ElementsAre("solo1 1/1"));
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70, FinishReason::kLength);
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "solo1 1.1/1"));
}

TEST_F(DispatcherChoicesTest, TheyWaitThroughAFailoverOfTheFirst) {
  JoinPair();
  SubmitChoices(1, 2);
  Actions();
  Started(kP, KeyOf(1));
  CallEnd(kP, KeyOf(1), kBroken);
  CallEnd(kD, KeyOf(1), kBroken);
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1", "P1 1/2", "D2 1/2"));
  PrefillDone(KeyOf(1, 2), 70);
  Committed(KeyOf(1, 2));
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "P1 1.1/1", "D2 1.1/1"));
}

TEST_F(DispatcherChoicesTest, TheyBeginAlsoWhenTheFirstHasFailed) {
  JoinPair();
  SubmitChoices(1, 2);
  Actions();
  dispatcher().Cancel({.job = {.high = 2, .low = 1}}, absl::CancelledError("by the client"));
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "-D2 1/1", "1:CANCELLED", "P1 1.1/1", "D2 1.1/1"));
}

TEST_F(DispatcherChoicesTest, TheJobIsCancelledWithAllThatIsLeftOfIt) {
  JoinPair();
  SubmitChoices(1, 3);
  Submit(2);
  PrefillDone(KeyOf(1), 70);
  Committed(KeyOf(1));
  DecodeDone(KeyOf(1));
  Actions();
  dispatcher().CancelJob({.high = 2, .low = 1}, absl::CancelledError("by the client"));
  EXPECT_THAT(Actions(),
              ElementsAre("-P1 1.1/1", "-D2 1.1/1", "1.1:CANCELLED", "-P1 1.2/1", "-D2 1.2/1", "1.2:CANCELLED"));
  SubmitChoices(3, 2);
  dispatcher().CancelJob({.high = 2, .low = 3}, absl::CancelledError("by the client"));
  Actions();
  EXPECT_EQ(dispatcher().queued_jobs() + dispatcher().running_jobs(), 1) << "job 2 alone";
}

TEST_F(DispatcherChoicesTest, AChoiceThatFollowsEndsWithItsDeadline) {
  JoinPair();
  SubmitChoices(1, 2, {.deadline = clock_.Now() + 100 * kNsPerMs});
  Actions();
  AdvanceMs(100);
  dispatcher().OnTimer();
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "-D2 1/1", "1:DEADLINE_EXCEEDED", "1.1:DEADLINE_EXCEEDED"));
  CallEnd(kP, KeyOf(1), kCancelledCall);
  CallEnd(kD, KeyOf(1), kCancelledCall);
  ExpectNothingLeft();
}

TEST_F(DispatcherChoicesTest, AChoiceThatFollowsHasADeadlineOfItsOwn) {
  JoinPair();
  Submit(1, {.deadline = clock_.Now() + 200 * kNsPerMs});
  Submit(1, {.choice = 1, .follows = 0, .deadline = clock_.Now() + 100 * kNsPerMs});
  Actions();
  AdvanceMs(100);
  dispatcher().OnTimer();
  EXPECT_THAT(Actions(), ElementsAre("1.1:DEADLINE_EXCEEDED"));
  EXPECT_EQ(dispatcher().running_jobs(), 1);
}

TEST_F(DispatcherChoicesTest, AChoiceFollowsTheOneThatHasItsPromptAndNoOther) {
  JoinPair();
  for (const uint32_t prompt : {0u, 2u}) {
    Submit(1, {.choice = prompt});
    Submit(1, {.choice = prompt + 1, .follows = prompt});
  }
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "P1 1.2/1", "D2 1.2/1"));
  PrefillDone(KeyOf(1, 1, 2), 70);
  Committed(KeyOf(1, 1, 2));
  EXPECT_THAT(Actions(), ElementsAre("1.2:0=70", "P1 1.3/1", "D2 1.3/1"));
  EXPECT_EQ(dispatcher().queued_jobs(), 1);
}

TEST_F(DispatcherChoicesTest, TheyCountAsQueued) {
  options_.max_queued_jobs = 16;
  JoinPair();
  SubmitChoices(1, 9, {.tenant = "one"});
  SubmitChoices(2, 7, {.tenant = "other"});
  SubmitChoices(3, 3, {.tenant = "a third"});
  EXPECT_EQ(dispatcher().queued_jobs(), 16);
  const absl::Status status = dispatcher().Submit(MakeJob(4));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(DispatcherChoicesTest, TheLastPlacesInTheQueueAreKeptForOtherTenants) {
  options_.max_queued_jobs = 16;
  JoinPair();
  SubmitChoices(1, 15, {.tenant = "many"});
  EXPECT_TRUE(absl::IsResourceExhausted(dispatcher().Submit(MakeJob(2, {.tenant = "many"}))));
  EXPECT_TRUE(dispatcher().Submit(MakeJob(3, {.tenant = "other"})).ok());
}

TEST_F(DispatcherChoicesTest, AChoiceWhoseFirstIsNotHereBeginsAtOnce) {
  JoinPair();
  Submit(1, {.choice = 1, .follows = 0});
  EXPECT_THAT(Actions(), ElementsAre("P1 1.1/1", "D2 1.1/1"));
}

}  // namespace
}  // namespace baton::router
