#include "router/partners.h"

#include "gmock/gmock.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::HasSubstr;

constexpr char kBf16[] = "exact-v2/kv:30x3x64-bf16-v1/weights:c1/probe:d4";
constexpr char kInt8[] = "exact-v2/kv:30x3x64-int8-v1/weights:c1/probe:8e";

class PartnersTest : public ::testing::Test {
 protected:
  void Join(uint64_t n, WorkerRole role, const std::string& fingerprint = kBf16) {
    WorkerInfo info = MakeWorker(n, role);
    info.fingerprint = fingerprint;
    ASSERT_TRUE(registry_.Join(info, 0).ok());
  }
  void Drain(uint64_t n) { registry_.Heartbeat(MakeWorkerId(n), {.state = WorkerState::kDraining}, 1); }
  Partners Of(uint64_t n) { return PartnersOf(registry_, *registry_.Find(MakeWorkerId(n))); }

  WorkerRegistry registry_;
};

TEST_F(PartnersTest, AreThoseOfTheSameFingerprintThatDoWhatTheWorkerDoesNot) {
  Join(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kPrefill);
  Join(3, WorkerRole::kDecode);
  Join(4, WorkerRole::kDecode, kInt8);
  EXPECT_EQ(Of(1).count, 1);
  EXPECT_EQ(Of(3).count, 2);
  EXPECT_EQ(Of(3).why_none, "");
  Join(5, WorkerRole::kMixed, kInt8);
  EXPECT_EQ(Of(4).count, 1);
  EXPECT_EQ(Of(5).count, 2) << "itself and the decode worker";
}

TEST_F(PartnersTest, AWorkerWithoutSaysWhoIsMissingAndHowOthersDiffer) {
  Join(1, WorkerRole::kPrefill);
  EXPECT_EQ(Of(1).why_none, "no decode worker with this fingerprint");
  Join(2, WorkerRole::kDecode, kInt8);
  EXPECT_EQ(Of(1).why_none, "no decode worker with this fingerprint; group B's differs in kv (--kv-dtype)");
  EXPECT_EQ(Of(2).why_none, "no prefill worker with this fingerprint; group A's differs in kv (--kv-dtype)");
  Join(3, WorkerRole::kDecode);
  Drain(3);
  EXPECT_THAT(Of(1).why_none, HasSubstr("host:3 drains"));
  EXPECT_EQ(Of(3).count, 0);
  EXPECT_THAT(Of(3).why_none, HasSubstr("it drains"));
}

TEST_F(PartnersTest, ADifferenceIsNamedByTheFlagsThatDecideIt) {
  Join(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kDecode, "fp32-v2/kv:30x3x64-bf16-v1/weights:c2/probe:d5");
  EXPECT_THAT(Of(1).why_none, HasSubstr("differs in numerics (--numerics, --device), weights (--model, --weights)"));
  registry_.Leave(MakeWorkerId(2));
  Join(3, WorkerRole::kDecode, "exact-v2/kv:30x3x64-bf16-v1/weights:c1/probe:d5");
  EXPECT_THAT(Of(1).why_none, HasSubstr("differs in probe"));
}

TEST_F(PartnersTest, TheRouterAwaitsWhatSomeGroupLacks) {
  EXPECT_EQ(AwaitedWorkers(registry_), "a prefill and a decode worker, or a mixed one");
  Join(1, WorkerRole::kDecode);
  EXPECT_EQ(AwaitedWorkers(registry_), "a prefill worker of group A");
  Join(2, WorkerRole::kPrefill, kInt8);
  EXPECT_EQ(AwaitedWorkers(registry_), "a decode worker of group B, or a prefill worker of group A");
  Join(3, WorkerRole::kMixed);
  EXPECT_EQ(AwaitedWorkers(registry_), "");
  Drain(1);
  Drain(2);
  Drain(3);
  EXPECT_EQ(AwaitedWorkers(registry_), "a prefill and a decode worker, or a mixed one");
}

TEST_F(PartnersTest, AWorkerIsTheLastForWhatNoOtherServingWorkerOfItsGroupDoes) {
  const auto last_for = [this](uint64_t n) { return LastFor(registry_, *registry_.Find(MakeWorkerId(n))); };
  Join(1, WorkerRole::kMixed);
  EXPECT_EQ(last_for(1), "prefill and decode");
  Join(2, WorkerRole::kDecode);
  EXPECT_EQ(last_for(1), "prefill");
  EXPECT_EQ(last_for(2), "") << "the mixed one decodes too";
  Join(3, WorkerRole::kPrefill);
  EXPECT_EQ(last_for(1), "");
  Join(4, WorkerRole::kDecode, kInt8);
  EXPECT_EQ(last_for(4), "decode") << "in its group";
  Drain(1);
  EXPECT_EQ(last_for(2), "decode") << "who drains takes nothing over";
  EXPECT_EQ(last_for(1), "") << "of one that drains itself";
}

}  // namespace
}  // namespace baton::router
