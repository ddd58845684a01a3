// Moves: a running job leaves a decode worker that drains for another one, without a pause and with every token.
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DispatcherMovesTest : public DispatcherTest {
 protected:
  // Prefill worker 1 and decode workers 2 and 3. The first job goes to 2.
  void JoinTwoDecoders() {
    JoinPair();
    Join(3, WorkerRole::kDecode);
  }
  // The job's outputs from 0 to `count` - 1 are 70, 71 and so on.
  void Stream(const JobKey& key, int32_t count) {
    PrefillDone(key, 70);
    Committed(key);
    for (int32_t i = 1; i < count; ++i) Token(kD, key, i, 70 + i);
  }
  void Drain(uint64_t n) { dispatcher().OnWorkerLoad(MakeWorkerId(n), {.state = WorkerState::kDraining}); }
  void Serve(uint64_t n) { dispatcher().OnWorkerLoad(MakeWorkerId(n), {}); }
  void Lose(uint64_t n) { dispatcher().OnWorkerLost(MakeWorkerId(n), kBroken); }
  // D is frozen behind this output.
  void Frozen(const JobKey& key, int32_t index, int32_t token, std::string digest = "") {
    WorkerUpdate update = MakeUpdate(WorkerUpdate::Kind::kFrozen);
    update.token = {.index = index, .token = token, .logprob = -0.5f};
    update.kv_digest = std::move(digest);
    dispatcher().OnWorkerUpdate(kD, key, update);
  }
  // Job 1 has three outputs, and worker 3 pulls its KV from worker 2.
  void MoveFirstJob(const JobShape& shape = {}) {
    JoinTwoDecoders();
    Submit(1, shape);
    Stream(KeyOf(1), 3);
    Drain(2);
    Frozen(KeyOf(1), 2, 72);
    EXPECT_THAT(Actions(),
                ElementsAre("P1 1/1", "D2 1/1", "1:0=70", "1:1=71", "1:2=72", "move2 1/1->2", "D3 1/2 after 2"));
  }
  // Worker 3 goes on with job 1 to its end.
  void GoOnAtThree() {
    const JobKey next = KeyOf(1, 2);
    Started(kD, next);
    Committed(next);
    Token(kD, next, 2, 72);
    Token(kD, next, 3, 73, FinishReason::kStop);
    Finished(kD, next);
    CallEnd(kD, next);
  }
};

