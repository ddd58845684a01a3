#include "prefill_worker/prefill_core.h"

#include <utility>
#include <vector>

#include "common/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/testing/test_worker.h"

namespace baton::prefill_worker {
namespace {

using testing::ElementsAre;
using worker::HeardOfJob;
using worker::TestWorker;
using Kind = WorkerUpdate::Kind;

constexpr int32_t kPoolBlocks = 12;
constexpr int32_t kChunkBlocks = 2;

JobKey Key(uint64_t number) { return {.job = {.high = 1, .low = number}, .attempt = 1}; }

// A worker with a prefill phase. The test is also its other phase: it takes blocks of the engine and gives them back.
class PrefillCoreTest : public ::testing::Test {
 protected:
  PrefillCoreTest()
      : worker_(
            {.pool_blocks = kPoolBlocks, .engine = {.chunk_tokens = kChunkBlocks * kBlockTokens, .max_sequences = 4}}),
        core_(worker_.core, worker_.updates) {
    worker_.core.MakeLoop();
  }

  static WorkerJob Job(uint64_t number, int32_t blocks, int32_t max_tokens) {
    WorkerJob job{.key = Key(number),
                  .prompt = TestWorker::PromptOf(blocks * kBlockTokens, static_cast<int32_t>(number))};
    job.sampling.max_tokens = max_tokens;
    return job;
  }
  engine::SequenceId TakeBlocks(int32_t blocks) {
    const auto sequence = engine().Reserve({.prompt = TestWorker::PromptOf(blocks * kBlockTokens, 60),
                                            .sampling = {.max_tokens = 1},
                                            .pulls_prompt = true});
    BATON_CHECK(sequence.ok()) << sequence.status();
    return *sequence;
  }
  // A prompt that is its own job: one output token, no reader.
  void PrefillSolo(uint64_t number, int32_t blocks) { core_.OnPrefill(Job(number, blocks, 1), /*solo=*/true); }
  // A prompt whose reader has opened the stream of the same number.
  void PrefillFor(uint64_t number, int32_t blocks) {
    core_.OnPrefill(Job(number, blocks, 20), /*solo=*/false);
    worker_.OpenFetch(number, Key(number));
  }

  engine::Engine& engine() { return worker_.core.engine(); }
  const HeardOfJob& Heard(uint64_t number) { return worker_.updates[Key(number)]; }
  void ExpectEnd(uint64_t number, absl::StatusCode code) {
    ASSERT_EQ(Heard(number).ends.size(), 1u) << "job " << number;
    EXPECT_EQ(Heard(number).ends.front().code(), code) << Heard(number).ends.front();
  }

