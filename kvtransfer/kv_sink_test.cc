#include "kvtransfer/kv_sink.h"

#include <cstring>

#include "common/limits.h"
#include "common/testing/fenced_kv_pool.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/describe_handoff.h"
#include "kvtransfer/testing/sink_fixture.h"

namespace baton::kvtransfer {
namespace {

TEST_F(KvSinkTest, StartOpensTheStream) {
  Start(1, {4, 5}, 1);
  const auto actions = sink_.TakeActions();
  ASSERT_EQ(actions.size(), 1u);
  const auto& open = std::get<OpenStream>(actions[0]);
  EXPECT_EQ(open.target, "prefill:1");
  EXPECT_EQ(open.open.key, KeyOf(1));
  EXPECT_EQ(open.open.secret, SecretOf(KeyOf(1)));
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
  EXPECT_EQ(DescribeAll(actions), "Send(1,Release) Commit(1) Finish(1)");
  const auto& committed = std::get<Committed>(actions.at(1));
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
  EXPECT_EQ(Actions(), "Send(1,Release) Commit(1) Finish(1)");
}

TEST_F(KvSinkTest, BlocksInADevicesMemoryAreVerifiedThere) {
  FencedKvPool device(8, kBlockBytes);
  KvSink sink(SinkOptions(), clock_, device);
  FetchSpec spec;
  spec.key = KeyOf(1);
  spec.blocks = {5, 2};
  sink.Start(spec);
  sink.OnReply(1, FetchAccepted{"address", kBlockBytes});
  sink.OnConnected(1, kPeer);
  sink.OnReply(1, BlocksReady{{ReadyOf(1, 0, 0), ReadyOf(1, 1, kBlockBytes)}});
  sink.OnReply(1, FetchComplete{.block_count = 2, .first = {.token = 5}});
  EXPECT_EQ(DescribeAll(sink.TakeActions()), "Open(1) Connect(1,address) Read(1,#1,0>320+64,64>128+64)");
  device.OnDevice([](absl::Span<uint8_t> bytes) {
    std::memset(bytes.data() + 5 * kBlockBytes, ByteOf(1, 0), kBlockBytes);
    std::memset(bytes.data() + 2 * kBlockBytes, ByteOf(1, 1), kBlockBytes);
  });
  sink.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(DescribeAll(sink.TakeActions()), "Send(1,Release) Commit(1) Finish(1)");
  EXPECT_EQ(device.digested(), 2);
}

TEST_F(KvSinkTest, PromptThatIsInPlaceAlreadyCommitsWithoutARead) {
  Pull(1, {1, 2}, 2);
  Complete(1, 2);
  EXPECT_EQ(Actions(), "Send(1,Release) Commit(1) Finish(1)");
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
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,DATA_LOSS) Finish(1)");
}

TEST_F(KvSinkTest, AFailedFetchSaysWhatItFailedOf) {
  const auto failed = [this] {
    const std::vector<SinkAction> actions = sink_.TakeActions();
    return std::get<FetchFailed>(actions.at(actions.size() - 2));
  };
  const auto pull = [this](uint64_t job) {
    Pull(job, {3});
    Ready(job, {0});
    Actions();
  };
  pull(1);
  sink_.OnReadDone(1, absl::OkStatus());
  Actions();
  sink_.OnReadDone(2, absl::OkStatus());
  const FetchFailed damaged = failed();
  EXPECT_EQ(damaged.fault, FetchFault::kDigest);
  EXPECT_EQ(damaged.damaged_blocks, 2);
  EXPECT_EQ(damaged.source_target, "prefill:1");
  EXPECT_EQ(damaged.peer, kPeer);
  pull(2);
  sink_.OnReadDone(3, absl::UnavailableError("lost"));
  EXPECT_EQ(failed().fault, FetchFault::kRead);
  Start(3, {3});
  sink_.OnStreamClosed(3, absl::NotFoundError("no such job"));
  const FetchFailed closed = failed();
  EXPECT_EQ(closed.fault, FetchFault::kSource);
  EXPECT_EQ(closed.peer, std::nullopt);
  Start(4, {3});
  AfterMs(0);
  clock_.AdvanceMs(SinkOptions().lease_ms);
  sink_.OnTimer();
  EXPECT_EQ(failed().fault, FetchFault::kLease);
  Start(5, {3});
  sink_.Cancel(KeyOf(5), absl::CancelledError("gone"));
  EXPECT_EQ(failed().fault, FetchFault::kOther);
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
  EXPECT_EQ(Actions(), "Send(1,Release) Commit(1) Finish(1)");
}

TEST_F(KvSinkTest, FirstTokenThatEndsTheJobCommitsWithoutReading) {
  Pull(1, {1, 2, 3});
  Complete(1, 3, FinishReason::kStop);
  const auto actions = sink_.TakeActions();
  EXPECT_EQ(DescribeAll(actions), "Send(1,Release) Commit(1) Finish(1)");
  EXPECT_EQ(std::get<Committed>(actions.at(1)).first.finish, FinishReason::kStop);
  EXPECT_EQ(std::get<Committed>(actions.at(1)).bytes, 0);
}

TEST_F(KvSinkTest, FirstTokenThatEndsTheJobWaitsForReadsInFlight) {
  Pull(1, {0, 2, 4, 6, 8, 10});
  Ready(1, {0, 1, 2, 3, 4, 5});
  Actions();
  Complete(1, 6, FinishReason::kLength);
  EXPECT_EQ(Actions(), "");
  sink_.OnReadDone(1, absl::OkStatus());
  sink_.Cancel(KeyOf(1), absl::AbortedError("too late"));
  EXPECT_EQ(Actions(), "");
  sink_.OnReadDone(2, absl::UnavailableError("gone"));
  EXPECT_EQ(Actions(), "Send(1,Release) Commit(1) Finish(1)");
}

TEST_F(KvSinkTest, CancelWithoutReadsEndsAtOnce) {
  Start(1, {1});
  Actions();
  sink_.Cancel(KeyOf(1), absl::AbortedError("the router"));
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,ABORTED) Finish(1)");
  sink_.Cancel(KeyOf(1), absl::AbortedError("again"));
  sink_.Cancel(KeyOf(2), absl::AbortedError("unknown"));
  EXPECT_EQ(Actions(), "");
}

