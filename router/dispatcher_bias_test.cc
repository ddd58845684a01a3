// A logit_bias is for workers that know it. One of a former version would give other tokens, without a word.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/refusal_reason.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class DispatcherBiasTest : public DispatcherTest {
 protected:
  void JoinFormer(uint64_t n, WorkerRole role) {
    WorkerInfo former = MakeWorker(n, role);
    former.job_features = 0;
    Join(former);
  }
  void JoinFormerPair() {
    JoinFormer(1, WorkerRole::kPrefill);
    JoinFormer(2, WorkerRole::kDecode);
  }
  void SubmitBiased(uint64_t n, JobShape shape = {}) {
    shape.logit_bias = {{.token = 5, .bias = -100}};
    Submit(n, shape);
  }
  void Lose(uint64_t n) { dispatcher().OnWorkerLost(MakeWorkerId(n), kBroken); }
  // Tells the dispatcher of every worker below `end` that it is alive.
  void Hear(uint64_t end) {
    for (uint64_t n = 1; n < end; ++n) dispatcher().OnWorkerLoad(MakeWorkerId(n), {});
  }
};

TEST_F(DispatcherBiasTest, ABiasGoesPastTheWorkersOfAFormerVersion) {
  JoinFormerPair();
  Join(3, WorkerRole::kPrefill);
  Join(4, WorkerRole::kDecode);
  SubmitBiased(1);
  EXPECT_THAT(Actions(), ElementsAre("P3 1/1", "D4 1/1"));
  Submit(2);
  EXPECT_THAT(Actions(), ElementsAre("P1 2/1", "D2 2/1"));
  SubmitBiased(3);
  EXPECT_THAT(Actions(), ElementsAre("P3 3/1", "D4 3/1")) << "however busy they are";
  SubmitBiased(4, {.max_tokens = 1});
  EXPECT_THAT(Actions(), ElementsAre("solo3 4/1"));
}

TEST_F(DispatcherBiasTest, BothWorkersOfAPairMustKnowIt) {
  JoinFormer(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kDecode);
  SubmitBiased(1);
  EXPECT_THAT(Actions(), IsEmpty());
  Join(3, WorkerRole::kPrefill);
  EXPECT_THAT(Actions(), ElementsAre("P3 1/1", "D2 1/1"));
}

TEST_F(DispatcherBiasTest, WhereNobodyKnowsItTheErrorSaysSo) {
  JoinFormerPair();
  SubmitBiased(1);
  RunMs(options_.placing.no_worker_wait_ms - 1);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
  EXPECT_THAT(std::string(LastResult().status.message()),
              HasSubstr("2 joined, of which 2 are of a version that does not know its logit_bias"));
  EXPECT_EQ(GetRefusalReason(LastResult().status), RefusalReason::kNoWorkers);
  Submit(2);
  EXPECT_THAT(Actions(), ElementsAre("P1 2/1", "D2 2/1"));
}

TEST_F(DispatcherBiasTest, TheErrorOfARequestWithoutABiasSaysNothingOfVersions) {
  JoinFormer(1, WorkerRole::kPrefill);
  Submit(1);
  RunMs(options_.placing.no_worker_wait_ms);
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
  EXPECT_THAT(std::string(LastResult().status.message()), AllOf(HasSubstr("1 joined"), Not(HasSubstr("version"))));
}

TEST_F(DispatcherBiasTest, WorkersThatKnowItAreWaitedForAfterTheirLoss) {
  JoinFormerPair();
  Join(3, WorkerRole::kMixed);
  Lose(3);
  SubmitBiased(1);
  for (int64_t ms = 0; ms < 10'000; ms += 1'000) {
    RunMs(1'000);
    Hear(3);
  }
  EXPECT_THAT(Actions(), IsEmpty());
  Join(4, WorkerRole::kMixed);
  EXPECT_THAT(Actions(), ElementsAre("local4 1/1"));
}

TEST_F(DispatcherBiasTest, AJobThatWaitsForThemKeepsNobodyElseFromTheOthers) {
  JoinFormerPair();
  WorkerInfo small = MakeWorker(3, WorkerRole::kMixed);
  small.max_sequences = 1;
  Join(small);
  SubmitBiased(1);
  EXPECT_THAT(Actions(), ElementsAre("local3 1/1"));
  for (uint64_t n = 2; n <= 60; ++n) SubmitBiased(n);
  EXPECT_THAT(Actions(), IsEmpty());
  Submit(100);
  EXPECT_THAT(Actions(), ElementsAre("P1 100/1", "D2 100/1"));
  RunMs(options_.placing.no_worker_wait_ms);
  EXPECT_THAT(Actions(), IsEmpty()) << "there is somebody for them, who is busy";
}

TEST_F(DispatcherBiasTest, AJobThatFailsOverGoesOnWhereItIsKnown) {
  JoinFormerPair();
  Join(3, WorkerRole::kPrefill);
  Join(4, WorkerRole::kDecode);
  SubmitBiased(1);
  PrefillDone(KeyOf(1), 70);
  Committed(KeyOf(1));
  Token(kD, KeyOf(1), 1, 71);
  Actions();
  Lose(4);
  RunMs(4'000);
  EXPECT_THAT(Actions(), IsEmpty()) << "worker 2 is idle, and would read it wrong";
  Hear(4);
  Join(5, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ElementsAre("P3 1/2 after 2", "D5 1/2 after 2"));
}

TEST_F(DispatcherBiasTest, ADrainHandsItOverToWhoKnowsIt) {
  Join(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kDecode);
  JoinFormer(3, WorkerRole::kDecode);
  SubmitBiased(1);
  PrefillDone(KeyOf(1), 70);
  Committed(KeyOf(1));
  Token(kD, KeyOf(1), 1, 71);
  Actions();
  dispatcher().OnWorkerLoad(MakeWorkerId(2), {.state = WorkerState::kDraining});
  EXPECT_THAT(Actions(), IsEmpty());
  Join(4, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ElementsAre("move2 1/1->2"));
}

}  // namespace
}  // namespace baton::router
