#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/cluster_members.h"
#include "router/testing/cluster_members_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ClusterMembersTest, AMalformedMessageEndsItsMembershipAloneAndSaysWhatWasWrong) {
  const std::vector<std::pair<std::string, std::function<void(pb::WorkerMessage&, uint64_t)>>> cases = {
      {"call 99, which is not open", [](pb::WorkerMessage& m, uint64_t) { m.add_kv_committed()->set_call(99); }},
      {"call 0, which is not open", [](pb::WorkerMessage& m, uint64_t) { m.add_tokens(); }},
      {"another membership", [](pb::WorkerMessage& m, uint64_t) { m.set_membership(std::string(16, 'x')); }},
      {"another membership", [](pb::WorkerMessage& m, uint64_t) { m.clear_membership(); }},
      {"a second hello", [](pb::WorkerMessage& m, uint64_t) { m.mutable_hello(); }},
      {"a count of -1", [](pb::WorkerMessage& m, uint64_t) { m.mutable_load()->set_free_blocks(-1); }},
      {"a count of 9223372036854775807",
       [](pb::WorkerMessage& m, uint64_t) {
         m.mutable_load()->set_pending_prompt_tokens(std::numeric_limits<int64_t>::max());
       }},
      {"the unknown finish 7",
       [](pb::WorkerMessage& m, uint64_t call) {
         m.add_tokens()->set_call(call);
         m.mutable_tokens(0)->set_finish(static_cast<pb::Finish>(7));
       }},
      {"the number -1",
       [](pb::WorkerMessage& m, uint64_t call) {
         m.add_kv_committed()->set_call(call);
         m.mutable_kv_committed(0)->set_transfer_bytes(-1);
       }},
      {"the number -9",
       [](pb::WorkerMessage& m, uint64_t call) {
         m.add_finished()->set_call(call);
         m.mutable_finished(0)->set_compute_ns(-9);
       }},
      {"the code 99",
       [](pb::WorkerMessage& m, uint64_t call) {
         m.add_ended()->set_call(call);
         m.mutable_ended(0)->set_code(99);
       }},
      {"call 1, which is not open",
       [](pb::WorkerMessage& m, uint64_t call) {
         rpc::AddEnd(call, absl::OkStatus(), &m);
         rpc::AddEnd(call, absl::OkStatus(), &m);
       }},
  };
  pb::Hello bystander = MakeHello(1, pb::WORKER_ROLE_DECODE);
  bystander.set_fingerprint("g");
  const FakeWorker other = Join(bystander);
  for (uint64_t n = 0; n < cases.size(); ++n) {
    const FakeWorker worker = Join(2 + n, pb::WORKER_ROLE_MIXED);
    Submit(n);
    ASSERT_EQ(worker.stream->said.starts_size(), 1) << n;
    pb::WorkerMessage message = worker.Message();
    cases[n].second(message, worker.last_call());
    Say(worker, message);
    ASSERT_TRUE(worker.stream->ended()) << n;
    EXPECT_TRUE(absl::IsInvalidArgument(*worker.stream->end)) << n;
    EXPECT_THAT(std::string(worker.stream->end->message()), HasSubstr(cases[n].first));
    EXPECT_EQ(worker_count(), 1u);
    EXPECT_EQ(dispatcher_.open_calls(), 0) << n;
    EXPECT_FALSE(other.stream->ended());
    Close(worker);
  }
}

TEST_F(ClusterMembersTest, TheEndOfAStreamEndsTheCallsOfItsWorker) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  Close(worker);
  EXPECT_EQ(worker_count(), 0u);
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(results_[0]));
  EXPECT_EQ(dispatcher_.open_calls(), 0);
}

