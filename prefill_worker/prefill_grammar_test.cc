// What the prefill phase does with a prompt whose grammar is not compiled yet.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/testing/slow_grammar.h"
#include "gtest/gtest.h"
#include "prefill_worker/prefill_core.h"
#include "worker/side_work.h"
#include "worker/testing/test_worker.h"

namespace baton::prefill_worker {
namespace {

using worker::HeardOfJob;
using worker::kMaxPreparedPrompts;
using worker::TestWorker;

constexpr int32_t kEos = 63;
constexpr int32_t kBlocksOfPool = 40;

JobKey KeyOf(uint64_t number) { return {.job = {.high = 1, .low = number}, .attempt = 1}; }

class PrefillGrammarTest : public ::testing::Test {
 protected:
  PrefillGrammarTest() { worker_.core.MakeLoop(); }

  // A prompt of one block, whose reader has come.
  void Prefill(uint64_t number, const std::string& grammar) {
    WorkerJob job{.key = KeyOf(number), .prompt = TestWorker::PromptOf(kBlockTokens, static_cast<int32_t>(number))};
    job.sampling.max_tokens = 6;
    if (!grammar.empty()) job.sampling.grammar = {.kind = GrammarKind::kRegex, .text = grammar};
    core_.OnPrefill(job, /*solo=*/false);
    worker_.OpenFetch(number, KeyOf(number));
  }
  const HeardOfJob& Heard(uint64_t number) { return worker_.updates[KeyOf(number)]; }
  void ExpectEnd(uint64_t number, absl::StatusCode code) {
    ASSERT_EQ(Heard(number).ends.size(), 1u) << "job " << number;
    EXPECT_EQ(Heard(number).ends.front().code(), code) << Heard(number).ends.front();
  }
  void Compiled(size_t index) { ASSERT_TRUE(worker_.core.loop().Post(compiling_[index])); }

  std::vector<std::function<void()>> compiling_;
  engine::SlowSource source_{64, kEos,
                             [this](std::function<void()> make_ready) { compiling_.push_back(std::move(make_ready)); }};
  TestWorker worker_{{.pool_blocks = kBlocksOfPool,
                      .engine = {.chunk_tokens = 64, .max_sequences = 4, .eos_ids = {kEos}, .constraints = &source_}}};
  PrefillCore core_{worker_.core, worker_.updates};
};

TEST_F(PrefillGrammarTest, OthersStartWhileAPromptWaitsForItsGrammar) {
  Prefill(1, "..");
  Prefill(2, "");
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(2, absl::StatusCode::kOk);
  EXPECT_FALSE(Heard(1).started());
  EXPECT_EQ(worker_.core.Load().waiting, 1);
  EXPECT_EQ(core_.waiting_prompt_tokens(), kBlockTokens);
  EXPECT_GT(worker_.core.loop().NextRun(), worker_.clock.Now()) << "the loop sleeps while it waits";
  Compiled(0);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(1, absl::StatusCode::kOk);
  EXPECT_EQ(Heard(1).tokens.front() % 3, 0);
  EXPECT_EQ(core_.waiting_prompt_tokens(), 0);
  EXPECT_EQ(worker_.core.Load().waiting, 0);
  EXPECT_EQ(source_.held(), 0);
}

TEST_F(PrefillGrammarTest, AsManyGrammarsArePreparedAsIsAllowedAndTheNextWhenAPromptStarts) {
  constexpr uint64_t kPrompts = kMaxPreparedPrompts + 2;
  for (uint64_t number = 1; number <= kPrompts; ++number) Prefill(number, std::string(number, '.'));
  EXPECT_EQ(source_.held(), kMaxPreparedPrompts);
  EXPECT_EQ(compiling_.size(), static_cast<size_t>(kMaxPreparedPrompts));
  Compiled(3);
  worker_.RunOnce();
  EXPECT_TRUE(Heard(4).started());
  EXPECT_EQ(compiling_.size(), kMaxPreparedPrompts + 1u);
  core_.OnCancel(KeyOf(1), absl::CancelledError("client"));
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_EQ(compiling_.size(), kMaxPreparedPrompts + 2u) << "one that has gone leaves its place too";
  for (size_t i = 0; i < compiling_.size(); ++i) Compiled(i);
  EXPECT_TRUE(worker_.RunUntilIdle());
  for (uint64_t number = 2; number <= kPrompts; ++number) ExpectEnd(number, absl::StatusCode::kOk);
  EXPECT_EQ(source_.held(), 0);
}

TEST_F(PrefillGrammarTest, APromptThatIsCancelledWhileItWaitsIsGone) {
  Prefill(1, ".");
  core_.OnCancel(KeyOf(1), absl::CancelledError("client"));
  ExpectEnd(1, absl::StatusCode::kCancelled);
  EXPECT_EQ(source_.held(), 0);
  EXPECT_EQ(worker_.core.Load().waiting, 0);
  Compiled(0);
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_FALSE(Heard(1).started());
  EXPECT_EQ(core_.waiting_prompt_tokens(), 0);
}

TEST_F(PrefillGrammarTest, AGrammarThatCannotBeUsedEndsItsPromptAlone) {
  Prefill(1, "bad");
  Prefill(2, ".");
  Compiled(0);
  Compiled(1);
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(1, absl::StatusCode::kInvalidArgument);
  ExpectEnd(2, absl::StatusCode::kOk);
  EXPECT_EQ(source_.held(), 0);
}

TEST_F(PrefillGrammarTest, APromptHoldsItsGrammarWhileItWaitsForBlocks) {
  const auto other = worker_.core.engine().Reserve({.prompt = TestWorker::PromptOf(kBlocksOfPool * kBlockTokens, 60),
                                                    .sampling = {.max_tokens = 1},
                                                    .pulls_prompt = true});
  ASSERT_TRUE(other.ok()) << other.status();
  Prefill(1, ".");
  Compiled(0);
  EXPECT_TRUE(worker_.RunUntilIdle());
  EXPECT_FALSE(Heard(1).started());
  EXPECT_EQ(source_.held(), 1);
  ASSERT_TRUE(worker_.core.loop().Post([&] { worker_.core.engine().Release(*other); }));
  EXPECT_TRUE(worker_.RunUntilIdle());
  ExpectEnd(1, absl::StatusCode::kOk);
}

}  // namespace
}  // namespace baton::prefill_worker
