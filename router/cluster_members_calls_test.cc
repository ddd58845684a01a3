#include <memory>
#include <string>

#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "common/testing/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/cluster_members.h"
#include "router/testing/cluster_members_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ClusterMembersTest, BothWorkersOfAPairGetTheJobItsSecretAndItsTrace) {
  const FakeWorker prefill = Join(1, pb::WORKER_ROLE_PREFILL);
  const FakeWorker decode = Join(2, pb::WORKER_ROLE_DECODE);
  Submit(1);
  ASSERT_EQ(prefill.stream->said.starts_size(), 1);
  ASSERT_EQ(decode.stream->said.starts_size(), 1);
  const pb::CallStart& p = prefill.stream->said.starts(0);
  const pb::CallStart& d = decode.stream->said.starts(0);
  ASSERT_TRUE(p.has_prefill());
  ASSERT_TRUE(d.has_decode());
  EXPECT_EQ(p.job().prompt_size(), 40);
  EXPECT_EQ(p.job().traceparent(), "trace");
  EXPECT_EQ(p.job().SerializeAsString(), d.job().SerializeAsString());
  EXPECT_FALSE(rpc::FromBytes(p.job().secret()).value().is_zero());
  EXPECT_EQ(d.decode().prefill_target(), "host:1");
  EXPECT_EQ(rpc::FromBytes(d.decode().prefill_incarnation()).value(), (Incarnation{.high = 3, .low = 1}));
  EXPECT_EQ(d.decode().earlier_size(), 0);
  const KvOrigin origin{.incarnation = {.high = 4, .low = 4}, .target = "host:4"};
  const auto job = std::make_shared<JobSpec>();
  members_.Start(StartDecode{.worker = rpc::FromBytes(decode.Message().membership()).value(),
                             .incarnation = {.high = 3, .low = 2},
                             .target = "host:2",
                             .key = {.job = {.high = 2, .low = 1}, .attempt = 2},
                             .secret = {},
                             .job = job,
                             .prefill_incarnation = {.high = 3, .low = 1},
                             .prefill_target = "host:1",
                             .earlier = {origin}});
  ASSERT_EQ(decode.stream->said.starts_size(), 2);
  ASSERT_EQ(decode.stream->said.starts(1).decode().earlier_size(), 1);
  EXPECT_EQ(rpc::FromProto(decode.stream->said.starts(1).decode().earlier(0)).value(), origin);
}

// A router's certificate, and what is made of it.
struct RouterKeys {
  const rpc::TestAuthority authority;
  const rpc::TestTlsFiles files;
  // It is read again when the test says so.
  const std::unique_ptr<rpc::Credentials> credentials = [this] {
    files.Write(authority.Issue({.names = {rpc::RoleName("router")}}), authority);
    return *rpc::Credentials::Create(files.names(), {}, /*watch_interval_ms=*/3'600'000);
  }();
  const std::unique_ptr<rpc::CapabilitySigner> signer = *rpc::CapabilitySigner::Create(*credentials);
  rpc::CapabilityVerifier verifier{*credentials};
};

// With TLS.
class CapabilityMembersTest : protected RouterKeys, public ClusterMembersTest {
 protected:
  CapabilityMembersTest() : ClusterMembersTest(signer.get()) {}

  FakeWorker JoinWith(uint64_t n, pb::WorkerRole role, uint64_t features = rpc::kProtocolFeatures) {
    pb::Hello hello = MakeHello(n, role);
    hello.set_features(features);
    return Join(hello);
  }
  // What the reader of this start has to show.
  CapabilityTerms Verified(const FakeWorker& reader, const pb::CallStart& start) {
    pb::Capability capability;
    *capability.mutable_terms() = start.decode().capability();
    *capability.mutable_key() = reader.stream->said.capability_key();
    const auto terms = verifier.Verify(capability.SerializeAsString());
    EXPECT_TRUE(terms.ok()) << terms.status();
    return terms.value_or(CapabilityTerms{});
  }
};

