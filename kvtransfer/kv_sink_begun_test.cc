// Blocks that are read while the source still computes their last layers.
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kvtransfer/kv_sink.h"
#include "kvtransfer/testing/describe_handoff.h"
#include "kvtransfer/testing/sink_fixture.h"

namespace baton::kvtransfer {
namespace {

class KvSinkBegunTest : public KvSinkTest {
 protected:
  // The beginnings of these blocks of a job, each with its bytes. Block i lies where Ready says it does.
  void Begin(uint64_t job, std::vector<std::pair<int32_t, uint64_t>> beginnings) {
    BlocksBegun begun;
    for (const auto& [index, bytes] : beginnings) {
      begun.blocks.push_back(
          {.index = index, .offset = kBlockBytes * (10 + static_cast<uint64_t>(index)), .bytes = bytes});
    }
    sink_.OnReply(job, begun);
  }
  void ReadDone(uint64_t tag) { sink_.OnReadDone(tag, absl::OkStatus()); }
};

TEST_F(KvSinkBegunTest, ABeginningIsReadAtOnceAndOnlyTheRestWhenTheBlockIsReady) {
  Pull(1, {3, 5});
  Begin(1, {{0, 16}, {1, 16}});
  EXPECT_EQ(Actions(), "Read(1,#1,640>192+16,704>320+16)");
  ReadDone(1);
  EXPECT_EQ(Actions(), "");
  Begin(1, {{0, 48}, {1, 32}});
  EXPECT_EQ(Actions(), "Read(1,#2,656>208+32,720>336+16)");
  Ready(1, {0, 1});
  EXPECT_EQ(Actions(), "Read(1,#3,688>240+16,736>352+32)");
  Complete(1, 2);
  Fill(1, {0, 1});
  ReadDone(2);
  ReadDone(3);
  const auto actions = sink_.TakeActions();
  EXPECT_EQ(DescribeAll(actions), "Send(1,Release) Commit(1) Finish(1)");
  EXPECT_EQ(std::get<Committed>(actions.at(1)).bytes, 128);
  EXPECT_EQ(std::get<Committed>(actions.at(1)).early_bytes, 80);
}

TEST_F(KvSinkBegunTest, ABlockThatCameAsAWholeIsVerifiedWhenItIsReady) {
  Pull(1, {3});
  Begin(1, {{0, kBlockBytes}});
  EXPECT_EQ(Actions(), "Read(1,#1,640>192+64)");
  Fill(1, {0});
  ReadDone(1);
  Ready(1, {0});
  Complete(1, 1);
  const auto actions = sink_.TakeActions();
  EXPECT_EQ(DescribeAll(actions), "Send(1,Release) Commit(1) Finish(1)");
  EXPECT_EQ(std::get<Committed>(actions.at(1)).early_bytes, 64);
}

TEST_F(KvSinkBegunTest, ABlockThatIsOnItsWayAsAWholeWhenItIsReadyIsVerifiedWhenItCame) {
  Pull(1, {3});
  Begin(1, {{0, kBlockBytes}});
  Ready(1, {0});
  Complete(1, 1);
  EXPECT_EQ(Actions(), "Read(1,#1,640>192+64)");
  Fill(1, {0});
  ReadDone(1);
  EXPECT_EQ(Actions(), "Send(1,Release) Commit(1) Finish(1)");
}

TEST_F(KvSinkBegunTest, ABlockThatCameAsAWholeAndDiffersIsReadAgain) {
  Pull(1, {3});
  Begin(1, {{0, kBlockBytes}});
  ReadDone(1);
  Ready(1, {0});
  Complete(1, 1);
  EXPECT_EQ(Actions(), "Read(1,#1,640>192+64) Read(1,#2,640>192+64)");
  Fill(1, {0});
  ReadDone(2);
  const auto actions = sink_.TakeActions();
  EXPECT_EQ(DescribeAll(actions), "Send(1,Release) Commit(1) Finish(1)");
  EXPECT_EQ(std::get<Committed>(actions.at(1)).early_bytes, 0) << "nothing of it was of use";
  EXPECT_EQ(std::get<Committed>(actions.at(1)).damaged_blocks, 1);
}

TEST_F(KvSinkBegunTest, WhatIsLeftOutCountsForNothing) {
  Pull(1, {3});
  Begin(1, {{0, 16}});
  ReadDone(1);
  Complete(1, 1, FinishReason::kStop);
  const auto actions = sink_.TakeActions();
  EXPECT_EQ(DescribeAll(actions), "Read(1,#1,640>192+16) Send(1,Release) Commit(1) Finish(1)");
  EXPECT_EQ(std::get<Committed>(actions.at(2)).early_bytes, 0);
}

TEST_F(KvSinkBegunTest, ABlockIsVerifiedOnlyWhenItsLastReadEnds) {
  Pull(1, {3});
  Begin(1, {{0, 16}});
  Ready(1, {0});
  EXPECT_EQ(Actions(), "Read(1,#1,640>192+16) Read(1,#2,656>208+48)");
  Complete(1, 1);
  ReadDone(2);
  EXPECT_EQ(Actions(), "") << "its beginning is still on its way";
  Fill(1, {0});
  ReadDone(1);
  EXPECT_EQ(Actions(), "Send(1,Release) Commit(1) Finish(1)");
}

TEST_F(KvSinkBegunTest, ABeginningThatChangedMakesTheWholeBlockReadAgain) {
  Pull(1, {3});
  Begin(1, {{0, 16}});
  ReadDone(1);
  Ready(1, {0});
  Complete(1, 1);
  EXPECT_EQ(Actions(), "Read(1,#1,640>192+16) Read(1,#2,656>208+48)");
  ReadDone(2);
  EXPECT_EQ(Actions(), "Read(1,#3,640>192+64)");
  Fill(1, {0});
  ReadDone(3);
  EXPECT_EQ(Actions(), "Send(1,Release) Commit(1) Finish(1)");
}

TEST_F(KvSinkBegunTest, ReadyBlocksGoFirst) {
  Pull(1, {0, 2, 4, 6, 8});
  // Both of the peer's slots are taken.
  Begin(1, {{0, 16}});
  Begin(1, {{0, 32}});
  Begin(1, {{1, 16}, {2, 16}});
  Ready(1, {3, 4});
  EXPECT_EQ(Actions(), "Read(1,#1,640>0+16) Read(1,#2,656>16+16)");
  ReadDone(1);
  ReadDone(2);
  EXPECT_EQ(Actions(), "Read(1,#3,832>384+64,896>512+64) Read(1,#4,704>128+16,768>256+16)");
}

TEST_F(KvSinkBegunTest, ABlockThatIsReadyBeforeItsBeginningWasReadIsReadOnce) {
  Pull(1, {0, 2});
  Begin(1, {{0, 16}});
  Begin(1, {{0, 32}});
  // Both of the peer's slots are taken.
  Begin(1, {{1, 16}});
  Ready(1, {0, 1});
  Complete(1, 2);
  EXPECT_EQ(Actions(), "Read(1,#1,640>0+16) Read(1,#2,656>16+16)");
  ReadDone(1);
  ReadDone(2);
  EXPECT_EQ(Actions(), "Read(1,#3,672>32+32,704>128+64)");
  Fill(1, {0, 1});
  ReadDone(3);
  EXPECT_EQ(Actions(), "Send(1,Release) Commit(1) Finish(1)");
}

TEST_F(KvSinkBegunTest, AFailedReadOfABeginningEndsTheFetch) {
  Pull(1, {3});
  Begin(1, {{0, 16}});
  sink_.OnReadDone(1, absl::UnavailableError("lost"));
  EXPECT_EQ(Actions(), "Read(1,#1,640>192+16) Send(1,Release) Fail(1,UNAVAILABLE) Finish(1)");
}

TEST_F(KvSinkBegunTest, ACancelledFetchWaitsForTheReadOfABeginning) {
  Pull(1, {3, 4});
  Begin(1, {{0, 16}});
  EXPECT_EQ(Actions(), "Read(1,#1,640>192+16)");
  sink_.Cancel(KeyOf(1), absl::CancelledError("gone"));
  Begin(1, {{1, 16}});
  EXPECT_EQ(Actions(), "");
  ReadDone(1);
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,CANCELLED) Finish(1)");
}

TEST_F(KvSinkBegunTest, ImpossibleBeginningsBreakTheRules) {
  const auto one = [](int32_t index, uint64_t offset, uint64_t bytes) {
    return BlocksBegun{{{.index = index, .offset = offset, .bytes = bytes}}};
  };
  ExpectBroken(one(0, 640, 16));  // A block that is in place.
  ExpectBroken(one(3, 640, 16));  // None of the prompt's.
  ExpectBroken(one(-1, 640, 16));
  ExpectBroken(one(1, 641, 16));
  ExpectBroken(one(1, UINT64_MAX - 63, 16));
  ExpectBroken(one(1, 640, 0));
  ExpectBroken(one(1, 640, kBlockBytes + 1));
  ExpectBroken(one(1, 640, UINT64_MAX));
  ExpectBroken(BlocksBegun{{{.index = 1, .offset = 640, .bytes = 32}, {.index = 1, .offset = 640, .bytes = 32}}});
  ExpectBroken(BlocksBegun{{{.index = 1, .offset = 640, .bytes = 16}, {.index = 1, .offset = 704, .bytes = 32}}});
}

TEST_F(KvSinkBegunTest, ABlockThatIsReadyIsNotBegunAndStaysWhereItBegan) {
  Pull(1, {3, 4});
  Ready(1, {0});
  Begin(1, {{0, 16}});
  Fill(1, {0});
  ReadDone(1);
  EXPECT_EQ(Actions(), "Read(1,#1,640>192+64) Send(1,Release) Fail(1,INTERNAL) Finish(1)");
  Pull(2, {3});
  Begin(2, {{0, 16}});
  sink_.OnReply(2, BlocksReady{{ReadyOf(2, 0, 0)}});
  ReadDone(2);
  EXPECT_EQ(Actions(), "Read(2,#2,640>192+16) Send(2,Release) Fail(2,INTERNAL) Finish(2)");
}

TEST_F(KvSinkBegunTest, BegunBlocksBeforeTheAcceptanceBreakTheRules) {
  Start(1, {3});
  Begin(1, {{0, 16}});
  EXPECT_EQ(Actions(), "Open(1) Send(1,Release) Fail(1,INTERNAL) Finish(1)");
}

}  // namespace
}  // namespace baton::kvtransfer
