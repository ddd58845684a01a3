#include "kvtransfer/kv_sink.h"

#include <cstring>
#include <map>
#include <string>

#include "common/limits.h"
#include "gtest/gtest.h"
#include "kvtransfer/handoff_testing.h"

namespace baton::kvtransfer {
namespace {

constexpr uint64_t kBlockBytes = 64;
constexpr PeerId kPeer = 77;

KvSinkOptions Options() {
  KvSinkOptions options;
  options.block_bytes = kBlockBytes;
  options.lease_ms = 4'000;
  options.renew_ms = 500;
  options.max_blocks_per_read = 2;
  options.max_reads_in_flight = 2;
  options.max_rereads = 1;
  return options;
}

uint8_t ByteOf(uint64_t job, int32_t index) {
  return static_cast<uint8_t>(16 * job + static_cast<uint64_t>(index) + 1);
}

// Streams are numbered from 1 in the order of Start, as are reads.
class KvSinkTest : public testing::Test {
 protected:
  std::string Actions() { return DescribeAll(sink_.TakeActions()); }
  std::string AfterMs(int64_t ms) {
    clock_.AdvanceMs(ms);
    sink_.OnTimer();
    return Actions();
  }
  void Start(uint64_t job, std::vector<BlockId> blocks, int32_t first_block = 0, TimeNs deadline = kNever) {
    FetchSpec spec;
    spec.key = KeyOf(job);
    spec.source_target = "prefill:1";
    spec.source = kSourceIncarnation;
    spec.fingerprint = "weights-1";
    spec.deadline = deadline;
    spec.first_block = first_block;
    spec.blocks = std::move(blocks);
    blocks_[job] = spec.blocks;
    sink_.Start(spec);
  }
  void Accept(FetchStreamId stream) { sink_.OnReply(stream, FetchAccepted{"address", kBlockBytes}); }
  // Started, accepted and connected; stream `job`.
  void Pull(uint64_t job, std::vector<BlockId> blocks, int32_t first_block = 0, TimeNs deadline = kNever) {
    Start(job, std::move(blocks), first_block, deadline);
    Accept(job);
    sink_.OnConnected(job, kPeer);
    const std::string name = std::to_string(job);
    ASSERT_EQ(Actions(), "Open(" + name + ") Connect(" + name + ",address)");
  }
  BlockReady ReadyOf(uint64_t job, int32_t index, uint64_t offset) {
    const std::vector<uint8_t> bytes(kBlockBytes, ByteOf(job, index));
    return {.index = index, .offset = offset, .digest = DigestBytes(bytes.data(), bytes.size())};
  }
  // Block i lies in the source's block 10 + i.
  void Ready(uint64_t job, std::vector<int32_t> indices) {
    BlocksReady ready;
    for (int32_t index : indices) {
      ready.blocks.push_back(ReadyOf(job, index, kBlockBytes * (10 + static_cast<uint64_t>(index))));
    }
    sink_.OnReply(job, ready);
  }
  // What the transport would have copied.
  void Fill(uint64_t job, std::vector<int32_t> indices) {
    for (int32_t index : indices) {
      const auto block = static_cast<size_t>(blocks_.at(job)[static_cast<size_t>(index)]);
      std::memset(pool_.data() + block * kBlockBytes, ByteOf(job, index), kBlockBytes);
    }
  }
  void Complete(uint64_t job, int32_t blocks, uint8_t finish = 0) {
    sink_.OnReply(job, FetchComplete{.block_count = blocks, .first = {.token = 5, .finish = finish}});
  }
  // Job 1 of one block with read 1 in flight.
  void PullOneBlock(TimeNs deadline = kNever) {
    Pull(1, {3}, 0, deadline);
    Ready(1, {0});
    ASSERT_EQ(Actions(), "Read(1,#1,640>192+64)");
  }
  // Job 1 of two blocks gets a reply that breaks the rules.
  void ExpectBroken(const FetchReply& reply, const std::string& code = "INTERNAL") {
    Pull(++last_job_, {1, 2, 3}, 1);
    const std::string name = std::to_string(last_job_);
    sink_.OnReply(last_job_, reply);
    EXPECT_EQ(Actions(), "Send(" + name + ",Release) Finish(" + name + ") Fail(" + name + "," + code + ")");
    EXPECT_EQ(sink_.open_jobs(), 0);
  }

