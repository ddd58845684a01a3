#include "router/cluster_members.h"

#include <string>
#include <utility>
#include <vector>

#include "common/drain.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/testing/cluster_members_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ClusterMembersTest, AHelloIsAnsweredWithAMembershipTheVersionAndFeaturesThatBothKnow) {
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_features(~uint64_t{0});
  const FakeWorker worker = Join(hello);
  const pb::Accepted& accepted = worker.stream->said.accepted();
  EXPECT_EQ(accepted.protocol_version(), rpc::kProtocolVersion);
  EXPECT_EQ(accepted.features(), rpc::kProtocolFeatures);
  EXPECT_GT(accepted.heartbeat_interval_ms(), 0);
  ASSERT_EQ(worker_count(), 1u);
  const WorkerInfo& info = dispatcher_.registry().workers().begin()->second.info;
  EXPECT_EQ(rpc::FromBytes(accepted.membership()).value(), info.id);
  EXPECT_EQ(info.incarnation, (Incarnation{.high = 3, .low = 1}));
  EXPECT_EQ(info.role, WorkerRole::kMixed);
  EXPECT_EQ(info.total_blocks, 100);
}

TEST_F(ClusterMembersTest, AnotherVersionIsRefusedAndToldWhatToDo) {
  for (const uint32_t version : {uint32_t{0}, rpc::kProtocolVersion - 1, rpc::kProtocolVersion + 1}) {
    pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
    hello.set_protocol_version(version);
    const FakeWorker worker = Join(hello);
    EXPECT_FALSE(worker.stream->said.has_accepted());
    ASSERT_TRUE(worker.stream->ended());
    EXPECT_TRUE(absl::IsFailedPrecondition(*worker.stream->end));
    EXPECT_THAT(std::string(worker.stream->end->message()),
                HasSubstr("start router and workers from the same release"));
  }
  EXPECT_EQ(worker_count(), 0u);
}

TEST_F(ClusterMembersTest, AnotherModelIsRefusedWithBothNames) {
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_model("other\n");
  const FakeWorker worker = Join(hello);
  ASSERT_TRUE(worker.stream->ended());
  EXPECT_TRUE(absl::IsFailedPrecondition(*worker.stream->end));
  EXPECT_THAT(std::string(worker.stream->end->message()), HasSubstr("serves tiny, the worker has other\\n"));
}

TEST_F(ClusterMembersTest, UnderTheSameNameAnotherVocabularyIsRefusedAndAnotherFingerprintIsAGroupOfItsOwn) {
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_vocab_size(301);
  const FakeWorker refused = Join(hello);
  ASSERT_TRUE(refused.stream->ended());
  EXPECT_TRUE(absl::IsFailedPrecondition(*refused.stream->end));
  EXPECT_THAT(std::string(refused.stream->end->message()), HasSubstr("tiny has 300 token ids, the worker's 301"));
  hello.set_vocab_size(300);
  Join(hello);
  hello = MakeHello(2, pb::WORKER_ROLE_MIXED);
  hello.set_fingerprint("g");
  Join(hello);
  EXPECT_EQ(worker_count(), 2u);
  EXPECT_EQ(dispatcher_.registry().GroupName("f"), "A");
  EXPECT_EQ(dispatcher_.registry().GroupName("g"), "B");
}

TEST_F(ClusterMembersTest, ARefusedWorkerIsLoggedOnceForEachReasonAndIsListedUntilItJoins) {
  LoggedLines log;
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_DECODE);
  hello.set_pid(44);
  hello.set_model("other");
  Join(hello);
  EXPECT_EQ(log.Take(),
            "warning: refused decode worker host:1 (pid 44): this router serves tiny, the worker has other: give the "
            "worker the router's --model, or --served-model-name tiny if it has the same model under another file "
            "name\n");
  clock_.Advance(kNsPerSecond);
  Join(hello);
  EXPECT_EQ(log.Take(), "");
  const std::vector<RefusedWorker> refused = dispatcher_.registry().refused().Present(clock_.Now());
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].role, "decode");
  EXPECT_EQ(refused[0].model, "other");
  EXPECT_EQ(refused[0].asked_at, clock_.Now());
  hello.set_model("tiny");
  Join(hello);
  EXPECT_TRUE(dispatcher_.registry().refused().Present(clock_.Now()).empty());
}

