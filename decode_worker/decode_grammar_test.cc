// What the decode phase does with a job whose grammar is not compiled yet.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "decode_worker/decode_core.h"
#include "engine/testing/slow_grammar.h"
#include "gtest/gtest.h"
#include "worker/testing/test_worker.h"

namespace baton::decode_worker {
namespace {

using worker::HeardOfJob;
using worker::TestWorker;

constexpr int32_t kEos = 63;
constexpr int32_t kTwoSlots = 2;
const DecodeSource kHere{.local = true};
const DecodeSource kAtPeer{.prefill_target = "p:1", .prefill_incarnation = {9, 9}};

JobKey KeyOf(uint64_t number) { return {.job = {.high = 1, .low = number}, .attempt = 1}; }

WorkerJob JobWith(uint64_t number, const std::string& grammar) {
  WorkerJob job{.key = KeyOf(number), .prompt = TestWorker::PromptOf(20, static_cast<int32_t>(number))};
  job.sampling.max_tokens = 6;
  if (!grammar.empty()) job.sampling.grammar = {.kind = GrammarKind::kRegex, .text = grammar};
  return job;
}

class DecodeGrammarTest : public ::testing::Test {
 protected:
  DecodeGrammarTest() { worker_.core.MakeLoop(); }

  const HeardOfJob& Heard(uint64_t number) { return worker_.updates[KeyOf(number)]; }
  void ExpectEnd(uint64_t number, absl::StatusCode code) {
    ASSERT_EQ(Heard(number).ends.size(), 1u) << "job " << number;
    EXPECT_EQ(Heard(number).ends.front().code(), code) << Heard(number).ends.front();
  }
  int32_t used_blocks() { return worker_.core.engine().Load().used_blocks; }
  // The grammar that was asked for as the number `index` is compiled.
  void Compiled(size_t index) { ASSERT_TRUE(worker_.core.loop().Post(compiling_[index])); }

  std::vector<std::function<void()>> compiling_;
  engine::SlowSource source_{64, kEos,
                             [this](std::function<void()> make_ready) { compiling_.push_back(std::move(make_ready)); }};
  TestWorker worker_{
      {.pool_blocks = 20,
       .engine = {.chunk_tokens = 64, .max_sequences = kTwoSlots, .eos_ids = {kEos}, .constraints = &source_}}};
  DecodeCore core_{{}, worker_.core, worker_.updates};
};

TEST_F(DecodeGrammarTest, OthersRunWhileAJobWaitsForItsGrammarAndThenItGetsItsTokens) {
  const WorkerJob job = JobWith(1, "..");
  core_.OnDecode(job, kHere);
  core_.OnDecode(JobWith(2, ""), kHere);
  EXPECT_EQ(worker_.core.Load().waiting, 1);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(2, absl::StatusCode::kOk);
  EXPECT_TRUE(Heard(1).kinds.empty());
  EXPECT_EQ(used_blocks(), 0) << "it holds a slot, and no blocks";
  EXPECT_EQ(worker_.core.loop().NextRun(), kNever) << "the loop sleeps while it waits";
  Compiled(0);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(1, absl::StatusCode::kOk);
  EXPECT_EQ(Heard(1).tokens, engine::FakeModelTokens({}, job.prompt, job.sampling, {kEos}));
  EXPECT_EQ(worker_.core.Load().waiting, 0);
  EXPECT_EQ(source_.held(), 0) << "its sequence has it";
}

TEST_F(DecodeGrammarTest, JobsStartAsTheirGrammarsBecomeReady) {
  core_.OnDecode(JobWith(1, "."), kAtPeer);
  core_.OnDecode(JobWith(2, ".."), kAtPeer);
  Compiled(1);
  worker_.RunOnce();
  EXPECT_FALSE(Heard(1).started());
  EXPECT_TRUE(Heard(2).started());
  Compiled(0);
  worker_.RunOnce();
  EXPECT_TRUE(Heard(1).started());
  ASSERT_EQ(worker_.fetcher.started.size(), 2u);
  EXPECT_EQ(worker_.fetcher.started.back().source_target, kAtPeer.prefill_target);
  EXPECT_EQ(worker_.fetcher.started.back().source, kAtPeer.prefill_incarnation);
}

TEST_F(DecodeGrammarTest, AJobThatWaitsHasASlotAndItsNumberIsTaken) {
  core_.OnDecode(JobWith(1, "."), kAtPeer);
  core_.OnDecode(JobWith(1, "."), kAtPeer);
  ExpectEnd(1, absl::StatusCode::kAlreadyExists);
  core_.OnDecode(JobWith(2, ".."), kAtPeer);
  core_.OnDecode(JobWith(3, ""), kHere);
  ExpectEnd(3, absl::StatusCode::kResourceExhausted);
  Compiled(0);
  worker_.RunOnce();
  EXPECT_TRUE(Heard(1).started());
}

TEST_F(DecodeGrammarTest, AJobThatIsCancelledWhileItWaitsIsGone) {
  core_.OnDecode(JobWith(1, "."), kAtPeer);
  core_.OnDecode(JobWith(2, "."), kAtPeer);
  core_.OnHandOver(KeyOf(1), {.next = KeyOf(9), .secret = {1, 1}, .reader = {}});
  core_.OnCancel(KeyOf(1), absl::CancelledError("client"));
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_EQ(core_.job_count(), 1);
  EXPECT_EQ(source_.held(), 1);
  Compiled(0);
  Compiled(1);
  worker_.RunOnce();
  EXPECT_TRUE(Heard(1).kinds.empty());
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_TRUE(Heard(2).started());
}

TEST_F(DecodeGrammarTest, AJobsDeadlineEndsItsWait) {
  WorkerJob job = JobWith(1, ".");
  job.deadline = worker_.clock.Now() + 5 * kNsPerMs;
  core_.OnDecode(job, kAtPeer);
  worker_.clock.AdvanceMs(4);
  worker_.RunOnce();
  EXPECT_FALSE(Heard(1).ended());
  worker_.clock.AdvanceMs(1);
  worker_.RunOnce();
  ExpectEnd(1, absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(core_.job_count(), 0);
  EXPECT_EQ(core_.NextTimer(), kNever);
  EXPECT_EQ(source_.held(), 0);
}

TEST_F(DecodeGrammarTest, AGrammarThatCannotBeUsedEndsItsJob) {
  core_.OnDecode(JobWith(1, "bad"), kAtPeer);
  Compiled(0);
  worker_.RunOnce();
  ExpectEnd(1, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(core_.job_count(), 0);
  EXPECT_EQ(core_.NextTimer(), kNever);
}

TEST_F(DecodeGrammarTest, AJobThatHasWaitedIsRefusedWhereThereIsNoRoomAnyMore) {
  core_.OnDecode(JobWith(1, "."), kAtPeer);
  const auto sequence = worker_.core.engine().Reserve(
      {.prompt = TestWorker::PromptOf(19 * kBlockTokens), .sampling = {.max_tokens = 1}, .pulls_prompt = true});
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  Compiled(0);
  worker_.RunOnce();
  ExpectEnd(1, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(core_.job_count(), 0);
}

}  // namespace
}  // namespace baton::decode_worker
