#include "decode_worker/decode_core.h"

#include <cstring>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/testing/test_worker.h"

namespace baton::decode_worker {
namespace {

using testing::ElementsAre;
using worker::HeardOfJob;
using worker::TestWorker;
using Kind = WorkerUpdate::Kind;

constexpr int32_t kPoolBlocks = 20;
constexpr int32_t kSlots = 3;
const DecodeSource kLocal{.local = true};
const DecodeSource kRemote{.prefill_target = "p:1", .prefill_incarnation = {9, 9}};

JobKey Key(uint64_t number) { return {.job = {.high = 1, .low = number}, .attempt = 1}; }

WorkerJob Job(uint64_t number, int32_t prompt_tokens, int32_t max_tokens) {
  WorkerJob job{.key = Key(number), .prompt = TestWorker::PromptOf(prompt_tokens, static_cast<int32_t>(number))};
  job.sampling.max_tokens = max_tokens;
  return job;
}

class DecodeCoreTest : public ::testing::Test {
 protected:
  DecodeCoreTest() : DecodeCoreTest(kPoolBlocks, {}) {}
  DecodeCoreTest(int32_t pool_blocks, const DecodeOptions& options)
      : worker_({.pool_blocks = pool_blocks, .engine = {.chunk_tokens = 64, .max_sequences = kSlots}}),
        core_(options, worker_.core, worker_.updates) {
    worker_.core.MakeLoop();
  }

  const HeardOfJob& Heard(uint64_t number) { return worker_.updates[Key(number)]; }
  int32_t used_blocks() { return worker_.core.engine().Load().used_blocks; }
  void ExpectEnd(uint64_t number, absl::StatusCode code) {
    ASSERT_EQ(Heard(number).ends.size(), 1u) << "job " << number;
    EXPECT_EQ(Heard(number).ends.front().code(), code) << Heard(number).ends.front();
  }
  BlockReport ReportThatAddsUp() {
    const BlockReport report = worker_.core.Blocks();
    int32_t blocks = report.free_blocks + report.cached_blocks;
    for (const BlockHolder& holder : report.holders) blocks += holder.own_blocks;
    EXPECT_EQ(blocks, worker_.pool.block_count());
    return report;
  }
  // Token 0 as a prefill worker would send it, with the KV in place.
  void Commit(uint64_t number, OutputToken first) {
    core_.OnCommitted({.key = Key(number), .first = std::move(first)});
  }

