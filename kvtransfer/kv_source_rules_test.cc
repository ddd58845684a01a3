#include "common/limits.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/source_fixture.h"

namespace baton::kvtransfer {
namespace {

TEST_F(KvSourceTest, OtherProcessAndOtherFingerprintAreRefusedByName) {
  FetchOpen open = OpenOf(1);
  open.source = {.high = 1, .low = 2};
  source_.OnFetchOpen(10, open);
  auto actions = source_.TakeActions();
  absl::Status status = std::get<CloseStream>(actions.at(0)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find(open.source.ToHex()), absl::string_view::npos);
  EXPECT_NE(status.message().find(kSourceIncarnation.ToHex()), absl::string_view::npos);
  open = OpenOf(1);
  open.fingerprint = std::string(1000, 'x');
  source_.OnFetchOpen(10, open);
  actions = source_.TakeActions();
  status = std::get<CloseStream>(actions.at(0)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("weights-1"), absl::string_view::npos);
  EXPECT_LT(status.message().size(), 300u);
}

TEST_F(KvSourceTest, NegativeFirstBlockIsRefused) {
  Open(1, 10, -1);
  EXPECT_EQ(Actions(), "Close(10,INVALID_ARGUMENT)");
  EXPECT_EQ(source_.NextTimer(), kNever);
}

TEST_F(KvSourceTest, SecondFetchOfAJobIsRefused) {
  License();
  Open(1, 11);
  EXPECT_EQ(Actions(), "Close(11,ALREADY_EXISTS)");
  source_.OnFetchClosed(11);
  Compute(1, {0});
  EXPECT_EQ(Actions(), "Reply(10,Ready:0)");
  Open(2, 20);
  Open(2, 21);
  EXPECT_EQ(Actions(), "Close(21,ALREADY_EXISTS)");
}

TEST_F(KvSourceTest, SecondOpenOnAStreamEndsItsJob) {
  LicenseAndAnnounce();
  Open(2, 10);
  EXPECT_EQ(Actions(), "Revoke(1,UNAVAILABLE) Close(10,INVALID_ARGUMENT)");
  EXPECT_EQ(AfterMs(kLeaseMs + SourceOptions().grace_ms), "Free(1)");
}

TEST_F(KvSourceTest, SoloJobTakesNoReader) {
  ASSERT_TRUE(Prefill(1, true).ok());
  Actions();
  Open(1, 10);
  EXPECT_EQ(Actions(), "Close(10,FAILED_PRECONDITION)");
  Open(2, 11);
  EXPECT_EQ(Prefill(2, true).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Actions(), "Close(11,FAILED_PRECONDITION)");
}

TEST_F(KvSourceTest, SecondPrefillOfAJobIsRefused) {
  ASSERT_TRUE(Prefill(1).ok());
  EXPECT_EQ(Prefill(1).code(), absl::StatusCode::kAlreadyExists);
  Open(1, 10);
  EXPECT_EQ(Prefill(1).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(KvSourceTest, JobsAreBoundedAndARefusedOneClosesItsParkedFetch) {
  for (uint64_t job = 1; job <= static_cast<uint64_t>(kMaxPendingJobs); ++job) ASSERT_TRUE(Prefill(job + 100).ok());
  Open(1, 10);
  EXPECT_EQ(Prefill(1).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Actions(), "Close(10,RESOURCE_EXHAUSTED)");
  EXPECT_EQ(Prefill(2).code(), absl::StatusCode::kResourceExhausted);
  source_.OnCancel(KeyOf(101), absl::AbortedError("the router"));
  EXPECT_TRUE(Prefill(3).ok());
}

TEST_F(KvSourceTest, LateMessagesOnUnknownStreamsAreAnswered) {
  source_.OnFetchRenew(10, {.sequence = 1});
  source_.OnFetchRelease(11);
  source_.OnFetchClosed(12);
  EXPECT_EQ(Actions(), "Close(10,CANCELLED) Close(11,CANCELLED)");
  Compute(9, {0});
  Complete(9, 1);
  EXPECT_EQ(Actions(), "");
}

TEST_F(KvSourceTest, CancelThatOvertakesItsPrefillIsRemembered) {
  source_.OnCancel(KeyOf(1), absl::AbortedError("the router"));
  EXPECT_EQ(Actions(), "");
  ExpectOver();
}

TEST_F(KvSourceTest, TombstoneLivesUntilTheDeadline) {
  ASSERT_TRUE(Prefill(1, false, clock_.Now() + 5'000 * kNsPerMs).ok());
  source_.OnCancel(KeyOf(1), absl::AbortedError("the router"));
  clock_.AdvanceMs(4'999);
  EXPECT_EQ(Prefill(1).code(), absl::StatusCode::kCancelled);
  clock_.AdvanceMs(1);
  EXPECT_TRUE(Prefill(1).ok());
}

TEST_F(KvSourceTest, TombstoneOfAJobWithoutDeadlineLivesForItsMaximum) {
  ASSERT_TRUE(Prefill(1).ok());
  source_.OnCancel(KeyOf(1), absl::AbortedError("the router"));
  clock_.AdvanceMs(SourceOptions().max_tombstone_ms - 1);
  EXPECT_EQ(Prefill(1).code(), absl::StatusCode::kCancelled);
  clock_.AdvanceMs(1);
  EXPECT_TRUE(Prefill(1).ok());
}

}  // namespace
}  // namespace baton::kvtransfer