TEST_F(CapabilityMembersTest, TheReaderGetsACapabilityForItsSourceAndTheSourceIsToldTheReader) {
  const FakeWorker prefill = JoinWith(1, pb::WORKER_ROLE_PREFILL);
  const FakeWorker decode = JoinWith(2, pb::WORKER_ROLE_DECODE);
  Submit(1);
  const pb::CallStart& p = prefill.stream->said.starts(0);
  const pb::CallStart& d = decode.stream->said.starts(0);
  EXPECT_EQ(p.prefill().reader_incarnation(), rpc::ToBytes({.high = 3, .low = 2}));
  EXPECT_FALSE(prefill.stream->said.has_capability_key());
  const auto source = rpc::FromBytes(prefill.stream->said.accepted().membership());
  const CapabilityTerms expected = {.key = {.job = {.high = 2, .low = 1}, .attempt = 1, .choice = 0},
                                    .source = {.high = 3, .low = 1},
                                    .reader = {.high = 3, .low = 2},
                                    .membership = rpc::MembershipTag(*source),
                                    .tenant = "tenant",
                                    .first_block = 0};
  EXPECT_EQ(Verified(decode, d), expected);
  EXPECT_EQ(decode.stream->said.SerializeAsString().find(rpc::ToBytes(*source)), std::string::npos)
      << "a membership is a secret";
}

TEST_F(CapabilityMembersTest, TheKeyIsSentOnceForAMembershipAndAgainWhenTheCertificateChanges) {
  const FakeWorker prefill = JoinWith(1, pb::WORKER_ROLE_PREFILL);
  const FakeWorker decode = JoinWith(2, pb::WORKER_ROLE_DECODE);
  Submit(1);
  const std::string first = decode.stream->said.capability_key().chain();
  decode.stream->said.Clear();
  Submit(2);
  EXPECT_TRUE(decode.stream->said.starts(0).decode().has_capability());
  EXPECT_FALSE(decode.stream->said.has_capability_key());
  files.Write(authority.Issue({.names = {rpc::RoleName("router")}}), authority);
  credentials->Reload();
  decode.stream->said.Clear();
  Submit(3);
  EXPECT_NE(decode.stream->said.capability_key().chain(), first);
  EXPECT_EQ(Verified(decode, decode.stream->said.starts(0)).key.job, (JobId{.high = 2, .low = 3}));
}

// So workers are replaced one at a time, in any order, without a request that fails.
TEST_F(CapabilityMembersTest, WhereOneOfThePairIsOfAnOlderVersionTheSecretIsEnough) {
  const uint64_t older = rpc::kProtocolFeatures & ~rpc::kFeatureCapabilities;
  LoggedLines log;
  const FakeWorker prefill = JoinWith(1, pb::WORKER_ROLE_PREFILL, older);
  EXPECT_THAT(log.Take(), HasSubstr("warning: prefill worker host:1 (pid 0) is of a version without capabilities"));
  const FakeWorker decode = JoinWith(2, pb::WORKER_ROLE_DECODE);
  EXPECT_THAT(log.Take(), ::testing::Not(HasSubstr("warning")));
  Submit(1);
  Close(prefill);
  const FakeWorker newer = JoinWith(3, pb::WORKER_ROLE_PREFILL);
  Close(decode);
  const FakeWorker former = JoinWith(4, pb::WORKER_ROLE_DECODE, older);
  Submit(2);
  ASSERT_EQ(decode.stream->said.starts_size(), 1);
  EXPECT_FALSE(decode.stream->said.starts(0).decode().has_capability());
  ASSERT_EQ(newer.stream->said.starts_size(), 1);
  EXPECT_EQ(newer.stream->said.starts(0).prefill().reader_incarnation(), "");
  ASSERT_EQ(former.stream->said.starts_size(), 1);
  EXPECT_FALSE(former.stream->said.starts(0).decode().has_capability());
}