  ManualClock clock_;
  std::vector<uint8_t> pool_ = std::vector<uint8_t>(kBlockBytes * 32);
  KvSink sink_{Options(), clock_, pool_};
  std::map<uint64_t, std::vector<BlockId>> blocks_;
  uint64_t last_job_ = 0;
};

TEST_F(KvSinkTest, StartOpensTheStream) {
  Start(1, {4, 5}, 1);
  const auto actions = sink_.TakeActions();
  ASSERT_EQ(actions.size(), 1u);
  const auto& open = std::get<OpenStream>(actions[0]);
  EXPECT_EQ(open.target, "prefill:1");
  EXPECT_EQ(open.open.key, KeyOf(1));
  EXPECT_EQ(open.open.source, kSourceIncarnation);
  EXPECT_EQ(open.open.fingerprint, "weights-1");
  EXPECT_EQ(open.open.first_block, 1);
  EXPECT_EQ(open.open.lease_ms, 4'000);
  EXPECT_EQ(sink_.open_jobs(), 1);
}

TEST_F(KvSinkTest, AcceptedConnects) {
  Start(1, {4});
  Accept(1);
  EXPECT_EQ(Actions(), "Open(1) Connect(1,address)");
}

TEST_F(KvSinkTest, ReadyBlocksAreReadOnceConnected) {
  Start(1, {4});
  Accept(1);
  Ready(1, {0});
  EXPECT_EQ(Actions(), "Open(1) Connect(1,address)");
  sink_.OnConnected(1, kPeer);
  EXPECT_EQ(Actions(), "Read(1,#1,640>256+64)");
}

TEST_F(KvSinkTest, NeighboursOnBothSidesAreOneRange) {
  Pull(1, {4, 5, 7, 8});
  Ready(1, {0, 1, 2, 3});
  EXPECT_EQ(Actions(), "Read(1,#1,640>256+128) Read(1,#2,768>448+128)");
}

TEST_F(KvSinkTest, NeighboursOnOneSideOnlyAreTwoRanges) {
  Pull(1, {4, 6});
  Ready(1, {0, 1});
  EXPECT_EQ(Actions(), "Read(1,#1,640>256+64,704>384+64)");
}

TEST_F(KvSinkTest, CommitsWhenAllIsVerifiedAndComplete) {
  PullOneBlock();
  clock_.AdvanceMs(3);
  Complete(1, 1);
  EXPECT_EQ(Actions(), "");
  clock_.AdvanceMs(4);
  Fill(1, {0});
  sink_.OnReadDone(1, absl::OkStatus());
  const auto actions = sink_.TakeActions();
  EXPECT_EQ(DescribeAll(actions), "Send(1,Release) Finish(1) Commit(1)");
  const auto& committed = std::get<Committed>(actions.at(2));
  EXPECT_EQ(committed.first.token, 5);
  EXPECT_EQ(committed.bytes, 64);
  EXPECT_EQ(committed.tail_ns, 4 * kNsPerMs);
  EXPECT_EQ(committed.read_ns, 7 * kNsPerMs);
  EXPECT_EQ(sink_.open_jobs(), 0);
  EXPECT_EQ(sink_.NextTimer(), kNever);
}

TEST_F(KvSinkTest, CommitsWithTheCompleteMessageWhenAllWasRead) {
  PullOneBlock();
  Fill(1, {0});
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "");
  Complete(1, 1);
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Commit(1)");
}

TEST_F(KvSinkTest, PromptThatIsInPlaceAlreadyCommitsWithoutARead) {
  Pull(1, {1, 2}, 2);
  Complete(1, 2);
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Commit(1)");
}

TEST_F(KvSinkTest, JobsTakeTurnsAndSlotsAreBounded) {
  Pull(1, {0, 2, 4, 6});
  Pull(2, {8, 10});
  Ready(1, {0, 1, 2, 3});
  EXPECT_EQ(Actions(), "Read(1,#1,640>0+64,704>128+64) Read(1,#2,768>256+64,832>384+64)");
  Ready(2, {0, 1});
  EXPECT_EQ(Actions(), "");
  Fill(1, {0, 1, 2, 3});
  sink_.OnReadDone(2, absl::OkStatus());
  EXPECT_EQ(Actions(), "Read(2,#3,640>512+64,704>640+64)");
}

TEST_F(KvSinkTest, LongPromptDoesNotHoldUpAShortOne) {
  Pull(1, {0, 2, 4, 6, 8, 10, 12, 14});
  Ready(1, {0, 1, 2, 3, 4, 5, 6, 7});
  Actions();
  Pull(2, {16});
  Ready(2, {0});
  Fill(1, {0, 1, 2, 3, 4, 5, 6, 7});
  sink_.OnReadDone(1, absl::OkStatus());
  sink_.OnReadDone(2, absl::OkStatus());
  EXPECT_EQ(Actions(), "Read(1,#3,896>512+64,960>640+64) Read(2,#4,640>1024+64)");
}

TEST_F(KvSinkTest, DamagedBlockIsReadAgainAndThenGivenUp) {
  PullOneBlock();
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Read(1,#2,640>192+64)");
  sink_.OnReadDone(2, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Fail(1,DATA_LOSS)");
}

TEST_F(KvSinkTest, DamagedBlockHeals) {
  Pull(1, {3, 4});
  Ready(1, {0, 1});
  Fill(1, {1});
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Read(1,#1,640>192+128) Read(1,#2,640>192+64)");
  Fill(1, {0});
  Complete(1, 2);
  sink_.OnReadDone(2, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Commit(1)");
}

TEST_F(KvSinkTest, FirstTokenThatEndsTheJobCommitsWithoutReading) {
  Pull(1, {1, 2, 3});
  Complete(1, 3, 1);
  const auto actions = sink_.TakeActions();
  EXPECT_EQ(DescribeAll(actions), "Send(1,Release) Finish(1) Commit(1)");
  EXPECT_EQ(std::get<Committed>(actions.at(2)).first.finish, 1);
  EXPECT_EQ(std::get<Committed>(actions.at(2)).bytes, 0);
}

TEST_F(KvSinkTest, FirstTokenThatEndsTheJobWaitsForReadsInFlight) {
  Pull(1, {0, 2, 4, 6, 8, 10});
  Ready(1, {0, 1, 2, 3, 4, 5});
  Actions();
  Complete(1, 6, 2);
  EXPECT_EQ(Actions(), "");
  sink_.OnReadDone(1, absl::OkStatus());
  sink_.Cancel(KeyOf(1), absl::AbortedError("too late"));
  EXPECT_EQ(Actions(), "");
  sink_.OnReadDone(2, absl::UnavailableError("gone"));
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Commit(1)");
}

TEST_F(KvSinkTest, CancelWithoutReadsEndsAtOnce) {
  Start(1, {1});
  Actions();
  sink_.Cancel(KeyOf(1), absl::AbortedError("the router"));
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Fail(1,ABORTED)");
  sink_.Cancel(KeyOf(1), absl::AbortedError("again"));
  sink_.Cancel(KeyOf(2), absl::AbortedError("unknown"));
  EXPECT_EQ(Actions(), "");
}

TEST_F(KvSinkTest, CancelWaitsForReadsInFlightAndStartsNone) {
  Pull(1, {0, 2, 4, 6, 8});
  Ready(1, {0, 1, 2, 3, 4});
  Actions();
  sink_.Cancel(KeyOf(1), absl::AbortedError("the router"));
  Fill(1, {0, 1, 2, 3});
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "");
  EXPECT_EQ(sink_.open_jobs(), 1);
  sink_.OnReadDone(2, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Fail(1,ABORTED)");
}

TEST_F(KvSinkTest, CancelHandsTheSlotsToOthers) {
  Pull(1, {0, 2, 4, 6});
  Pull(2, {8});
  Ready(1, {0, 1, 2, 3});
  Ready(2, {0});
  Actions();
  sink_.Cancel(KeyOf(1), absl::AbortedError("the router"));
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Read(2,#3,640>512+64)");
}

TEST_F(KvSinkTest, RenewalsGoOnWhileACancelledReadIsInFlight) {
  PullOneBlock();
  sink_.Cancel(KeyOf(1), absl::AbortedError("the router"));
  EXPECT_EQ(AfterMs(500), "Send(1,Renew1)");
}

TEST_F(KvSinkTest, ClosedStreamFailsWithItsStatusAndSendsNoMore) {
  PullOneBlock();
  sink_.OnStreamClosed(1, absl::NotFoundError("no such job"));
  EXPECT_EQ(AfterMs(600), "");
  sink_.OnReadDone(1, absl::OkStatus());
  const auto actions = sink_.TakeActions();
  EXPECT_EQ(DescribeAll(actions), "Finish(1) Fail(1,NOT_FOUND)");
  EXPECT_NE(std::get<FetchFailed>(actions.at(1)).status.message().find("no such job"), absl::string_view::npos);
}

TEST_F(KvSinkTest, StreamClosedWithoutAnErrorIsOneToo) {
  Start(1, {1});
  sink_.OnStreamClosed(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Open(1) Finish(1) Fail(1,INTERNAL)");
  sink_.OnStreamClosed(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "");
}

TEST_F(KvSinkTest, ClosedStreamDoesNotUndoACommit) {
  PullOneBlock();
  Complete(1, 1, 1);
  sink_.OnStreamClosed(1, absl::UnavailableError("cut"));
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Finish(1) Commit(1)");
}

TEST_F(KvSinkTest, DeadlineFails) {
  PullOneBlock(clock_.now + 100 * kNsPerMs);
  EXPECT_EQ(AfterMs(100), "");
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Fail(1,DEADLINE_EXCEEDED)");
}

TEST_F(KvSinkTest, FailedConnectionFails) {
  Start(1, {1});
  Accept(1);
  Actions();
  sink_.OnConnected(1, absl::UnavailableError("no route"));
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Fail(1,UNAVAILABLE)");
  sink_.OnConnected(1, kPeer);
  EXPECT_EQ(Actions(), "");
}

TEST_F(KvSinkTest, FailedReadFailsOnceTheOthersAreDone) {
  Pull(1, {0, 2, 4, 6});
  Ready(1, {0, 1, 2, 3});
  Actions();
  sink_.OnReadDone(1, absl::UnavailableError("lost"));
  EXPECT_EQ(Actions(), "");
  Fill(1, {2, 3});
  sink_.OnReadDone(2, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Fail(1,UNAVAILABLE)");
}

TEST_F(KvSinkTest, RenewsRegularlyFromTheOpenOn) {
  Start(1, {1});
  Actions();
  EXPECT_EQ(sink_.NextTimer(), clock_.now + 500 * kNsPerMs);
  EXPECT_EQ(AfterMs(499), "");
  EXPECT_EQ(AfterMs(1), "Send(1,Renew1)");
  sink_.OnReply(1, FetchRenewed{1});
  EXPECT_EQ(AfterMs(700), "Send(1,Renew2)");
  EXPECT_EQ(sink_.NextTimer(), clock_.now + 500 * kNsPerMs);
}

TEST_F(KvSinkTest, LeaseCountsFromTheSendingOfTheLastConfirmedRenewal) {
  Pull(1, {1});
  const TimeNs begin = clock_.now;
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(AfterMs(500), "Send(1,Renew" + std::to_string(i) + ")");
  // Sent after 500 and 1500 ms; the answers come late.
  sink_.OnReply(1, FetchRenewed{1});
  sink_.OnReply(1, FetchRenewed{3});
  // The second half of the answer to an older one changes nothing.
  sink_.OnReply(1, FetchRenewed{2});
  clock_.now = begin + 5'499 * kNsPerMs;
  sink_.OnTimer();
  EXPECT_EQ(Actions(), "Send(1,Renew5)");
  EXPECT_EQ(AfterMs(1), "Send(1,Release) Finish(1) Fail(1,UNAVAILABLE)");
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

TEST_F(KvSinkTest, LeaseThatEndsDuringAReadFailsWithItsEnd) {
  PullOneBlock();
  clock_.AdvanceMs(4'000);
  sink_.OnTimer();
  EXPECT_EQ(sink_.open_jobs(), 1);
  Actions();
  Fill(1, {0});
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Fail(1,UNAVAILABLE)");
}

TEST_F(KvSinkTest, SilentSourceFailsAnOpeningFetch) {
  Start(1, {1});
  Actions();
  EXPECT_EQ(AfterMs(4'000), "Send(1,Release) Finish(1) Fail(1,UNAVAILABLE)");
}

TEST_F(KvSinkTest, RepliesBeforeAcceptedBreakTheRules) {
  const FetchReply replies[] = {BlocksReady{}, FetchComplete{.block_count = 1}};
  uint64_t job = 0;
  for (const FetchReply& reply : replies) {
    Start(++job, {1});
    Actions();
    sink_.OnReply(job, reply);
    const std::string name = std::to_string(job);
    EXPECT_EQ(Actions(), "Send(" + name + ",Release) Finish(" + name + ") Fail(" + name + ",INTERNAL)");
  }
}

TEST_F(KvSinkTest, OtherBlockSizeIsRefused) {
  Start(1, {1});
  sink_.OnReply(1, FetchAccepted{"address", kBlockBytes * 2});
  EXPECT_EQ(Actions(), "Open(1) Send(1,Release) Finish(1) Fail(1,FAILED_PRECONDITION)");
}

TEST_F(KvSinkTest, ImpossibleAddressesAreRefused) {
  Start(1, {1});
  Actions();
  sink_.OnReply(1, FetchAccepted{"", kBlockBytes});
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Fail(1,INTERNAL)");
  Start(2, {1});
  Actions();
  sink_.OnReply(2, FetchAccepted{std::string(kMaxAddressBytes + 1, 'x'), kBlockBytes});
  EXPECT_EQ(Actions(), "Send(2,Release) Finish(2) Fail(2,INTERNAL)");
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
  EXPECT_EQ(Actions(), "Send(2,Release) Finish(2) Fail(2,INTERNAL)");
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
    ExpectBroken(FetchComplete{.block_count = count, .first = {.finish = 1}});
  }
}

TEST_F(KvSinkTest, CompleteBeforeAllBlocksAreAnnouncedBreaksTheRules) { ExpectBroken(FetchComplete{.block_count = 3}); }

TEST_F(KvSinkTest, SecondCompleteBreaksTheRules) {
  PullOneBlock();
  Complete(1, 1);
  Complete(1, 1);
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Finish(1) Fail(1,INTERNAL)");
}

TEST_F(KvSinkTest, DamagedFirstTokensBreakTheRules) {
  ExpectBroken(FetchComplete{.block_count = 3, .first = {.finish = kMaxFirstFinish + 1}});
  ExpectBroken(FetchComplete{.block_count = 3, .first = {.finish = 1, .top_tokens = {1}}});
  FetchComplete complete{.block_count = 3, .first = {.finish = 1}};
  complete.first.top_tokens.resize(kMaxLogprobs + 1);
  complete.first.top_logprobs.resize(kMaxLogprobs + 1);
  ExpectBroken(complete);
}

TEST_F(KvSinkTest, MessagesOfUnknownStreamsAreIgnored) {
  sink_.OnReply(9, FetchRenewed{1});
  sink_.OnStreamClosed(9, absl::OkStatus());
  sink_.OnConnected(9, kPeer);
  EXPECT_EQ(Actions(), "");
}

TEST_F(KvSinkTest, UnansweredRenewalsAreBoundedAndTheLastOnesCount) {
  KvSinkOptions options = Options();
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