TEST_F(DispatcherMovesTest, ARunningJobGoesOnAtItsNextOutputElsewhere) {
  MoveFirstJob();
  GoOnAtThree();
  CallEnd(kD, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:3=73", "1:OK"));
  EXPECT_EQ(LastResult().output_tokens, 4);
  EXPECT_EQ(LastResult().prompt_tokens, 40);
  EXPECT_EQ(LastResult().attempts, 2);
  EXPECT_EQ(LastResult().failovers, 0);
  EXPECT_EQ(LastResult().decode_worker, "host:3");
  ExpectNothingLeft();
}

TEST_F(DispatcherMovesTest, TheAttemptThatGoesOnHasAllOutputsButTheLastAndTheSecretOfTheSource) {
  JoinTwoDecoders();
  Submit(1, {.prompt_tokens = 3});
  Stream(KeyOf(1), 3);
  Drain(2);
  Frozen(KeyOf(1), 2, 72);
  std::optional<HandOverAttempt> asked;
  std::optional<StartDecode> started;
  for (const DispatchAction& action : dispatcher().TakeActions()) {
    if (const auto* move = std::get_if<HandOverAttempt>(&action)) asked = *move;
    if (const auto* start = std::get_if<StartDecode>(&action)) started = *start;
  }
  ASSERT_TRUE(asked && started);
  EXPECT_EQ(asked->hand_over.next, KeyOf(1, 2));
  EXPECT_EQ(started->key, KeyOf(1, 2));
  EXPECT_EQ(started->secret, asked->hand_over.secret);
  EXPECT_FALSE(started->secret.is_zero());
  EXPECT_EQ(started->prefill_target, "host:2");
  EXPECT_EQ(started->prefill_incarnation, MakeIncarnation(2));
  EXPECT_FALSE(started->local_prefill);
  EXPECT_THAT(started->job->prompt, ElementsAre(7, 7, 7, 70, 71));
  EXPECT_EQ(started->job->emitted, 2);
}

// Where its KV came through, the next worker shares what it has of the same workers alone.
TEST_F(DispatcherMovesTest, TheAttemptThatGoesOnIsToldWhereItsKvCameThroughBefore) {
  const auto earlier = [this] {
    std::vector<KvOrigin> origins;
    for (const DispatchAction& action : dispatcher().TakeActions()) {
      if (const auto* start = std::get_if<StartDecode>(&action)) origins = start->earlier;
    }
    return origins;
  };
  const KvOrigin p1{.incarnation = MakeIncarnation(1), .target = "host:1"};
  const KvOrigin d2{.incarnation = MakeIncarnation(2), .target = "host:2"};
  JoinTwoDecoders();
  Submit(1);
  EXPECT_THAT(earlier(), IsEmpty());
  Stream(KeyOf(1), 3);
  Drain(2);
  Frozen(KeyOf(1), 2, 72);
  EXPECT_THAT(earlier(), ElementsAre(p1));
  Started(kD, KeyOf(1, 2));
  Committed(KeyOf(1, 2));
  Token(kD, KeyOf(1, 2), 2, 72);
  CallEnd(kD, KeyOf(1));
  Join(4, WorkerRole::kDecode);
  Drain(3);
  Frozen(KeyOf(1, 2), 2, 72);
  EXPECT_THAT(earlier(), ElementsAre(p1, d2));
}

TEST_F(DispatcherMovesTest, AJobMovesNoFurtherOnceItsKvHasComeThroughAsManyWorkersAsItMay) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 3);
  Actions();
  uint64_t at = 2;
  const auto asked = [&at](uint32_t attempt) { return absl::StrCat("move", at, " 1/", attempt, "->", attempt + 1); };
  // Its prefill worker is the first origin.
  for (uint32_t attempt = 1; attempt < kMaxKvOrigins; ++attempt) {
    Drain(at);
    EXPECT_THAT(Actions(), ElementsAre(asked(attempt)));
    Frozen(KeyOf(1, attempt), 2, 72);
    const JobKey next = KeyOf(1, attempt + 1);
    Started(kD, next);
    Committed(next);
    Token(kD, next, 2, 72);
    CallEnd(kD, KeyOf(1, attempt));
    Serve(at);
    at = 5 - at;
    EXPECT_THAT(Actions(), ElementsAre(absl::StrCat("D", at, " 1/", attempt + 1, " after 2")));
  }
  Drain(at);
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(DispatcherMovesTest, TheWorkerGoesOnUntilItIsFrozen) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 2);
  Drain(2);
  Token(kD, KeyOf(1), 2, 72);
  Token(kD, KeyOf(1), 3, 73);
  Frozen(KeyOf(1), 3, 73);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "1:0=70", "1:1=71", "move2 1/1->2", "1:2=72", "1:3=73",
                                     "D3 1/2 after 3"));
}

TEST_F(DispatcherMovesTest, AJobMayMoveBehindItsFirstOutput) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 1);
  Drain(2);
  Frozen(KeyOf(1), 0, 70);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "1:0=70", "move2 1/1->2", "D3 1/2"));
  Started(kD, KeyOf(1, 2));
  Committed(KeyOf(1, 2));
  Token(kD, KeyOf(1, 2), 0, 70);
  Token(kD, KeyOf(1, 2), 1, 71);
  EXPECT_THAT(Actions(), ElementsAre("1:1=71"));
}