TEST_F(CapabilityMembersTest, ARequestWithoutAHandOffNeedsNone) {
  const FakeWorker mixed = JoinWith(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  Submit(2, /*max_tokens=*/1);
  ASSERT_EQ(mixed.stream->said.starts_size(), 2);
  for (const pb::CallStart& start : mixed.stream->said.starts()) {
    EXPECT_EQ(start.prefill().reader_incarnation(), "");
    EXPECT_FALSE(start.decode().has_capability());
  }
}

TEST_F(CapabilityMembersTest, AHandOverDemandsOneWhereAllThatMayGoOnCanShowOne) {
  for (const uint64_t features : {rpc::kFeatureResume, rpc::kProtocolFeatures}) {
    const FakeWorker draining = JoinWith(1, pb::WORKER_ROLE_MIXED);
    Submit(features);
    const FakeWorker other = JoinWith(2, pb::WORKER_ROLE_MIXED, features);
    const uint64_t call = draining.last_call();
    pb::WorkerMessage message = draining.Message();
    rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kStarted, .token = {}}, &message);
    AddToken(message, call, {.index = 0, .token = 70});
    message.mutable_load()->set_draining(true);
    Say(draining, message);
    Say(draining, draining.Draining());
    ASSERT_EQ(draining.stream->said.hand_overs_size(), 1);
    const bool can_show = features == rpc::kProtocolFeatures;
    EXPECT_EQ(draining.stream->said.hand_overs(0).needs_capability(), can_show);
    pb::WorkerMessage frozen = draining.Message();
    rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kFrozen, .token = {.index = 0, .token = 70}}, &frozen);
    Say(draining, frozen);
    ASSERT_EQ(other.stream->said.starts_size(), 1);
    ASSERT_EQ(other.stream->said.starts(0).decode().has_capability(), can_show);
    if (can_show) {
      const CapabilityTerms terms = Verified(other, other.stream->said.starts(0));
      EXPECT_EQ(terms.key.attempt, 2u);
      const auto source = rpc::FromBytes(draining.stream->said.accepted().membership());
      EXPECT_EQ(terms.membership, rpc::MembershipTag(*source));
    }
    Close(draining);
    Close(other);
  }
}

TEST_F(ClusterMembersTest, OneMessageCarriesTheTokensOfAllCalls) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  Submit(2);
  ASSERT_EQ(worker.stream->said.starts_size(), 2);
  pb::WorkerMessage message = worker.Message();
  for (const pb::CallStart& start : worker.stream->said.starts()) {
    const int32_t token = static_cast<int32_t>(start.call()) * 10;
    rpc::AddReport(start.call(), {.kind = WorkerUpdate::Kind::kStarted, .token = {}}, &message);
    AddToken(message, start.call(), {.index = 0, .token = token});
    AddToken(message, start.call(), {.index = 1, .token = token + 1, .finish = FinishReason::kStop});
    rpc::AddReport(start.call(), {.kind = WorkerUpdate::Kind::kFinished, .token = {}}, &message);
    rpc::AddEnd(start.call(), absl::OkStatus(), &message);
  }
  Say(worker, message);
  EXPECT_THAT(emitted_, ElementsAre(10, 11, 20, 21));
  EXPECT_THAT(results_, ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_EQ(dispatcher_.open_calls(), 0);
}

TEST_F(ClusterMembersTest, ACancelNamesTheNumberOfTheCall) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  Submit(2);
  dispatcher_.Cancel({.job = {.high = 2, .low = 2}}, absl::CancelledError("client"));
  Apply();
  EXPECT_THAT(worker.stream->said.cancels(), ElementsAre(worker.last_call()));
  pb::WorkerMessage message = worker.Message();
  rpc::AddEnd(worker.last_call(), absl::CancelledError("cancelled"), &message);
  Say(worker, message);
  EXPECT_EQ(dispatcher_.open_calls(), 1);
}

}  // namespace
}  // namespace baton::router