TEST_F(ClusterMembersTest, ABiasGoesToAWorkerThatStatesThatItKnowsIt) {
  const pb::Sampling sampling =
      SaidToWhoKnows(rpc::kFeatureLogitBias, {.logit_bias = {{.token = 4, .bias = -100}, {.token = 9, .bias = 2.5f}}});
  ASSERT_EQ(sampling.logit_bias_size(), 2);
  EXPECT_EQ(sampling.logit_bias(1).id(), 9);
  EXPECT_EQ(sampling.logit_bias(1).bias(), 2.5f);
}

TEST_F(ClusterMembersTest, PromptLogProbabilitiesAreAskedOfAWorkerThatStatesThatItKnowsThem) {
  EXPECT_EQ(SaidToWhoKnows(rpc::kFeaturePromptLogprobs, {.prompt_logprobs = 3}).prompt_logprobs(), 3);
}

TEST_F(ClusterMembersTest, AnEmbeddingIsAskedOfAWorkerThatStatesThatItKnowsIt) {
  const pb::Sampling sampling = SaidToWhoKnows(rpc::kFeatureEmbeddings, {.max_tokens = 1, .pooling = Pooling::kMean});
  EXPECT_EQ(sampling.pooling(), pb::POOLING_MEAN);
}

TEST_F(ClusterMembersTest, AGrammarGoesToAWorkerThatStatesThatItKnowsIt) {
  const pb::Sampling sampling =
      SaidToWhoKnows(rpc::kFeatureGrammar, {.grammar = {.kind = GrammarKind::kRegex, .text = "a+"}});
  EXPECT_EQ(sampling.grammar().text(), "a+");
}

TEST_F(ClusterMembersTest, ARunningCallIsHandedOverByItsNumberAndGoesOnAtTheNextWorker) {
  const auto join = [this](uint64_t n, uint64_t features) {
    pb::Hello hello = MakeHello(n, pb::WORKER_ROLE_MIXED);
    hello.set_features(features);
    return Join(hello);
  };
  const FakeWorker draining = join(1, rpc::kProtocolFeatures);
  Submit(1);
  const FakeWorker former = join(2, 0);
  const FakeWorker other = join(3, rpc::kFeatureResume);
  const uint64_t call = draining.last_call();
  pb::WorkerMessage message = draining.Message();
  rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kStarted, .token = {}}, &message);
  AddToken(message, call, {.index = 0, .token = 70});
  message.mutable_load()->set_draining(true);
  Say(draining, message);
  Say(draining, draining.Message());
  // The load came before the token.
  Say(draining, draining.Draining());
  ASSERT_EQ(draining.stream->said.hand_overs_size(), 1);
  const pb::HandOver& hand_over = draining.stream->said.hand_overs(0);
  EXPECT_EQ(hand_over.call(), call);
  EXPECT_EQ(hand_over.next_attempt(), 2u);

  pb::WorkerMessage frozen = draining.Message();
  // In one message: the token goes first.
  rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kFrozen, .token = {.index = 1, .token = 71}}, &frozen);
  AddToken(frozen, call, {.index = 1, .token = 71});
  Say(draining, frozen);
  EXPECT_EQ(former.stream->said.starts_size(), 0);
  ASSERT_EQ(other.stream->said.starts_size(), 1);
  const pb::CallStart& start = other.stream->said.starts(0);
  EXPECT_EQ(start.job().key().attempt(), 2u);
  EXPECT_EQ(start.job().secret(), hand_over.secret());
  EXPECT_EQ(start.job().emitted(), 1);
  EXPECT_EQ(start.decode().prefill_target(), "host:1");
  EXPECT_EQ(start.decode().prefill_incarnation(), rpc::ToBytes({.high = 3, .low = 1}));
  EXPECT_THAT(emitted_, ElementsAre(70, 71));
}