TEST_F(DispatcherMovesTest, AJobThatEndsBeforeItIsFrozenEndsWell) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 2);
  Drain(2);
  Token(kD, KeyOf(1), 2, 72, FinishReason::kStop);
  Finished(kD, KeyOf(1));
  CallEnd(kD, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "1:0=70", "1:1=71", "move2 1/1->2", "1:2=72", "1:OK"));
  ExpectNothingLeft();
}

TEST_F(DispatcherMovesTest, NoMoreJobsMoveAtATimeThanMayAndAllDo) {
  options_.max_moves = 2;
  JoinPair();
  for (uint64_t n = 1; n <= 5; ++n) {
    Submit(n);
    Stream(KeyOf(n), 2);
  }
  Join(3, WorkerRole::kDecode);
  Actions();
  Drain(2);
  for (uint64_t n = 1; n <= 5; ++n) {
    const auto asked = Actions();
    if (n == 1) {
      EXPECT_THAT(asked, ElementsAre("move2 1/1->2", "move2 2/1->2"));
    } else if (n <= 4) {
      EXPECT_THAT(asked, ElementsAre("move2 " + std::to_string(n + 1) + "/1->2"));
    } else {
      EXPECT_THAT(asked, IsEmpty());
    }
    Frozen(KeyOf(n), 1, 71);
    Started(kD, KeyOf(n, 2));
    EXPECT_THAT(Actions(), ElementsAre("D3 " + std::to_string(n) + "/2 after 1"));
    Committed(KeyOf(n, 2));
    CallEnd(kD, KeyOf(n));
  }
}

TEST_F(DispatcherMovesTest, AJobStaysWhereNobodyElseCanGoOnWithIt) {
  JoinPair();
  WorkerInfo other = MakeWorker(3, WorkerRole::kDecode);
  other.fingerprint = "g";
  Join(other);
  WorkerInfo former = MakeWorker(4, WorkerRole::kDecode);
  former.resumes_jobs = false;
  Join(former);
  WorkerInfo small = MakeWorker(5, WorkerRole::kDecode);
  small.total_blocks = 3;
  Join(small);
  Join(6, WorkerRole::kDecode);
  dispatcher().OnWorkerLoad(MakeWorkerId(6), {.state = WorkerState::kDraining});
  Submit(1);
  Stream(KeyOf(1), 2);
  Actions();
  Drain(2);
  EXPECT_THAT(Actions(), IsEmpty());
  Token(kD, KeyOf(1), 2, 72);
  EXPECT_THAT(Actions(), ElementsAre("1:2=72"));
  // Another one comes in time.
  Join(7, WorkerRole::kMixed);
  EXPECT_THAT(Actions(), ElementsAre("move2 1/1->2"));
}

TEST_F(DispatcherMovesTest, AFullWorkerGetsTheJobOnceItHasRoom) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 2);
  dispatcher().OnWorkerLoad(MakeWorkerId(3), {.used_blocks = 99});
  Actions();
  Drain(2);
  EXPECT_THAT(Actions(), IsEmpty());
  Serve(3);
  EXPECT_THAT(Actions(), ElementsAre("move2 1/1->2"));
}

TEST_F(DispatcherMovesTest, AWorkerThatDoesNotKnowMovesDrainsAsItDid) {
  Join(1, WorkerRole::kPrefill);
  WorkerInfo former = MakeWorker(2, WorkerRole::kDecode);
  former.hands_over = false;
  Join(former);
  Submit(1);
  Stream(KeyOf(1), 2);
  Join(3, WorkerRole::kDecode);
  WorkerInfo leaving = MakeWorker(4, WorkerRole::kDecode);
  Join(leaving);
  Actions();
  Drain(4);
  Drain(2);
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(DispatcherMovesTest, AJobWithoutItsKvMovesWhenItHasIt) {
  JoinTwoDecoders();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Drain(2);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "1:0=70"));
  Committed(KeyOf(1));
  Drain(2);
  EXPECT_THAT(Actions(), ElementsAre("move2 1/1->2"));
}