TEST_F(KvSinkTest, CancelWithoutAnErrorIsNoSuccess) {
  Start(1, {1});
  Actions();
  sink_.Cancel(KeyOf(1), absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,CANCELLED) Finish(1)");
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
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,ABORTED) Finish(1)");
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
  EXPECT_EQ(DescribeAll(actions), "Fail(1,NOT_FOUND) Finish(1)");
  EXPECT_NE(std::get<FetchFailed>(actions.at(0)).status.message().find("no such job"), absl::string_view::npos);
}

TEST_F(KvSinkTest, StreamClosedWithoutAnErrorIsOneToo) {
  Start(1, {1});
  sink_.OnStreamClosed(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Open(1) Fail(1,INTERNAL) Finish(1)");
  sink_.OnStreamClosed(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "");
}

TEST_F(KvSinkTest, ClosedStreamDoesNotUndoACommit) {
  PullOneBlock();
  Complete(1, 1, FinishReason::kStop);
  sink_.OnStreamClosed(1, absl::UnavailableError("cut"));
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Commit(1) Finish(1)");
}

TEST_F(KvSinkTest, DeadlineFails) {
  PullOneBlock(clock_.Now() + 100 * kNsPerMs);
  EXPECT_EQ(AfterMs(100), "");
  sink_.OnReadDone(1, absl::OkStatus());
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,DEADLINE_EXCEEDED) Finish(1)");
}

TEST_F(KvSinkTest, FailedConnectionFails) {
  Start(1, {1});
  Accept(1);
  Actions();
  sink_.OnConnected(1, absl::UnavailableError("no route"));
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,UNAVAILABLE) Finish(1)");
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
  EXPECT_EQ(Actions(), "Send(1,Release) Fail(1,UNAVAILABLE) Finish(1)");
}

}  // namespace
}  // namespace baton::kvtransfer