  TestWorker worker_;
  PrefillCore core_;
};

TEST_F(PrefillCoreTest, AWaitingPromptStartsWhenAnotherPhaseGivesBlocksBack) {
  const engine::SequenceId other = TakeBlocks(11);
  PrefillSolo(1, 2);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ASSERT_FALSE(Heard(1).started()) << "there is no room yet";
  ASSERT_TRUE(worker_.core.loop().Post([&] { engine().Release(other); }));
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(1, absl::StatusCode::kOk);
}

TEST_F(PrefillCoreTest, TooFewBlocksGivenBackLeaveThePromptWaitingWithoutASpin) {
  const engine::SequenceId large = TakeBlocks(10);
  const engine::SequenceId small = TakeBlocks(1);
  PrefillSolo(1, 3);
  ASSERT_TRUE(worker_.core.loop().Post([&] { engine().Release(small); }));
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_FALSE(Heard(1).started());
  EXPECT_EQ(worker_.core.loop().NextRun(), kNever);
  ASSERT_TRUE(worker_.core.loop().Post([&] { engine().Release(large); }));
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_TRUE(Heard(1).ended());
}

TEST_F(PrefillCoreTest, APromptIsAnnouncedBlockByBlockAndHeldForItsReader) {
  PrefillFor(1, 3);
  EXPECT_EQ(core_.waiting_prompt_tokens(), 0) << "the engine counts what has started";
  worker_.RunOnce();
  EXPECT_THAT(worker_.replies.blocks[1], ElementsAre(0, 1));
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_THAT(worker_.replies.blocks[1], ElementsAre(0, 1, 2));
  EXPECT_THAT(Heard(1).kinds, ElementsAre(Kind::kStarted, Kind::kToken, Kind::kFinished));
  EXPECT_EQ(worker_.replies.completed[1].block_count, 3);
  EXPECT_THAT(Heard(1).tokens, ElementsAre(worker_.replies.completed[1].first.token));
  ExpectEnd(1, absl::StatusCode::kOk);
  EXPECT_EQ(engine().Load().used_blocks, 3);
  worker_.ReleaseFetch(1);
  EXPECT_EQ(engine().Load().used_blocks, 0);
  ExpectEnd(1, absl::StatusCode::kOk);
}

TEST_F(PrefillCoreTest, TheReportSaysWhatIsComputedAndWhatIsHeldForAReader) {
  PrefillFor(1, 3);
  EXPECT_TRUE(worker_.RunUntilIdle());
  worker_.clock.AdvanceMs(4);
  PrefillFor(2, 4);
  worker_.RunOnce();
  // It waits for a licence, and holds nothing.
  core_.OnPrefill(Job(3, 2, 20), /*solo=*/false);
  const BlockReport report = worker_.core.Blocks();
  EXPECT_THAT(report.holders, ElementsAre(BlockHolder{Key(1), BlockHold::kForReader, 3, 3, 4},
                                          BlockHolder{Key(2), BlockHold::kPrefilling, 4, 4, 0}));
  EXPECT_EQ(report.free_blocks + report.cached_blocks, kPoolBlocks - 7);
  core_.OnCancel(Key(2), absl::CancelledError("client"));
  EXPECT_EQ(worker_.core.Blocks().holders.at(1).hold, BlockHold::kForReader) << "it may be reading";
  worker_.ReleaseFetch(1);
  worker_.ReleaseFetch(2);
  EXPECT_TRUE(worker_.core.Blocks().holders.empty());
}

TEST_F(PrefillCoreTest, AJobThatHasOutputsGivesTheNextOne) {
  WorkerJob job = Job(1, 3, 20);
  job.emitted = 7;
  core_.OnPrefill(job, /*solo=*/false);
  worker_.OpenFetch(1, Key(1));
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_EQ(worker_.replies.completed[1].first.index, 7);
  EXPECT_EQ(worker_.replies.completed[1].block_count, 3);
  ExpectEnd(1, absl::StatusCode::kOk);
}

TEST_F(PrefillCoreTest, APromptWithoutALicenceWaits) {
  core_.OnPrefill(Job(1, 2, 20), /*solo=*/false);
  EXPECT_FALSE(worker_.RunOnce());
  EXPECT_FALSE(Heard(1).started());
  EXPECT_EQ(core_.waiting_prompt_tokens(), 2 * kBlockTokens);
  core_.OnCancel(Key(1), absl::CancelledError("client"));
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_EQ(core_.waiting_prompt_tokens(), 0);
}

TEST_F(PrefillCoreTest, NoPromptStartsWhileHalfOfThePoolWaitsForReaders) {
  PrefillFor(1, 4);
  PrefillFor(2, 4);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ASSERT_TRUE(Heard(2).ended());
  PrefillFor(3, 2);
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_EQ(engine().available_blocks(), 4) << "there would be room";
  EXPECT_FALSE(Heard(3).started());
  EXPECT_EQ(core_.waiting_prompt_tokens(), 2 * kBlockTokens);
  worker_.ReleaseFetch(1);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(3, absl::StatusCode::kOk);
}

TEST_F(PrefillCoreTest, ExactlyHalfOfThePoolMayWaitForReaders) {
  PrefillFor(1, 3);
  PrefillFor(2, 3);
  EXPECT_TRUE(worker_.RunUntilIdle());
  PrefillFor(3, 2);
  EXPECT_TRUE(Heard(3).started());
}

TEST_F(PrefillCoreTest, ACancelledPromptIsComputedNoFurther) {
  PrefillFor(1, 5);
  worker_.RunOnce();
  core_.OnCancel(Key(1), absl::CancelledError("client"));
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_EQ(engine().Load().used_blocks, 5) << "the reader may be reading";
  EXPECT_FALSE(worker_.RunOnce());
  EXPECT_THAT(worker_.replies.blocks[1], ElementsAre(0, 1));
  worker_.ReleaseFetch(1);
  EXPECT_EQ(engine().Load().used_blocks, 0);
  ExpectEnd(1, absl::StatusCode::kCancelled);
}

TEST_F(PrefillCoreTest, ACancelledPromptLeavesTheLine) {
  const engine::SequenceId other = TakeBlocks(11);
  PrefillFor(1, 2);
  PrefillFor(2, 1);
  EXPECT_FALSE(Heard(2).started()) << "those behind one that does not fit wait";
  core_.OnCancel(Key(1), absl::CancelledError("client"));
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(2, absl::StatusCode::kOk);
  EXPECT_EQ(core_.waiting_prompt_tokens(), 0);
  engine().Release(other);
}

TEST_F(PrefillCoreTest, AReaderThatReleasesEarlyEndsTheCall) {
  PrefillFor(1, 5);
  worker_.RunOnce();
  worker_.ReleaseFetch(1);
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_EQ(engine().Load().used_blocks, 0);
  EXPECT_FALSE(worker_.RunOnce());
}

TEST_F(PrefillCoreTest, APromptThatCanNeverFitEndsAndTheNextOneStarts) {
  const engine::SequenceId other = TakeBlocks(11);
  PrefillSolo(1, 13);
  PrefillSolo(2, 1);
  ExpectEnd(1, absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(2, absl::StatusCode::kOk);
  engine().Release(other);
}

TEST_F(PrefillCoreTest, TheSameJobASecondTimeIsRefused) {
  PrefillFor(1, 1);
  EXPECT_TRUE(worker_.RunUntilIdle());
  core_.OnPrefill(Job(1, 1, 20), /*solo=*/false);
  ASSERT_EQ(Heard(1).ends.size(), 2u);
  EXPECT_EQ(Heard(1).ends.back().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(engine().Load().used_blocks, 1);
}

TEST_F(PrefillCoreTest, AHitInTheCacheIsAnnouncedBeforeTheFirstStep) {
  PrefillSolo(1, 4);
  EXPECT_TRUE(worker_.RunUntilIdle());
  WorkerJob again = Job(1, 4, 20);
  again.key = Key(2);
  core_.OnPrefill(again, /*solo=*/false);
  worker_.OpenFetch(2, Key(2));
  EXPECT_EQ(Heard(2).cached_tokens, 3 * kBlockTokens);
  EXPECT_THAT(worker_.replies.blocks[2], ElementsAre(0, 1, 2));
}

TEST_F(PrefillCoreTest, ASuspectIsComputedInAStepOfItsOwn) {
  WorkerJob suspect = Job(1, 1, 20);
  suspect.alone_outputs = 2;
  core_.OnPrefill(suspect, /*solo=*/false);
  core_.OnPrefill(Job(2, 1, 20), /*solo=*/false);
  for (const uint64_t n : {1, 2}) worker_.OpenFetch(n, Key(n));
  EXPECT_TRUE(worker_.RunOnce());
  EXPECT_EQ(Heard(1).tokens.size() + Heard(2).tokens.size(), 1u);
  EXPECT_TRUE(worker_.RunOnce());
  EXPECT_EQ(Heard(1).tokens.size() + Heard(2).tokens.size(), 2u);
}

}  // namespace
}  // namespace baton::prefill_worker