TEST_F(DispatcherMovesTest, AJobWhosePrefillWorkerOwesItsReportMovesWhenThatIsThere) {
  JoinTwoDecoders();
  Submit(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70);
  Committed(KeyOf(1));
  Drain(2);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "1:0=70"));
  Finished(kP, KeyOf(1));
  CallEnd(kP, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("move2 1/1->2"));
}

TEST_F(DispatcherMovesTest, AJobWhoseDigestIsAwaitedStaysUntilItIsThere) {
  JoinTwoDecoders();
  Submit(1, {.want_kv_digest = true});
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70);
  Committed(KeyOf(1));
  Drain(2);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "1:0=70"));
  Finished(kP, KeyOf(1), "digest");
  CallEnd(kP, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("move2 1/1->2"));
  Frozen(KeyOf(1), 0, 70);
  const auto actions = dispatcher().TakeActions();
  ASSERT_THAT(actions, SizeIs(1));
  EXPECT_FALSE(std::get<StartDecode>(actions[0]).job->want_kv_digest);
  const JobKey next = KeyOf(1, 2);
  Started(kD, next);
  Committed(next);
  Token(kD, next, 0, 70);
  Token(kD, next, 1, 71, FinishReason::kStop);
  Finished(kD, next);
  EXPECT_THAT(Actions(), ElementsAre("1:1=71", "1:OK"));
  EXPECT_EQ(LastResult().kv_digest, "digest");
}

TEST_F(DispatcherMovesTest, TheDigestOfAPromptThatAMixedWorkerComputedComesWithTheFreeze) {
  Join(1, WorkerRole::kMixed);
  Submit(1, {.want_kv_digest = true});
  Started(kD, KeyOf(1));
  Token(kD, KeyOf(1), 0, 70);
  Join(2, WorkerRole::kMixed);
  Drain(1);
  EXPECT_THAT(Actions(), ElementsAre("local1 1/1", "1:0=70", "move1 1/1->2"));
  Token(kD, KeyOf(1), 1, 71);
  Frozen(KeyOf(1), 1, 71, "digest");
  EXPECT_THAT(Actions(), ElementsAre("1:1=71", "D2 1/2 after 1"));
  const JobKey next = KeyOf(1, 2);
  Started(kD, next);
  Committed(next);
  Token(kD, next, 1, 71);
  Token(kD, next, 2, 72, FinishReason::kStop);
  Finished(kD, next);
  Actions();
  EXPECT_EQ(LastResult().kv_digest, "digest");
}

TEST_F(DispatcherMovesTest, AFreezeBehindAnotherTokenOrWithoutBeingAskedEndsTheJob) {
  const auto frozen = [this](uint64_t n, int32_t index, int32_t token) {
    Frozen(KeyOf(n), index, token);
    Actions();
    EXPECT_EQ(LastResult().status.code(), absl::StatusCode::kInternal) << n;
    EXPECT_THAT(std::string(LastResult().status.message()), HasSubstr("where 2 was due"));
  };
  JoinPair();
  for (uint64_t n = 1; n <= 4; ++n) {
    Submit(n);
    Stream(KeyOf(n), 2);
  }
  frozen(1, 1, 71);
  Join(3, WorkerRole::kDecode);
  Drain(2);
  frozen(2, 0, 70);
  frozen(3, 1, 99);
  frozen(4, 2, 72);
}

// Before D is frozen.

TEST_F(DispatcherMovesTest, TheLossOfTheSourceBeforeItIsFrozenIsFailover) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 2);
  Drain(2);
  Actions();
  Lose(2);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/3 after 2", "D3 1/3 after 2"));
}

TEST_F(DispatcherMovesTest, ADrainTimeOutBeforeTheFreezeIsFailover) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 2);
  Drain(2);
  Actions();
  CallEnd(kD, KeyOf(1), absl::UnavailableError("cut"));
  EXPECT_THAT(Actions(), ElementsAre("P1 1/3 after 2", "D3 1/3 after 2"));
}

