#include "kvtransfer/kv_source.h"

#include "gtest/gtest.h"
#include "kvtransfer/testing/source_fixture.h"

namespace baton::kvtransfer {
namespace {

TEST_F(KvSourceTest, PrefillWithoutAFetchHoldsNothing) {
  ASSERT_TRUE(Prefill(1).ok());
  EXPECT_EQ(Actions(), "");
  EXPECT_EQ(source_.open_jobs(), 0);
  EXPECT_EQ(source_.NextTimer(), clock_.Now() + SourceOptions().unlicensed_ms * kNsPerMs);
}

TEST_F(KvSourceTest, SoloPrefillIsLicensedAtOnceAndReleasesWhenFinished) {
  ASSERT_TRUE(Prefill(1, true).ok());
  EXPECT_EQ(Actions(), "Grant(1,0)");
  EXPECT_EQ(source_.open_jobs(), 1);
  Compute(1, {0, 1});
  EXPECT_EQ(Actions(), "");
  Complete(1, 2);
  EXPECT_EQ(Actions(), "Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, FetchAfterPrefillLicenses) {
  ASSERT_TRUE(Prefill(1).ok());
  Open(1, 10, 2);
  EXPECT_EQ(Actions(), "Reply(10,Accepted) Grant(1,2)");
  EXPECT_EQ(source_.open_jobs(), 1);
}

TEST_F(KvSourceTest, AcceptedCarriesAddressAndBlockSize) {
  ASSERT_TRUE(Prefill(1).ok());
  Open(1, 10);
  const auto actions = source_.TakeActions();
  const auto& accepted = std::get<FetchAccepted>(std::get<SendReply>(actions.at(0)).reply);
  EXPECT_EQ(accepted.transport_address, "address");
  EXPECT_EQ(accepted.block_bytes, 64u);
}

TEST_F(KvSourceTest, UnlicensedPrefillEndsByItsTimer) {
  ASSERT_TRUE(Prefill(1).ok());
  EXPECT_EQ(AfterMs(SourceOptions().unlicensed_ms - 1), "");
  EXPECT_EQ(AfterMs(1), "Revoke(1,UNAVAILABLE)");
  ExpectOver();
}

TEST_F(KvSourceTest, UnlicensedPrefillEndsAtItsDeadline) {
  ASSERT_TRUE(Prefill(1, false, clock_.Now() + 50 * kNsPerMs).ok());
  EXPECT_EQ(AfterMs(50), "Revoke(1,DEADLINE_EXCEEDED)");
  ExpectOver();
}

TEST_F(KvSourceTest, UnlicensedPrefillEndsWithCancel) {
  ASSERT_TRUE(Prefill(1).ok());
  source_.OnCancel(KeyOf(1), absl::AbortedError("the router"));
  EXPECT_EQ(Actions(), "Revoke(1,ABORTED)");
  ExpectOver();
}

TEST_F(KvSourceTest, FetchBeforePrefillIsParkedAndThenLicensed) {
  Open(1, 10, 3);
  EXPECT_EQ(Actions(), "");
  EXPECT_EQ(source_.open_jobs(), 0);
  source_.OnFetchRenew(10, {.sequence = 4});
  EXPECT_EQ(Actions(), "Reply(10,Renewed4)");
  ASSERT_TRUE(Prefill(1).ok());
  EXPECT_EQ(Actions(), "Reply(10,Accepted) Grant(1,3)");
}

TEST_F(KvSourceTest, ParkedFetchEndsByItsTimerDespiteRenewals) {
  Open(1, 10);
  EXPECT_EQ(AfterMs(SourceOptions().parked_ms - 1), "");
  source_.OnFetchRenew(10, {.sequence = 1});
  EXPECT_EQ(Actions(), "Reply(10,Renewed1)");
  EXPECT_EQ(AfterMs(1), "Close(10,NOT_FOUND)");
  ExpectOver();
}

TEST_F(KvSourceTest, ParkedFetchEndsWithReleaseCloseOrCancel) {
  Open(1, 10);
  source_.OnFetchRelease(10);
  EXPECT_EQ(Actions(), "Close(10,OK)");
  ExpectOver();
  Open(2, 11);
  source_.OnFetchClosed(11);
  EXPECT_EQ(Actions(), "");
  EXPECT_EQ(Prefill(2).code(), absl::StatusCode::kCancelled);
  Open(3, 12);
  source_.OnCancel(KeyOf(3), absl::AbortedError("the router"));
  EXPECT_EQ(Actions(), "Close(12,ABORTED)");
  EXPECT_EQ(Prefill(3).code(), absl::StatusCode::kCancelled);
}

TEST_F(KvSourceTest, ParkedFetchesAreBounded) {
  for (uint64_t job = 1; job <= 3; ++job) Open(job, 10 + job);
  EXPECT_EQ(Actions(), "");
  Open(4, 14);
  EXPECT_EQ(Actions(), "Close(14,RESOURCE_EXHAUSTED)");
  ASSERT_TRUE(Prefill(2).ok());
  Actions();
  Open(5, 15);
  EXPECT_EQ(Actions(), "");
}

TEST_F(KvSourceTest, FetchThatDoesNotKnowTheSecretIsRefused) {
  ASSERT_TRUE(Prefill(1).ok());
  FetchOpen forged = OpenOf(1);
  ++forged.secret.low;
  source_.OnFetchOpen(9, forged);
  EXPECT_EQ(Actions(), "Close(9,PERMISSION_DENIED)");
  forged.secret = {};
  source_.OnFetchOpen(8, forged);
  EXPECT_EQ(Actions(), "Close(8,PERMISSION_DENIED)");
  Open(1, 10);
  EXPECT_EQ(Actions(), "Reply(10,Accepted) Grant(1,0)");
  // Nor does it learn that the job has a reader, or disturb it.
  source_.OnFetchOpen(7, forged);
  EXPECT_EQ(Actions(), "Close(7,PERMISSION_DENIED)");
  Compute(1, {0});
  EXPECT_EQ(Actions(), "Reply(10,Ready:0)");
}

TEST_F(KvSourceTest, ParkedFetchThatDoesNotKnowTheSecretMakesRoomForTheJobsOwn) {
  FetchOpen forged = OpenOf(1);
  ++forged.secret.high;
  source_.OnFetchOpen(9, forged);
  EXPECT_EQ(Actions(), "");
  ASSERT_TRUE(Prefill(1).ok());
  EXPECT_EQ(Actions(), "Close(9,PERMISSION_DENIED)");
  EXPECT_EQ(source_.NextTimer(), clock_.Now() + SourceOptions().unlicensed_ms * kNsPerMs);
  Open(1, 10);
  EXPECT_EQ(Actions(), "Reply(10,Accepted) Grant(1,0)");
}

TEST_F(KvSourceTest, BlocksAreAnnouncedFromTheReadersFirst) {
  ASSERT_TRUE(Prefill(1).ok());
  Open(1, 10, 2);
  Actions();
  Compute(1, {0, 1});
  EXPECT_EQ(Actions(), "");
  Compute(1, {1, 2, 3});
  EXPECT_EQ(Actions(), "Reply(10,Ready:2:3)");
}

TEST_F(KvSourceTest, AReaderThatTakesThemIsToldOfBegunBlocksAndMayReadTheirBeginnings) {
  ASSERT_TRUE(Prefill(1).ok());
  FetchOpen open = OpenOf(1, 1);
  open.takes_begun = true;
  source_.OnFetchOpen(10, open);
  Actions();
  source_.OnBlocksBegun(KeyOf(1), {{{.index = 0, .offset = 0, .bytes = 16}, {.index = 1, .offset = 64, .bytes = 16}}});
  EXPECT_EQ(Actions(), "Reply(10,Begun:1+16)");
  EXPECT_EQ(access_.allowed.at(SecretOf(KeyOf(1))), (std::vector<std::pair<uint64_t, uint64_t>>{{64, 16}}));
  source_.OnFetchClosed(10);
  EXPECT_EQ(Actions(), "Revoke(1,UNAVAILABLE)") << "it may be reading";
  source_.OnBlocksBegun(KeyOf(1), {{{.index = 1, .offset = 64, .bytes = 32}}});
  EXPECT_EQ(Actions(), "");
}

TEST_F(KvSourceTest, AReaderOfAnOlderVersionHearsNothingOfBegunBlocks) {
  License();
  source_.OnBlocksBegun(KeyOf(1), {{{.index = 0, .offset = 0, .bytes = 16}}});
  EXPECT_EQ(Actions(), "");
  EXPECT_TRUE(access_.allowed.empty());
}

TEST_F(KvSourceTest, FinishedPromptIsServedUntilReleased) {
  Serve();
  EXPECT_EQ(source_.open_jobs(), 1);
  source_.OnFetchRelease(10);
  EXPECT_EQ(Actions(), "Close(10,OK) Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, PromptThatItsFirstTokenEndsWaitsForTheReader) {
  LicenseAndAnnounce();
  source_.OnPromptFinished(KeyOf(1), {.block_count = 1, .first = {.token = 5, .finish = FinishReason::kStop}});
  EXPECT_EQ(Actions(), "Reply(10,Complete1)");
  source_.OnFetchRelease(10);
  EXPECT_EQ(Actions(), "Close(10,OK) Free(1)");
}

TEST_F(KvSourceTest, FirstBlockBeyondThePromptIsRefusedWhenKnown) {
  ASSERT_TRUE(Prefill(1).ok());
  Open(1, 10, 5);
  Actions();
  Compute(1, {0, 1, 2, 3});
  Complete(1, 4);
  EXPECT_EQ(Actions(), "Close(10,INVALID_ARGUMENT) Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, ReleaseBeforeTheEndRevokes) {
  LicenseAndAnnounce();
  source_.OnFetchRelease(10);
  EXPECT_EQ(Actions(), "Close(10,OK) Revoke(1,CANCELLED) Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, CancelOfALicensedJobDrainsUntilTheReadersRelease) {
  Drain();
  EXPECT_EQ(source_.open_jobs(), 1);
  source_.OnFetchRelease(10);
  EXPECT_EQ(Actions(), "Close(10,ABORTED) Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, FailureOfALicensedJobDrains) {
  LicenseAndAnnounce();
  source_.OnFailed(KeyOf(1), absl::InternalError("kernel"));
  EXPECT_EQ(Actions(), "Revoke(1,INTERNAL)");
  Compute(1, {1});
  Complete(1, 2);
  EXPECT_EQ(Actions(), "");
  source_.OnFetchRelease(10);
  EXPECT_EQ(Actions(), "Close(10,INTERNAL) Free(1)");
}

TEST_F(KvSourceTest, CancelOfAServedJobDrainsWithoutRevoke) {
  Serve();
  source_.OnCancel(KeyOf(1), absl::AbortedError("the router"));
  EXPECT_EQ(Actions(), "");
  source_.OnFetchRelease(10);
  EXPECT_EQ(Actions(), "Close(10,ABORTED) Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, DeadlineDrainsLicensedAndServedJobs) {
  Serve(clock_.Now() + 10 * kNsPerMs);
  EXPECT_EQ(AfterMs(10), "");
  source_.OnFetchRelease(10);
  EXPECT_EQ(Actions(), "Close(10,DEADLINE_EXCEEDED) Free(1)");
}

TEST_F(KvSourceTest, DeadlineEndsASoloJob) {
  ASSERT_TRUE(Prefill(1, true, clock_.Now() + 10 * kNsPerMs).ok());
  Actions();
  EXPECT_EQ(AfterMs(10), "Revoke(1,DEADLINE_EXCEEDED) Free(1)");
}

TEST_F(KvSourceTest, DrainingJobAnswersNoRenewalAndEndsWithItsLease) {
  Drain();
  clock_.AdvanceMs(kLeaseMs / 2);
  source_.OnFetchRenew(10, {.sequence = 1});
  EXPECT_EQ(Actions(), "");
  EXPECT_EQ(AfterMs(kLeaseMs / 2 - 1), "");
  EXPECT_EQ(AfterMs(1), "Close(10,ABORTED)");
  EXPECT_EQ(AfterMs(SourceOptions().grace_ms - 1), "");
  EXPECT_EQ(AfterMs(1), "Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, JobThatNobodyCanReadEndsAtOnce) {
  License();
  source_.OnFailed(KeyOf(1), absl::InternalError("no memory"));
  EXPECT_EQ(Actions(), "Revoke(1,INTERNAL) Close(10,INTERNAL) Free(1)");
  ExpectOver();
  ASSERT_TRUE(Prefill(2).ok());
  Open(2, 11);
  Actions();
  source_.OnFetchClosed(11);
  EXPECT_EQ(Actions(), "Revoke(2,UNAVAILABLE) Free(2)");
}

}  // namespace
}  // namespace baton::kvtransfer
