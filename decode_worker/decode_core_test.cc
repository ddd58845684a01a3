#include "decode_worker/decode_core.h"

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

}  // namespace
}  // namespace baton::decode_worker