TEST_F(DispatcherMovesTest, WhoeverEndsAJobThatWasAskedToMoveEndsItsOneCall) {
  JoinTwoDecoders();
  for (uint64_t n = 1; n <= 2; ++n) {
    Submit(n);
    Stream(KeyOf(n), 2);
  }
  dispatcher().OnWorkerLoad(MakeWorkerId(3), {});
  Actions();
  Drain(2);
  Actions();
  dispatcher().Cancel({KeyOf(1).job, 0}, absl::OkStatus());
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1", "1:OK"));
  Frozen(KeyOf(1), 1, 71);
  CallEnd(kD, KeyOf(1), kCancelledCall);
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(DispatcherMovesTest, ASourceThatIsFrozenWhenNobodyHasRoomAnyMoreGoesOnAndIsAskedAgain) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 2);
  Drain(2);
  Actions();
  Lose(3);
  Frozen(KeyOf(1), 1, 71);
  EXPECT_THAT(Actions(), ElementsAre("keep2 1/1"));
  Token(kD, KeyOf(1), 2, 72);
  EXPECT_THAT(Actions(), ElementsAre("1:2=72"));
  Join(4, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ElementsAre("move2 1/1->3"));
  Frozen(KeyOf(1), 2, 72);
  EXPECT_THAT(Actions(), ElementsAre("D4 1/3 after 2"));
  Started(kD, KeyOf(1, 3));
  Committed(KeyOf(1, 3));
  Token(kD, KeyOf(1, 3), 2, 72);
  Token(kD, KeyOf(1, 3), 3, 73, FinishReason::kStop);
  Finished(kD, KeyOf(1, 3));
  Actions();
  EXPECT_EQ(LastResult().attempts, 2) << "one was never placed";
}

// Once D is frozen.

TEST_F(DispatcherMovesTest, ARefusalOfTheOtherWorkerIsFailoverAndTheSourceIsToldToLetGo) {
  MoveFirstJob();
  Refuse(kD, KeyOf(1, 2));
  const auto actions = Actions();
  ASSERT_FALSE(actions.empty());
  EXPECT_EQ(actions.front(), "-D2 1/1");
  AdvanceMs(options_.placing.refusal_backoff_ms);
  RunMs(options_.placing.refusal_backoff_ms);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/3 after 3", "D3 1/3 after 3"));
  EXPECT_THAT(results_, IsEmpty());
}

TEST_F(DispatcherMovesTest, AHandOffThatFailsIsFailover) {
  for (const absl::Status& error : {absl::DataLossError("a digest differs"), absl::UnavailableError("cut"),
                                    absl::NotFoundError("no such job"), absl::CancelledError("it let go")}) {
    dispatcher_ = nullptr;
    MoveFirstJob();
    Started(kD, KeyOf(1, 2));
    CallEnd(kD, KeyOf(1, 2), error);
    EXPECT_THAT(Actions(), ElementsAre("-D2 1/1", "P1 1/3 after 3", "D3 1/3 after 3")) << error;
  }
}

TEST_F(DispatcherMovesTest, TheLossOfTheOtherWorkerIsFailover) {
  MoveFirstJob();
  Join(4, WorkerRole::kDecode);
  Started(kD, KeyOf(1, 2));
  Lose(3);
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1", "P1 1/3 after 3", "D4 1/3 after 3"));
}

TEST_F(DispatcherMovesTest, ASourceThatLeavesHasHandedOverForAllThatTheRouterKnows) {
  MoveFirstJob();
  Started(kD, KeyOf(1, 2));
  Lose(2);
  EXPECT_THAT(Actions(), IsEmpty());
  Committed(KeyOf(1, 2));
  Token(kD, KeyOf(1, 2), 2, 72);
  Token(kD, KeyOf(1, 2), 3, 73);
  EXPECT_THAT(Actions(), ElementsAre("1:3=73"));
}