TEST_F(ClusterMembersTest, AnOrderToDrainGoesToTheWorkersThatStateThatTheyTakeIt) {
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_features(rpc::kProtocolFeatures);
  hello.set_drain_timeout_ms(7'000);
  const FakeWorker ordered = Join(hello);
  const FakeWorker former = Join(2, pb::WORKER_ROLE_MIXED);
  LoggedLines log;
  const WorkerId id = dispatcher_.OrderDrain("host:1").value();
  EXPECT_EQ(dispatcher_.registry().Find(id)->info.drain_timeout_ms, 7'000);
  EXPECT_TRUE(absl::IsFailedPrecondition(dispatcher_.OrderDrain("host:2").status()));
  Apply();
  EXPECT_TRUE(ordered.stream->said.drain());
  EXPECT_FALSE(former.stream->said.drain());
  EXPECT_EQ(log.Take(), "info: mixed worker host:1 (pid 0) is told to drain, as an operator has ordered\n");
  // The rest is as without an order.
  EXPECT_FALSE(ordered.stream->said.drain_accepted());
  Say(ordered, ordered.Draining());
  Say(ordered, ordered.Message());
  EXPECT_TRUE(ordered.stream->said.drain_accepted());
  Close(ordered);
  EXPECT_EQ(dispatcher_.drain_orders().Find({.high = 3, .low = 1})->state, DrainState::kLeft);
}

TEST_F(ClusterMembersTest, AnUntrueTimeToDrainIsBounded) {
  int64_t n = 0;
  for (const auto& [stated, taken] :
       {std::pair{-1, 0}, {kMaxDrainTimeoutMs, kMaxDrainTimeoutMs}, {kMaxDrainTimeoutMs + 1, kMaxDrainTimeoutMs}}) {
    pb::Hello hello = MakeHello(static_cast<uint64_t>(++n), pb::WORKER_ROLE_MIXED);
    hello.set_drain_timeout_ms(stated);
    Join(hello);
    EXPECT_EQ(dispatcher_.registry().FindProcess({.high = 3, .low = static_cast<uint64_t>(n)})->info.drain_timeout_ms,
              taken);
  }
}

TEST_F(ClusterMembersTest, JoinDrainLeaveAndLossAreOneLineEachWithAgeAndOpenCalls) {
  LoggedLines log;
  const FakeWorker prefill = Join(1, pb::WORKER_ROLE_PREFILL);
  EXPECT_EQ(log.Take(),
            "info: prefill worker host:1 (pid 0) joined: 100 blocks, group A (f), without a partner yet: no decode "
            "worker with this fingerprint\n");
  const FakeWorker decode = Join(2, pb::WORKER_ROLE_DECODE);
  EXPECT_EQ(log.Take(),
            "info: decode worker host:2 (pid 0) joined: 100 blocks, group A (f)\ninfo: requests can be served\n");
  Submit(1);
  clock_.Advance(2'340 * kNsPerMs);
  Say(prefill, prefill.Draining());
  EXPECT_EQ(log.Take(),
            "info: prefill worker host:1 (pid 0) is draining, with 1 open call\n"
            "warning: no request can be served until there is a prefill worker of group A\n");
  Close(decode);
  EXPECT_EQ(log.Take(),
            "warning: decode worker host:2 (pid 0) is lost after 2.3 s as a member, with 1 open call: its stream "
            "broke\n");
  pb::WorkerMessage ended = prefill.Message();
  rpc::AddEnd(prefill.last_call(), absl::CancelledError("cancelled"), &ended);
  Say(prefill, ended);
  Close(prefill);
  EXPECT_EQ(log.Take(), "info: prefill worker host:1 (pid 0) left after 2.3 s as a member, with 0 open calls\n");
}

TEST_F(ClusterMembersTest, WhoIsRefusedSaysNothingMore) {
  const FakeWorker member = Join(1, pb::WORKER_ROLE_MIXED);
  // The same process again, without the membership that it had.
  const FakeWorker refused = Join(1, pb::WORKER_ROLE_MIXED);
  ASSERT_TRUE(refused.stream->ended());
  EXPECT_TRUE(absl::IsAlreadyExists(*refused.stream->end));
  Say(refused, member.Draining());
  Close(refused);
  ASSERT_EQ(worker_count(), 1u);
  EXPECT_EQ(dispatcher_.registry().workers().begin()->second.load.state, WorkerState::kServing);
  EXPECT_FALSE(member.stream->ended());
}

TEST_F(ClusterMembersTest, AFirstMessageOtherThanAHelloAndADamagedHelloAreRefused) {
  const FakeWorker silent;
  Say(silent, pb::WorkerMessage());
  EXPECT_TRUE(absl::IsInvalidArgument(silent.stream->end.value()));
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_UNSPECIFIED);
  EXPECT_TRUE(absl::IsInvalidArgument(Join(hello).stream->end.value()));
  hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_incarnation("short");
  EXPECT_TRUE(absl::IsInvalidArgument(Join(hello).stream->end.value()));
  hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_resumes("short");
  EXPECT_TRUE(absl::IsInvalidArgument(Join(hello).stream->end.value()));
  EXPECT_EQ(worker_count(), 0u);
}

}  // namespace
}  // namespace baton::router