  TestWorker worker_;
  DecodeCore core_;
};

TEST_F(DecodeCoreTest, ALocalJobStreamsItsTokensAndGivesItsBlocksBack) {
  WorkerJob job = Job(1, 40, 3);
  job.want_kv_digest = true;
  core_.OnDecode(job, kLocal);
  EXPECT_TRUE(Heard(1).started());
  EXPECT_EQ(used_blocks(), 3);
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_THAT(Heard(1).kinds, ElementsAre(Kind::kStarted, Kind::kToken, Kind::kToken, Kind::kToken, Kind::kFinished));
  EXPECT_EQ(Heard(1).tokens, engine::FakeModelTokens({}, job.prompt, job.sampling, {}));
  EXPECT_EQ(Heard(1).finished.kv_digest.size(), 32u);
  EXPECT_EQ(Heard(1).finished.report.steps, 3);
  EXPECT_EQ(Heard(1).finished.report.batch_sequences, 3);
  EXPECT_EQ(Heard(1).finished.report.max_batch_sequences, 1);
  ExpectEnd(1, absl::StatusCode::kOk);
  EXPECT_TRUE(worker_.fetcher.started.empty());
  EXPECT_EQ(used_blocks(), 0);
  EXPECT_EQ(core_.job_count(), 0);
}

TEST_F(DecodeCoreTest, APulledJobFetchesTheBlocksThatItLacksAndRunsOnceTheyAreThere) {
  core_.OnDecode(Job(1, 40, 3), kLocal);
  worker_.RunUntilIdle();
  // Its first two blocks are cached now.
  WorkerJob job = Job(1, 40, 3);
  job.key = Key(2);
  core_.OnDecode(job, kRemote);
  EXPECT_EQ(Heard(2).cached_tokens, 32);
  ASSERT_EQ(worker_.fetcher.started.size(), 1u);
  const kvtransfer::FetchSpec& fetch = worker_.fetcher.started.front();
  EXPECT_EQ(fetch.key, Key(2));
  EXPECT_EQ(fetch.source_target, kRemote.prefill_target);
  EXPECT_EQ(fetch.source, kRemote.prefill_incarnation);
  EXPECT_EQ(fetch.first_block, 2);
  EXPECT_EQ(fetch.blocks.size(), 3u);
  EXPECT_FALSE(worker_.RunOnce()) << "its KV is not there yet";
  Commit(2, {.index = 0, .token = 5});
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_THAT(Heard(2).kinds, ElementsAre(Kind::kStarted, Kind::kKvCommitted, Kind::kToken, Kind::kToken, Kind::kToken,
                                          Kind::kFinished));
  EXPECT_EQ(Heard(2).tokens.front(), 5);
  ExpectEnd(2, absl::StatusCode::kOk);
  EXPECT_EQ(used_blocks(), 0);
}

TEST_F(DecodeCoreTest, BlocksOfOneWorkerAreFetchedAnewForAJobThatAnotherOneServes) {
  const DecodeSource other{.prefill_target = "p:2", .prefill_incarnation = {8, 8}};
  const DecodeSource third{.prefill_target = "p:3", .prefill_incarnation = {7, 7}};
  const DecodeSource moves{.prefill_target = "d:1", .prefill_incarnation = {6, 6}};
  DecodeSource moved = moves;
  moved.earlier = {{.incarnation = kRemote.prefill_incarnation, .target = kRemote.prefill_target}};
  // What the job has computed that is local serves all that follow.
  const std::vector<std::pair<DecodeSource, int32_t>> jobs = {{kRemote, 0}, {kRemote, 32}, {other, 0}, {moved, 32},
                                                              {moves, 0},   {kLocal, 0},   {third, 32}};
  for (size_t i = 0; i < jobs.size(); ++i) {
    WorkerJob job = Job(1, 40, 2);
    job.key = Key(i);
    core_.OnDecode(job, jobs[i].first);
    EXPECT_EQ(Heard(i).cached_tokens, jobs[i].second) << "job " << i;
    if (!jobs[i].first.local) {
      EXPECT_EQ(worker_.fetcher.started.back().first_block, jobs[i].second / kBlockTokens) << "job " << i;
      Commit(i, {.index = 0, .token = 5});
    }
    EXPECT_TRUE(worker_.RunUntilIdle());
    ExpectEnd(i, absl::StatusCode::kOk);
  }
}

TEST_F(DecodeCoreTest, AJobThatHasOutputsGoesOnAtTheNextOne) {
  WorkerJob job = Job(1, 40, 5);
  job.emitted = 2;
  core_.OnDecode(job, kRemote);
  ASSERT_EQ(worker_.fetcher.started.size(), 1u);
  EXPECT_EQ(worker_.fetcher.started.front().first_output, 2);
  Commit(1, {.index = 2, .token = 5});
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_EQ(Heard(1).tokens.size(), 3u) << "of five";
  EXPECT_EQ(Heard(1).tokens.front(), 5);
  ExpectEnd(1, absl::StatusCode::kOk);
}

TEST_F(DecodeCoreTest, AJobThatItsFirstTokenEndsIsNeverRun) {
  core_.OnDecode(Job(1, 40, 1), kRemote);
  Commit(1, {.index = 0, .token = 5, .finish = FinishReason::kLength});
  EXPECT_FALSE(worker_.RunOnce());
  EXPECT_THAT(Heard(1).kinds, ElementsAre(Kind::kStarted, Kind::kToken, Kind::kFinished));
  ExpectEnd(1, absl::StatusCode::kOk);
  EXPECT_EQ(used_blocks(), 0);
}

TEST_F(DecodeCoreTest, AFirstTokenThatCannotBeRightEndsTheJob) {
  const std::vector<OutputToken> wrong = {
      {.index = 0, .token = 64},
      {.index = 1, .token = 5},
      {.index = 0, .token = 5, .finish = FinishReason::kLength},
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    core_.OnDecode(Job(i, 40, 3), kRemote);
    Commit(i, wrong[i]);
    EXPECT_TRUE(Heard(i).tokens.empty());
    ExpectEnd(i, absl::StatusCode::kInternal);
    EXPECT_EQ(used_blocks(), 0);
  }
}

TEST_F(DecodeCoreTest, AFetchThatFailsEndsTheJobWithItsStatus) {
  core_.OnDecode(Job(1, 40, 3), kRemote);
  core_.OnFetchFailed({.key = Key(1), .status = absl::DataLossError("digest")});
  ExpectEnd(1, absl::StatusCode::kDataLoss);
  EXPECT_EQ(used_blocks(), 0);
}

TEST_F(DecodeCoreTest, BlocksThatAFetchMayStillWriteStayUntilItHasEnded) {
  for (const bool commits : {false, true}) {
    const uint64_t number = commits ? 2 : 1;
    core_.OnDecode(Job(number, 40, 3), kRemote);
    core_.OnCancel(Key(number), absl::CancelledError("client"));
    core_.OnCancel(Key(number), absl::CancelledError("again"));
    ExpectEnd(number, absl::StatusCode::kCancelled);
    EXPECT_EQ(worker_.fetcher.cancelled.back(), Key(number));
    EXPECT_EQ(worker_.fetcher.cancelled.size(), number);
    EXPECT_EQ(used_blocks(), 3) << "the read may still be in flight";
    if (commits) {
      Commit(number, {.index = 0, .token = 5});
    } else {
      core_.OnFetchFailed({.key = Key(number), .status = absl::CancelledError("client")});
    }
    EXPECT_EQ(used_blocks(), 0);
    EXPECT_FALSE(worker_.RunOnce());
    ExpectEnd(number, absl::StatusCode::kCancelled);
  }
}

TEST_F(DecodeCoreTest, TheReportSaysWhoHoldsWhatForHowLongInTheMiddleOfWork) {
  core_.OnDecode(Job(1, 40, 30), kRemote);
  core_.OnDecode(Job(2, 40, 30), kRemote);
  core_.OnCancel(Key(2), absl::CancelledError("client"));
  worker_.clock.AdvanceMs(7);
  core_.OnDecode(Job(3, 100, 30), kLocal);
  worker_.clock.AdvanceMs(5);
  worker_.RunOnce();
  BlockReport report = ReportThatAddsUp();
  EXPECT_THAT(report.holders, ElementsAre(BlockHolder{Key(1), BlockHold::kPulling, 3, 3, 12},
                                          BlockHolder{Key(2), BlockHold::kQuarantined, 3, 3, 12},
                                          BlockHolder{Key(3), BlockHold::kPrefilling, 7, 7, 5}));
  Commit(1, {.index = 0, .token = 5});
  core_.OnFetchFailed({.key = Key(2), .status = absl::CancelledError("client")});
  for (int i = 0; i < 3; ++i) worker_.RunOnce();
  report = ReportThatAddsUp();
  EXPECT_THAT(report.holders, ElementsAre(BlockHolder{Key(1), BlockHold::kDecoding, 3, 3, 12},
                                          BlockHolder{Key(3), BlockHold::kDecoding, 7, 7, 5}));
  EXPECT_TRUE(worker_.RunUntilIdle());
  report = ReportThatAddsUp();
  EXPECT_TRUE(report.holders.empty());
  EXPECT_GT(report.cached_blocks, 0);
}

TEST_F(DecodeCoreTest, ASequenceThatThePhaseDoesNotKnowIsUnowned) {
  const auto sequence = worker_.core.engine().Reserve(
      {.prompt = TestWorker::PromptOf(40), .sampling = {.max_tokens = 1}, .pulls_prompt = true, .job = Key(9)});
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_THAT(ReportThatAddsUp().holders, ElementsAre(BlockHolder{Key(9), BlockHold::kUnowned, 3, 3, 0}));
}

TEST_F(DecodeCoreTest, ACancelledRunningJobGivesItsBlocksBackAtOnce) {
  core_.OnDecode(Job(1, 40, 30), kLocal);
  for (int i = 0; i < 3; ++i) worker_.RunOnce();
  core_.OnCancel(Key(1), absl::CancelledError("client"));
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_EQ(used_blocks(), 0);
  EXPECT_FALSE(worker_.RunOnce());
  core_.OnCancel(Key(7), absl::CancelledError("unknown"));
  EXPECT_FALSE(Heard(7).ended());
}

TEST_F(DecodeCoreTest, ADeadlineEndsAJobWhateverItDoes) {
  const TimeNs deadline = worker_.clock.Now() + 5 * kNsPerMs;
  for (const uint64_t number : {1, 2}) {
    WorkerJob job = Job(number, 40, 100);
    job.deadline = deadline;
    core_.OnDecode(job, number == 1 ? kLocal : kRemote);
  }
  EXPECT_EQ(core_.NextTimer(), deadline);
  worker_.clock.AdvanceMs(4);
  worker_.RunOnce();
  EXPECT_FALSE(Heard(1).ended() || Heard(2).ended());
  worker_.clock.AdvanceMs(1);
  worker_.RunOnce();
  ExpectEnd(1, absl::StatusCode::kDeadlineExceeded);
  ExpectEnd(2, absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(worker_.fetcher.cancelled, ElementsAre(Key(2)));
  EXPECT_EQ(core_.NextTimer(), kNever);
}

TEST_F(DecodeCoreTest, AnEndedJobLeavesNoDeadlineBehind) {
  WorkerJob job = Job(1, 40, 2);
  job.deadline = worker_.clock.Now() + kNsPerMs;
  core_.OnDecode(job, kLocal);
  worker_.RunUntilIdle();
  EXPECT_EQ(core_.NextTimer(), kNever);
  worker_.clock.AdvanceMs(10);
  worker_.RunUntilIdle();
  ExpectEnd(1, absl::StatusCode::kOk);
}

TEST_F(DecodeCoreTest, AllSlotsTakenRefusesAJobUntilOneEnds) {
  for (uint64_t number = 1; number <= kSlots; ++number) core_.OnDecode(Job(number, 10, 20), kRemote);
  core_.OnDecode(Job(4, 10, 20), kRemote);
  ExpectEnd(4, absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Heard(4).kinds.empty());
  core_.OnFetchFailed({.key = Key(1), .status = absl::UnavailableError("gone")});
  core_.OnDecode(Job(5, 10, 20), kRemote);
  EXPECT_TRUE(Heard(5).started());
}

TEST_F(DecodeCoreTest, TheSameJobASecondTimeIsRefusedAndTheFirstGoesOn) {
  core_.OnDecode(Job(1, 40, 3), kLocal);
  core_.OnDecode(Job(1, 40, 3), kLocal);
  ExpectEnd(1, absl::StatusCode::kAlreadyExists);
  worker_.RunUntilIdle();
  EXPECT_EQ(Heard(1).tokens.size(), 3u);
}

TEST_F(DecodeCoreTest, APoolWithoutRoomRefusesAJobAndTakesNothing) {
  core_.OnDecode(Job(1, 16 * 15, 2), kRemote);
  core_.OnDecode(Job(2, 16 * 6, 2), kRemote);
  ExpectEnd(2, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(used_blocks(), 15);
}

class CrowdedDecodeCoreTest : public DecodeCoreTest {
 protected:
  CrowdedDecodeCoreTest() : DecodeCoreTest(9, {}) {}
};

TEST_F(CrowdedDecodeCoreTest, NewJobsDoNotOvertakePreemptedOnes) {
  core_.OnDecode(Job(1, 60, 70), kLocal);
  core_.OnDecode(Job(2, 60, 70), kLocal);
  for (int round = 0; round < 100 && worker_.core.engine().Load().preempted == 0; ++round) worker_.RunOnce();
  ASSERT_EQ(worker_.core.engine().Load().preempted, 1);
  ASSERT_GE(worker_.core.engine().available_blocks(), 1) << "there is room for the next job";
  EXPECT_EQ(ReportThatAddsUp().holders.at(1).hold, BlockHold::kPreempted);
  core_.OnDecode(Job(3, 10, 2), kLocal);
  ExpectEnd(3, absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(1, absl::StatusCode::kOk);
  ExpectEnd(2, absl::StatusCode::kOk);
  core_.OnDecode(Job(4, 10, 2), kLocal);
  EXPECT_TRUE(Heard(4).started());
}

class MixedDecodeCoreTest : public DecodeCoreTest {
 protected:
  // A maximal prompt takes more than the pool, so half of the pool is headroom.
  MixedDecodeCoreTest() : DecodeCoreTest(kPoolBlocks, {.leaves_room_for_prompt = true}) {}
};

TEST_F(MixedDecodeCoreTest, ABusyMixedWorkerKeepsHalfOfItsPoolForPrompts) {
  core_.OnDecode(Job(1, 16 * 4, 2), kRemote);
  core_.OnDecode(Job(2, 16 * 7, 2), kRemote);
  ExpectEnd(2, absl::StatusCode::kResourceExhausted);
  core_.OnDecode(Job(3, 16 * 6, 2), kRemote);
  EXPECT_TRUE(Heard(3).started());
}

TEST_F(MixedDecodeCoreTest, AnIdleMixedWorkerTakesAJobThatLeavesNoRoom) {
  core_.OnDecode(Job(1, 16 * 19, 2), kRemote);
  EXPECT_TRUE(Heard(1).started());
}

class HandOverTest : public DecodeCoreTest {
 protected:
  static constexpr kvtransfer::FetchStreamId kStream = 1;
  static JobKey Next(uint64_t number) { return {.job = {.high = 1, .low = number}, .attempt = 2}; }

  // The job has so many outputs when it is asked for, and is frozen behind the next one.
  void FreezeJob(uint64_t number, int32_t prompt_tokens, int32_t outputs) {
    core_.OnDecode(Job(number, prompt_tokens, 100), kLocal);
    for (int32_t i = 0; i < outputs; ++i) worker_.RunOnce();
    core_.OnHandOver(Key(number), {.next = Next(number), .secret = {}});
    worker_.RunOnce();
  }
};

TEST_F(HandOverTest, AJobIsFrozenBehindItsNextTokenAndServesItsKvToTheAttemptThatGoesOn) {
  FreezeJob(1, 40, 3);
  EXPECT_EQ(Heard(1).tokens.size(), 4u);
  EXPECT_EQ(Heard(1).kinds.back(), Kind::kFrozen);
  EXPECT_EQ(Heard(1).frozen.token.index, 3);
  EXPECT_EQ(Heard(1).frozen.token.token, Heard(1).tokens.back());
  EXPECT_FALSE(Heard(1).ended()) << "until the KV is let go";
  EXPECT_FALSE(worker_.RunOnce()) << "a frozen job runs on";
  worker_.OpenFetch(kStream, Next(1));
  // 40 and three tokens: the last one's row has not run.
  EXPECT_THAT(worker_.replies.blocks[kStream], ElementsAre(0, 1, 2));
  EXPECT_EQ(worker_.replies.completed[kStream].block_count, 3);
  EXPECT_EQ(worker_.replies.completed[kStream].first, Heard(1).frozen.token);
  EXPECT_EQ(used_blocks(), 3);
  worker_.ReleaseFetch(kStream);
  ExpectEnd(1, absl::StatusCode::kOk);
  EXPECT_EQ(used_blocks(), 0);
  EXPECT_EQ(core_.job_count(), 0);
}

TEST_F(HandOverTest, TheBlockOfARowThatHasNotRunIsNotHandedOver) {
  // 47 tokens and one output: the next output begins a block.
  FreezeJob(1, 47, 1);
  worker_.OpenFetch(kStream, Next(1));
  EXPECT_THAT(worker_.replies.blocks[kStream], ElementsAre(0, 1, 2));
}

TEST_F(HandOverTest, TheJobGoesOnElsewhereWithTheSameTokens) {
  const WorkerJob job = Job(1, 40, 30);
  const std::vector<int32_t> expected = engine::FakeModelTokens({}, job.prompt, job.sampling, {});
  core_.OnDecode(job, kLocal);
  for (int i = 0; i < 3; ++i) worker_.RunOnce();
  core_.OnHandOver(Key(1), {.next = Next(1), .secret = {}});
  worker_.RunOnce();
  worker_.OpenFetch(kStream, Next(1));
  const kvtransfer::FetchComplete complete = worker_.replies.completed[kStream];
  // Another attempt on this very worker reads the blocks, which are in its pool already.
  WorkerJob next = job;
  next.key = Next(1);
  next.prompt.insert(next.prompt.end(), expected.begin(), expected.begin() + 3);
  next.emitted = 3;
  core_.OnDecode(next, kRemote);
  const std::vector<BlockId>& to = worker_.fetcher.started.back().blocks;
  const size_t bytes = worker_.pool.block_bytes();
  for (size_t i = 0; i < to.size(); ++i) {
    if (worker_.replies.offsets[kStream].contains(static_cast<int32_t>(i))) {
      std::memcpy(worker_.memory.data() + static_cast<size_t>(to[i]) * bytes,
                  worker_.memory.data() + worker_.replies.offsets[kStream][static_cast<int32_t>(i)], bytes);
    }
  }
  core_.OnCommitted({.key = Next(1), .first = complete.first});
  worker_.ReleaseFetch(kStream);
  EXPECT_TRUE(worker_.RunUntilIdle());
  std::vector<int32_t> tokens = Heard(1).tokens;
  const std::vector<int32_t>& more = worker_.updates[Next(1)].tokens;
  ASSERT_FALSE(more.empty());
  EXPECT_EQ(more.front(), tokens.back());
  tokens.insert(tokens.end(), more.begin() + 1, more.end());
  EXPECT_EQ(tokens, expected);
}

TEST_F(HandOverTest, AJobThatEndsWithItsNextTokenIsNotFrozen) {
  core_.OnDecode(Job(1, 40, 4), kLocal);
  for (int i = 0; i < 3; ++i) worker_.RunOnce();
  core_.OnHandOver(Key(1), {.next = Next(1), .secret = {}});
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_EQ(Heard(1).kinds.back(), Kind::kFinished);
  ExpectEnd(1, absl::StatusCode::kOk);
  core_.OnHandOver(Key(1), {.next = Next(1), .secret = {}});
  EXPECT_EQ(worker_.core.kv_server().open_jobs(), 0);
}

TEST_F(HandOverTest, AJobWithoutItsKvIsNotHandedOver) {
  core_.OnDecode(Job(1, 40, 4), kRemote);
  core_.OnHandOver(Key(1), {.next = Next(1), .secret = {}});
  Commit(1, {.index = 0, .token = 5});
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(1, absl::StatusCode::kOk);
}

TEST_F(HandOverTest, AFreezeThatNobodyFetchesEndsTheCallInTime) {
  FreezeJob(1, 40, 3);
  worker_.clock.AdvanceMs(10'000);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ASSERT_TRUE(Heard(1).ended());
  EXPECT_FALSE(Heard(1).ends.front().ok());
  EXPECT_EQ(used_blocks(), 0);
}

TEST_F(HandOverTest, ACancelledFreezeWithoutAReaderLetsGoAtOnce) {
  FreezeJob(1, 40, 3);
  core_.OnCancel(Key(1), absl::CancelledError("client"));
  core_.OnCancel(Key(1), absl::CancelledError("again"));
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_EQ(used_blocks(), 0);
  worker_.OpenFetch(kStream, Next(1));
  EXPECT_TRUE(worker_.replies.closed.contains(kStream));
}

TEST_F(HandOverTest, ACancelledFreezeKeepsItsBlocksWhileAReaderMayRead) {
  FreezeJob(1, 40, 3);
  worker_.OpenFetch(kStream, Next(1));
  core_.OnCancel(Key(1), absl::CancelledError("client"));
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_EQ(used_blocks(), 3);
  worker_.ReleaseFetch(kStream);
  EXPECT_EQ(used_blocks(), 0);
  ExpectEnd(1, absl::StatusCode::kCancelled);
}

TEST_F(HandOverTest, AJobThatIsTakenBackGoesOnAndMayBeFrozenAgain) {
  const WorkerJob job = Job(1, 40, 30);
  core_.OnDecode(job, kLocal);
  for (int i = 0; i < 3; ++i) worker_.RunOnce();
  core_.OnHandOver(Key(1), {.next = Next(1), .secret = {}});
  core_.OnHandOver(Key(1), {});
  worker_.RunOnce();
  EXPECT_EQ(Heard(1).kinds.back(), Kind::kToken) << "it was taken back before the freeze";
  for (uint32_t attempt = 2; attempt <= 3; ++attempt) {
    JobKey next = Next(1);
    next.attempt = attempt;
    core_.OnHandOver(Key(1), {.next = next, .secret = {}});
    worker_.RunOnce();
    EXPECT_EQ(Heard(1).kinds.back(), Kind::kFrozen);
    core_.OnHandOver(Key(1), {});
    worker_.OpenFetch(kStream + attempt, next);
    EXPECT_TRUE(worker_.replies.closed.contains(kStream + attempt)) << "nobody may read it any more";
  }
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_EQ(Heard(1).tokens, engine::FakeModelTokens({}, job.prompt, job.sampling, {}));
  ExpectEnd(1, absl::StatusCode::kOk);
  EXPECT_EQ(used_blocks(), 0);
}

TEST_F(HandOverTest, TheDigestOfThePromptComesWithTheFreeze) {
  WorkerJob job = Job(1, 40, 30);
  job.want_kv_digest = true;
  core_.OnDecode(job, kLocal);
  for (int i = 0; i < 3; ++i) worker_.RunOnce();
  core_.OnHandOver(Key(1), {.next = Next(1), .secret = {}});
  worker_.RunOnce();
  EXPECT_EQ(Heard(1).frozen.kv_digest.size(), 32u);
}

TEST_F(DecodeCoreTest, ASuspectBeginsToDecodeInAStepOfItsOwn) {
  WorkerJob suspect = Job(1, 40, 5);
  suspect.alone_outputs = 2;
  core_.OnDecode(suspect, kRemote);
  core_.OnDecode(Job(2, 40, 5), kRemote);
  for (const uint64_t n : {1, 2}) Commit(n, {.index = 0, .token = 5});
  EXPECT_TRUE(worker_.RunOnce());
  EXPECT_EQ(Heard(1).tokens.size() + Heard(2).tokens.size(), 3u) << "one of them has a step";
  EXPECT_TRUE(worker_.RunOnce());
  EXPECT_EQ(Heard(1).tokens.size() + Heard(2).tokens.size(), 5u) << "then both are in a step";
}

}  // namespace
}  // namespace baton::decode_worker