TEST_F(DispatcherMovesTest, ASourceThatFallsSilentOrDiesOfAFaultIsFailoverAtOnce) {
  MoveFirstJob();
  Started(kD, KeyOf(1, 2));
  dispatcher().OnWorkerFault(MakeWorkerId(2), {.signal = 11, .at_work = {}});
  EXPECT_THAT(Actions(), ElementsAre("-D3 1/2", "P1 1/3 after 3", "D3 1/3 after 3"));
}

TEST_F(DispatcherMovesTest, TheEndOfTheSourcesCallMeansNothingToTheJob) {
  MoveFirstJob();
  Started(kD, KeyOf(1, 2));
  CallEnd(kD, KeyOf(1), absl::UnavailableError("the lease is over"));
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_EQ(dispatcher().running_jobs(), 1);
}

TEST_F(DispatcherMovesTest, NothingThatAFrozenSourceSaysReachesTheClient) {
  MoveFirstJob();
  Token(kD, KeyOf(1), 3, 99);
  Frozen(KeyOf(1), 2, 72);
  EXPECT_THAT(Actions(), IsEmpty());
  Started(kD, KeyOf(1, 2));
  GoOnAtThree();
  EXPECT_THAT(Actions(), ElementsAre("1:3=73", "1:OK"));
}

TEST_F(DispatcherMovesTest, WhoeverEndsAMovingJobEndsBothOfItsCalls) {
  for (const bool stops : {true, false}) {
    dispatcher_ = nullptr;
    MoveFirstJob();
    Started(kD, KeyOf(1, 2));
    dispatcher().Cancel({KeyOf(1).job, 0}, stops ? absl::OkStatus() : absl::CancelledError("the client left"));
    EXPECT_THAT(Actions(), ElementsAre("-D3 1/2", "-D2 1/1", stops ? "1:OK" : "1:CANCELLED"));
    CallEnd(kD, KeyOf(1, 2), kCancelledCall);
    CallEnd(kD, KeyOf(1), kCancelledCall);
    ExpectNothingLeft();
  }
}

TEST_F(DispatcherMovesTest, ADeadlineEndsAMovingJob) {
  const TimeNs deadline = clock_.Now() + 100 * kNsPerMs;
  MoveFirstJob({.deadline = deadline});
  Started(kD, KeyOf(1, 2));
  RunMs(100);
  EXPECT_THAT(Actions(), ElementsAre("-D3 1/2", "-D2 1/1", "1:DEADLINE_EXCEEDED"));
}

TEST_F(DispatcherMovesTest, AnotherFirstTokenThanTheSourcesLastEndsTheJob) {
  MoveFirstJob();
  Started(kD, KeyOf(1, 2));
  Committed(KeyOf(1, 2));
  Token(kD, KeyOf(1, 2), 2, 99);
  Actions();
  EXPECT_EQ(LastResult().status.code(), absl::StatusCode::kInternal);
}

TEST_F(DispatcherMovesTest, AJobMovesAgainWhenItsNextWorkerDrainsToo) {
  MoveFirstJob();
  const JobKey second = KeyOf(1, 2);
  Started(kD, second);
  Committed(second);
  CallEnd(kD, KeyOf(1));
  Token(kD, second, 2, 72);
  Token(kD, second, 3, 73);
  Join(4, WorkerRole::kDecode);
  Drain(3);
  Frozen(second, 3, 73);
  EXPECT_THAT(Actions(), ElementsAre("1:3=73", "move3 1/2->3", "D4 1/3 after 3"));
}

TEST_F(DispatcherMovesTest, AJobThatHasMovedFailsOverWithAllItsOutputs) {
  MoveFirstJob();
  Started(kD, KeyOf(1, 2));
  Committed(KeyOf(1, 2));
  CallEnd(kD, KeyOf(1));
  Token(kD, KeyOf(1, 2), 2, 72);
  Token(kD, KeyOf(1, 2), 3, 73);
  Join(4, WorkerRole::kDecode);
  Actions();
  Lose(3);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/3 after 4", "D4 1/3 after 4"));
}

}  // namespace
}  // namespace baton::router