TEST_F(ClusterMembersTest, AProcessThatResumesItsMembershipReplacesItAndTheOldStreamsEndTouchesNothing) {
  const FakeWorker before = Join(1, pb::WORKER_ROLE_MIXED);
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_resumes(before.stream->said.accepted().membership());
  const FakeWorker after = Join(hello);
  ASSERT_TRUE(after.stream->said.has_accepted());
  EXPECT_NE(after.stream->said.accepted().membership(), hello.resumes());
  EXPECT_TRUE(before.stream->ended()) << "the old membership is told";
  Close(before);
  ASSERT_EQ(worker_count(), 1u);
  Submit(1);
  EXPECT_EQ(after.stream->said.starts_size(), 1);
}

TEST_F(ClusterMembersTest, AGivenUpWorkerIsToldAndMayJoinAnew) {
  LoggedLines log;
  const FakeWorker silent = Join(1, pb::WORKER_ROLE_MIXED);
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(500 * kNsPerMs);
    dispatcher_.OnTimer();
  }
  Apply();
  ASSERT_TRUE(silent.stream->ended());
  EXPECT_FALSE(silent.stream->end->ok());
  EXPECT_EQ(worker_count(), 0u);
  EXPECT_THAT(log.Take(), HasSubstr("is given up after 10.0 s as a member, with 0 open calls: not heard for 1500 ms\n"
                                    "warning: no request can be served until"));
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_resumes(silent.stream->said.accepted().membership());
  EXPECT_TRUE(Join(hello).stream->said.has_accepted());
}

TEST_F(ClusterMembersTest, AWorkerThatDrainsIsToldWhenAllThatWasPlacedBeforeHasBeenSent) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  // Placed, but not sent yet: the loop carries out the actions after all tasks of a round.
  Place(1, {.max_tokens = 4});
  const pb::WorkerMessage draining = worker.Draining();
  members_.OnMessage(dispatcher_, worker.stream, draining);
  EXPECT_FALSE(worker.stream->said.drain_accepted());
  Apply();
  EXPECT_EQ(worker.stream->said.starts_size(), 1);
  Say(worker, draining);
  EXPECT_TRUE(worker.stream->said.drain_accepted());
  Submit(2);
  EXPECT_EQ(worker.stream->said.starts_size(), 1);
}

TEST_F(ClusterMembersTest, AStartForAWorkerThatWasLostSinceIsPassedOver) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Place(1, {.max_tokens = 4});
  members_.OnClosed(dispatcher_, *worker.stream);
  Apply();
  EXPECT_EQ(worker.stream->said.starts_size(), 0);
  EXPECT_EQ(dispatcher_.open_calls(), 0);
}

TEST_F(ClusterMembersTest, TheRouterServesWhileSomeGroupOfWorkersCan) {
  const FakeWorker prefill = Join(1, pb::WORKER_ROLE_PREFILL);
  pb::Hello other = MakeHello(2, pb::WORKER_ROLE_DECODE);
  other.set_fingerprint("g");
  Join(other);
  EXPECT_THAT(serving_, ElementsAre()) << "their KV types differ";
  const FakeWorker decode = Join(3, pb::WORKER_ROLE_DECODE);
  EXPECT_THAT(serving_, ElementsAre(true));
  Say(prefill, prefill.Draining());
  EXPECT_THAT(serving_, ElementsAre(true, false));
  const FakeWorker mixed = Join(4, pb::WORKER_ROLE_MIXED);
  Close(decode);
  EXPECT_THAT(serving_, ElementsAre(true, false, true));
  Close(mixed);
  EXPECT_THAT(serving_, ElementsAre(true, false, true, false));
}

TEST_F(ClusterMembersTest, AFaultLosesItsWorkerAndTheLogNamesTheSignalAndTheRequestsOfTheStep) {
  LoggedLines lines;
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  lines.Take();
  pb::WorkerMessage message = worker.Message();
  message.mutable_fault()->set_signal(11);
  rpc::ToProto({.job = {.high = 2, .low = 1}, .attempt = 1}, message.mutable_fault()->add_at_work());
  Say(worker, message);
  EXPECT_TRUE(worker.stream->ended());
  EXPECT_EQ(worker_count(), 0u);
  // By its fault, and not by a loss of unknown cause, which would end it here.
  EXPECT_TRUE(results_.empty());
  EXPECT_EQ(dispatcher_.memberships()
                .losses[static_cast<size_t>(WorkerRole::kMixed)][static_cast<size_t>(LossReason::kFault)],
            1);
  const std::string log = lines.Take();
  EXPECT_THAT(log, HasSubstr("dies of SIGSEGV, in a step of 00000000000000020000000000000001"));
  EXPECT_THAT(log, HasSubstr("error: mixed worker host:1"));
}

