#include "router/call_ledger.h"

#include "gtest/gtest.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

constexpr WorkerId kWorker = {.high = 1, .low = 1};
constexpr WorkerId kOther = {.high = 1, .low = 2};

CallKey Key(uint64_t job, Side side = Side::kDecode) { return {.side = side, .key = KeyOf(job)}; }

class CallLedgerTest : public ::testing::Test {
 protected:
  const WorkerAssignment& Assigned(const WorkerId& worker = kWorker) {
    return AssignmentOf(ledger_.assigned(), worker);
  }

  CallLedger ledger_;
};

TEST_F(CallLedgerTest, AWorkerIsChargedFromTheStartOfACallUntilItsEnd) {
  ledger_.Open(Key(1), {.worker = kWorker, .prompt_tokens = 40, .blocks = 3});
  ledger_.Open(Key(2), {.worker = kWorker, .prompt_tokens = 10, .blocks = 1});
  EXPECT_EQ(Assigned().jobs, 2);
  EXPECT_EQ(Assigned().uncomputed_prompt_tokens, 50);
  EXPECT_EQ(Assigned().reserved_blocks, 4);
  EXPECT_EQ(Assigned(kOther).jobs, 0);
  EXPECT_EQ(ledger_.Close(Key(1), absl::OkStatus())->blocks, 3);
  EXPECT_FALSE(ledger_.Close(Key(1), absl::OkStatus()).has_value());
  EXPECT_EQ(Assigned().jobs, 1);
  EXPECT_EQ(Assigned().uncomputed_prompt_tokens, 10);
  EXPECT_EQ(Assigned().reserved_blocks, 1);
}

TEST_F(CallLedgerTest, TokensThatAreComputedAreChargedNoLongerAndNotTwice) {
  ledger_.Open(Key(1), {.worker = kWorker, .prompt_tokens = 40, .blocks = 3});
  Call& call = *ledger_.Find(Key(1));
  ledger_.OnComputed(call, 16);
  EXPECT_EQ(Assigned().uncomputed_prompt_tokens, 24);
  ledger_.OnComputed(call, 100);
  EXPECT_EQ(Assigned().uncomputed_prompt_tokens, 0);
  EXPECT_EQ(Assigned().reserved_blocks, 3);
  ledger_.Close(Key(1), absl::OkStatus());
  EXPECT_EQ(Assigned().uncomputed_prompt_tokens, 0);
}

TEST_F(CallLedgerTest, AHeartbeatShowsAllThatWasAssignedBeforeItAndNothingAfterIt) {
  ledger_.Open(Key(1), {.worker = kWorker, .prompt_tokens = 40, .blocks = 3});
  EXPECT_EQ(Assigned().unheard_prompt_tokens, 40);
  EXPECT_EQ(Assigned().unheard_blocks, 3);
  EXPECT_EQ(Assigned().unheard_jobs, 1);
  ledger_.OnLoadHeard(kWorker);
  EXPECT_EQ(Assigned().unheard_prompt_tokens, 0);
  EXPECT_EQ(Assigned().unheard_blocks, 0);
  EXPECT_EQ(Assigned().unheard_jobs, 0);
  ledger_.Open(Key(2), {.worker = kWorker, .prompt_tokens = 10, .blocks = 1});
  ledger_.Close(Key(1), absl::OkStatus());
  EXPECT_EQ(Assigned().unheard_prompt_tokens, -30);
  EXPECT_EQ(Assigned().unheard_blocks, -2);
  EXPECT_EQ(Assigned().unheard_jobs, 0);
  ledger_.Close(Key(2), absl::OkStatus());
  EXPECT_EQ(Assigned().unheard_jobs, -1);
}

TEST_F(CallLedgerTest, ARefusedCallLeavesTheWorkerAsFullAsItsHeartbeatsSay) {
  ledger_.Open(Key(1), {.worker = kWorker, .prompt_tokens = 40, .blocks = 3});
  ledger_.OnLoadHeard(kWorker);
  // Between its opening and its refusal a heartbeat comes, and before that one none does.
  ledger_.Open(Key(2), {.worker = kWorker, .prompt_tokens = 10, .blocks = 1});
  ledger_.OnLoadHeard(kWorker);
  ledger_.Open(Key(3), {.worker = kWorker, .prompt_tokens = 20, .blocks = 2});
  const absl::Status no_room = absl::ResourceExhaustedError("no room");
  for (uint64_t refused : {2, 3}) {
    ASSERT_TRUE(ledger_.Close(Key(refused), no_room).has_value());
    EXPECT_FALSE(ledger_.Close(Key(refused), no_room).has_value());
  }
  EXPECT_EQ(Assigned().unheard_prompt_tokens, 0);
  EXPECT_EQ(Assigned().unheard_blocks, 0);
  EXPECT_EQ(Assigned().unheard_jobs, 0);
  EXPECT_EQ(Assigned().uncomputed_prompt_tokens, 40);
  EXPECT_EQ(Assigned().reserved_blocks, 3);
  EXPECT_EQ(Assigned().jobs, 1);
}

TEST_F(CallLedgerTest, AnIdleWorkerIsForgottenOnceItsLoadIsHeard) {
  ledger_.Open(Key(1), {.worker = kWorker, .blocks = 3});
  ledger_.Close(Key(1), absl::OkStatus());
  EXPECT_EQ(Assigned().unheard_blocks, 0);
  EXPECT_EQ(ledger_.assigned().size(), 1u);
  ledger_.OnLoadHeard(kWorker);
  ledger_.OnLoadHeard(kOther);
  EXPECT_TRUE(ledger_.assigned().empty());
}

TEST_F(CallLedgerTest, TheLossOfAWorkerClosesAllItsCallsAndNoOther) {
  ledger_.Open(Key(1, Side::kPrefill), {.worker = kWorker, .prompt_tokens = 40});
  ledger_.Open(Key(1), {.worker = kOther, .blocks = 3});
  ledger_.Open(Key(2), {.worker = kWorker, .blocks = 1});
  ledger_.OnWorkerLost(kWorker);
  EXPECT_EQ(ledger_.size(), 1u);
  EXPECT_EQ(ledger_.Find(Key(2)), nullptr);
  EXPECT_FALSE(ledger_.assigned().contains(kWorker));
  EXPECT_EQ(Assigned(kOther).reserved_blocks, 3);
}

}  // namespace
}  // namespace baton::router
