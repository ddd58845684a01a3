#include <utility>

#include "common/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtransfer/kv_sink.h"
#include "kvtransfer/testing/describe_handoff.h"
#include "kvtransfer/testing/sink_fixture.h"

namespace baton::kvtransfer {
namespace {

TEST_F(KvSinkTest, RenewsRegularlyFromTheOpenOn) {
  Start(1, {1});
  Actions();
  EXPECT_EQ(sink_.NextTimer(), clock_.Now() + 500 * kNsPerMs);
  EXPECT_EQ(AfterMs(499), "");
  EXPECT_EQ(AfterMs(1), "Send(1,Renew1)");
  sink_.OnReply(1, FetchRenewed{1});
  EXPECT_EQ(AfterMs(700), "Send(1,Renew2)");
  EXPECT_EQ(sink_.NextTimer(), clock_.Now() + 500 * kNsPerMs);
}

TEST_F(KvSinkTest, LeaseCountsFromTheSendingOfTheLastConfirmedRenewal) {
  Pull(1, {1});
  const TimeNs begin = clock_.Now();
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(AfterMs(500), "Send(1,Renew" + std::to_string(i) + ")");
  // Sent after 500 and 1500 ms; the answers come late.
  sink_.OnReply(1, FetchRenewed{1});
  sink_.OnReply(1, FetchRenewed{3});
  // The second half of the answer to an older one changes nothing.
  sink_.OnReply(1, FetchRenewed{2});
  clock_.Set(begin + 5'499 * kNsPerMs);
  sink_.OnTimer();
  EXPECT_EQ(Actions(), "Send(1,Renew5)");
  EXPECT_EQ(AfterMs(1), "Send(1,Release) Fail(1,UNAVAILABLE) Finish(1)");
}

TEST_F(KvSinkTest, NoReadStartsInTheLastQuarterUntilARenewalIsConfirmed) {
  Pull(1, {1});
  EXPECT_EQ(AfterMs(2'999), "Send(1,Renew1)");
  clock_.AdvanceMs(1);
  Ready(1, {0});
  EXPECT_EQ(Actions(), "");
  sink_.OnReply(1, FetchRenewed{1});
  EXPECT_EQ(Actions(), "Read(1,#1,640>64+64)");
}

TEST_F(KvSinkTest, ReadStartsJustBeforeTheLastQuarter) {
  Pull(1, {1});
  clock_.AdvanceMs(2'999);
  Ready(1, {0});
  EXPECT_EQ(Actions(), "Read(1,#1,640>64+64)");
}

TEST_F(KvSinkTest, PeersShareNoReadSlots) {
  Pull(1, {0, 1, 2, 3, 4, 5});
  Ready(1, {0, 1, 2, 3, 4, 5});
  // Both slots of the first peer, whose reads never end.
  EXPECT_EQ(Actions(), "Read(1,#1,640>0+128) Read(1,#2,768>128+128)");
  constexpr PeerId kOtherPeer = kPeer + 1;
  for (uint64_t job : {2, 3}) {
    const auto first = static_cast<BlockId>(6 * (job - 1));
    Start(job, {first, first + 1});
    Accept(job);
    sink_.OnConnected(job, kOtherPeer);
  }
  Actions();
  Ready(2, {0, 1});
  EXPECT_EQ(Actions(), "Read(2,#3,640>384+128)");
  Ready(3, {0, 1});
  EXPECT_EQ(Actions(), "Read(3,#4,640>768+128)");
  Fill(2, {0, 1});
  sink_.OnReadDone(3, absl::OkStatus());
  Complete(2, 2);
  EXPECT_EQ(Actions(), "Send(2,Release) Commit(2) Finish(2)");
  // A slot of the first peer serves that peer again.
  Fill(1, {0, 1});
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Read(1,#5,896>256+128)");
}

TEST_F(KvSinkTest, LeaseThatEndsDuringAReadFailsWithItsEnd) {
  PullOneBlock();
  clock_.AdvanceMs(4'000);
  sink_.OnTimer();
  EXPECT_EQ(sink_.open_jobs(), 1);
  Actions();
  Fill(1, {0});
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,UNAVAILABLE) Finish(1)");
}

TEST_F(KvSinkTest, SilentSourceFailsAnOpeningFetch) {
  Start(1, {1});
  Actions();
  EXPECT_EQ(AfterMs(4'000), "Send(1,Release) Fail(1,UNAVAILABLE) Finish(1)");
}

TEST_F(KvSinkTest, RepliesBeforeAcceptedBreakTheRules) {
  const FetchReply replies[] = {BlocksReady{}, FetchComplete{.block_count = 1}};
  uint64_t job = 0;
  for (const FetchReply& reply : replies) {
    Start(++job, {1});
    Actions();
    sink_.OnReply(job, reply);
    const std::string name = std::to_string(job);
    EXPECT_EQ(Actions(), "Send(" + name + ",Release) Fail(" + name + ",INTERNAL) Finish(" + name + ")");
  }
}

TEST_F(KvSinkTest, OtherBlockSizeIsRefused) {
  Start(1, {1});
  sink_.OnReply(1, FetchAccepted{"address", kBlockBytes * 2});
  EXPECT_EQ(Actions(), "Open(1) Send(1,Release) Fail(1,FAILED_PRECONDITION) Finish(1)");
}

TEST_F(KvSinkTest, ImpossibleAddressesAreRefused) {
  Start(1, {1});
  Actions();
  sink_.OnReply(1, FetchAccepted{"", kBlockBytes});
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,INTERNAL) Finish(1)");
  Start(2, {1});
  Actions();
  sink_.OnReply(2, FetchAccepted{std::string(kMaxAddressBytes + 1, 'x'), kBlockBytes});
  EXPECT_EQ(Actions(), "Send(2,Release) Fail(2,INTERNAL) Finish(2)");
  Start(3, {1});
  Actions();
  sink_.OnReply(3, FetchAccepted{std::string(kMaxAddressBytes, 'x'), kBlockBytes});
  EXPECT_EQ(Actions(), "Connect(3," + std::string(kMaxAddressBytes, 'x') + ")");
}

TEST_F(KvSinkTest, SecondAcceptedBreaksTheRules) { ExpectBroken(FetchAccepted{"address", kBlockBytes}); }

// Blocks 1 and 2 of three are asked for.
TEST_F(KvSinkTest, BlocksOutOfRangeBreakTheRules) {
  for (int32_t index : {-1, 0, 3, INT32_MAX, INT32_MIN}) ExpectBroken(BlocksReady{{ReadyOf(1, index, 640)}});
}

TEST_F(KvSinkTest, RepeatedBlocksBreakTheRules) {
  ExpectBroken(BlocksReady{{ReadyOf(1, 1, 640), ReadyOf(1, 1, 640)}});
  Pull(++last_job_, {1, 2});
  Ready(last_job_, {0});
  Actions();
  Ready(last_job_, {0});
  Fill(last_job_, {0});
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(2,Release) Fail(2,INTERNAL) Finish(2)");
}

TEST_F(KvSinkTest, HugeAnnouncementsBreakTheRules) {
  BlocksReady huge;
  huge.blocks.resize(1'000'000);
  ExpectBroken(huge);
  ExpectBroken(BlocksReady{{ReadyOf(1, 1, 640), ReadyOf(1, 2, 704), ReadyOf(1, 2, 768)}});
}

TEST_F(KvSinkTest, ImpossibleOffsetsBreakTheRules) {
  for (uint64_t offset : {uint64_t{1}, uint64_t{63}, UINT64_MAX, UINT64_MAX - 63, UINT64_MAX - 62}) {
    ExpectBroken(BlocksReady{{ReadyOf(1, 1, offset)}});
  }
}

TEST_F(KvSinkTest, ConfirmationOfARenewalThatWasNeverSentBreaksTheRules) {
  ExpectBroken(FetchRenewed{1});
  ExpectBroken(FetchRenewed{0});
  ExpectBroken(FetchRenewed{UINT64_MAX});
}

TEST_F(KvSinkTest, CompleteWithAnotherBlockCountBreaksTheRules) {
  for (int32_t count : {-1, 0, 2, 4, INT32_MAX}) {
    ExpectBroken(FetchComplete{.block_count = count, .first = {.finish = FinishReason::kStop}});
  }
}

TEST_F(KvSinkTest, CompleteBeforeAllBlocksAreAnnouncedBreaksTheRules) { ExpectBroken(FetchComplete{.block_count = 3}); }

TEST_F(KvSinkTest, SecondCompleteBreaksTheRules) {
  PullOneBlock();
  Complete(1, 1);
  Complete(1, 1);
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,INTERNAL) Finish(1)");
}

TEST_F(KvSinkTest, AFirstTokenThatIsNotOutputZeroBreaksTheRules) {
  ExpectBroken(FetchComplete{.block_count = 3, .first = {.index = 1, .finish = FinishReason::kStop}});
}

TEST_F(KvSinkTest, TheTokenOfAJobThatHasOutputsIsTheNextOne) {
  for (const auto& [index, end] : {std::pair(3, "Commit"), std::pair(0, "Fail"), std::pair(4, "Fail")}) {
    FetchSpec spec = SpecOf(++last_job_, {1});
    spec.first_output = 3;
    sink_.Start(spec);
    Accept(last_job_);
    Actions();
    sink_.OnReply(last_job_, FetchComplete{.block_count = 1, .first = {.index = index, .finish = FinishReason::kStop}});
    EXPECT_THAT(Actions(), ::testing::HasSubstr(end)) << index;
  }
}

TEST_F(KvSinkTest, MessagesOfUnknownStreamsAreIgnored) {
  sink_.OnReply(9, FetchRenewed{1});
  sink_.OnStreamClosed(9, absl::OkStatus());
  sink_.OnConnected(9, kPeer);
  EXPECT_EQ(Actions(), "");
}

TEST_F(KvSinkTest, UnansweredRenewalsAreBoundedAndTheLastOnesCount) {
  KvSinkOptions options = SinkOptions();
  options.lease_ms = 30'000;
  options.renew_ms = 10;
  KvSink sink(options, clock_, pool_);
  FetchSpec spec;
  spec.key = KeyOf(1);
  spec.blocks = {1};
  sink.Start(spec);
  uint64_t sent = 0;
  for (; sent < 200; ++sent) {
    clock_.AdvanceMs(10);
    sink.OnTimer();
  }
  sink.OnReply(1, FetchRenewed{1});
  sink.OnReply(1, FetchRenewed{200});
  clock_.AdvanceMs(29'999);
  sink.OnTimer();
  EXPECT_EQ(sink.open_jobs(), 1);
  clock_.AdvanceMs(1);
  sink.OnTimer();
  EXPECT_EQ(sink.open_jobs(), 0);
}

}  // namespace
}  // namespace baton::kvtransfer