TEST_F(ClusterMembersTest, ALeakIsLoggedOnceAndTheLogSaysWhatToDo) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  pb::WorkerMessage message = worker.Message();
  message.mutable_blocks()->set_free_blocks(90);
  for (const uint64_t job : {1, 7}) {
    pb::BlockHolder* holder = message.mutable_blocks()->add_holders();
    rpc::ToProto(JobKey{.job = {.high = 2, .low = job}, .attempt = 1}, holder->mutable_key());
    holder->set_hold(pb::BLOCK_HOLD_DECODING);
    holder->set_blocks(5);
    holder->set_own_blocks(5);
  }
  LoggedLines lines;
  for (int report = 1; report < kOrphanReports; ++report) Say(worker, message);
  EXPECT_EQ(lines.Take(), "");
  Say(worker, message);
  const std::string log = lines.Take();
  EXPECT_THAT(log, HasSubstr("error: mixed worker host:1 (pid 0) holds KV blocks that nobody will give back: 5 of 1 "
                             "attempt without a call, such as 00000000000000020000000000000007"));
  EXPECT_THAT(log, HasSubstr("`baton ledger`"));
  Say(worker, message);
  EXPECT_EQ(lines.Take(), "") << "it is known";
  message.mutable_blocks()->set_free_blocks(88);
  Say(worker, message);
  EXPECT_THAT(lines.Take(), HasSubstr("2 that are neither free nor cached nor held"));
  EXPECT_EQ(worker_count(), 1u) << "it serves on";
}

TEST_F(ClusterMembersTest, BlocksOfACallThatTheSameMessageEndsAreOfAnEndedCall) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  pb::WorkerMessage message = worker.Message();
  message.mutable_blocks()->set_free_blocks(100);
  rpc::ToProto(JobKey{.job = {.high = 2, .low = 1}, .attempt = 1},
               message.mutable_blocks()->add_holders()->mutable_key());
  message.mutable_blocks()->mutable_holders(0)->set_hold(pb::BLOCK_HOLD_ENDED);
  Say(worker, message);
  const WorkerBlocks* blocks = dispatcher_.block_ledger().Find(dispatcher_.registry().workers().begin()->first);
  ASSERT_NE(blocks, nullptr);
  EXPECT_EQ(blocks->entries.at(0).verdict, HolderVerdict::kCalled);
  rpc::AddEnd(worker.last_call(), absl::InvalidArgumentError("no"), &message);
  Say(worker, message);
  blocks = dispatcher_.block_ledger().Find(dispatcher_.registry().workers().begin()->first);
  EXPECT_EQ(blocks->entries.at(0).verdict, HolderVerdict::kEnding);
}

TEST_F(ClusterMembersTest, AReportOfBlocksThatCannotBeRightIsMalformed) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  pb::WorkerMessage message = worker.Message();
  message.mutable_blocks()->set_free_blocks(-1);
  Say(worker, message);
  ASSERT_TRUE(worker.stream->ended());
  EXPECT_TRUE(absl::IsInvalidArgument(*worker.stream->end));
}

TEST_F(ClusterMembersTest, AFaultInAStepOfNoAttemptsNameIsMalformed) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  pb::WorkerMessage message = worker.Message();
  message.mutable_fault()->add_at_work()->set_job("not hex");
  Say(worker, message);
  ASSERT_TRUE(worker.stream->ended());
  EXPECT_TRUE(absl::IsInvalidArgument(*worker.stream->end));
  EXPECT_EQ(worker_count(), 0u);
}

}  // namespace
}  // namespace baton::router
