#include "gtest/gtest.h"
#include "kvtransfer/testing/source_fixture.h"

namespace baton::kvtransfer {
namespace {

TEST_F(KvSourceTest, ClosedStreamRevokesAndQuarantines) {
  LicenseAndAnnounce();
  clock_.AdvanceMs(100);
  source_.OnFetchClosed(10);
  EXPECT_EQ(Actions(), "Revoke(1,UNAVAILABLE)");
  EXPECT_EQ(source_.open_jobs(), 1);
  EXPECT_EQ(AfterMs(kLeaseMs - 100 + SourceOptions().grace_ms - 1), "");
  EXPECT_EQ(AfterMs(1), "Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, ClosedStreamOfServedAndDrainingJobsQuarantines) {
  Serve();
  source_.OnFetchClosed(10);
  EXPECT_EQ(Actions(), "");
  EXPECT_EQ(AfterMs(kLeaseMs + SourceOptions().grace_ms), "Free(1)");
}

TEST_F(KvSourceTest, ClosedStreamOfADrainingJobQuarantines) {
  Drain();
  source_.OnFetchClosed(10);
  EXPECT_EQ(AfterMs(kLeaseMs + SourceOptions().grace_ms - 1), "");
  EXPECT_EQ(AfterMs(1), "Free(1)");
}

TEST_F(KvSourceTest, ReaderMayReadWhatWasAnnouncedUntilItsRelease) {
  ASSERT_TRUE(Prefill(1).ok());
  Open(1, 10, 1);
  EXPECT_TRUE(access_.allowed.empty());
  Compute(1, {0, 1});
  Compute(1, {2});
  EXPECT_EQ(access_.allowed.at(SecretOf(KeyOf(1))), (std::vector<std::pair<uint64_t, uint64_t>>{{64, 64}, {128, 64}}));
  Complete(1, 3);
  source_.OnFetchRelease(10);
  EXPECT_TRUE(access_.allowed.empty());
}

TEST_F(KvSourceTest, LostReaderThatCannotBeReadingCostsNoLease) {
  access_.stops_readers = true;
  LicenseAndAnnounce();
  source_.OnFetchClosed(10);
  EXPECT_EQ(Actions(), "Revoke(1,UNAVAILABLE) Free(1)");
  EXPECT_TRUE(access_.allowed.empty());
  ExpectOver();
}

TEST_F(KvSourceTest, CancelledReaderThatCannotBeReadingIsToldAtOnce) {
  access_.stops_readers = true;
  Serve();
  source_.OnCancel(KeyOf(1), absl::AbortedError("the router"));
  EXPECT_EQ(Actions(), "Close(10,ABORTED) Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, LeaseOverOfAReaderThatCannotBeReadingNeedsNoGrace) {
  access_.stops_readers = true;
  Serve();
  EXPECT_EQ(AfterMs(kLeaseMs), "Close(10,UNAVAILABLE) Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, LostReaderIsAskedAfterUntilItCannotBeReading) {
  Serve();
  source_.OnFetchClosed(10);
  // It may read nothing more, but over shared memory it may not have heard.
  EXPECT_TRUE(access_.allowed.empty());
  EXPECT_EQ(AfterMs(SourceOptions().lost_reader_check_ms), "");
  access_.stops_readers = true;
  EXPECT_EQ(AfterMs(SourceOptions().lost_reader_check_ms - 1), "");
  EXPECT_EQ(AfterMs(1), "Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, DrainingReaderIsAskedAfterUntilItCannotBeReading) {
  Drain();
  EXPECT_EQ(AfterMs(SourceOptions().lost_reader_check_ms), "");
  access_.stops_readers = true;
  EXPECT_EQ(AfterMs(SourceOptions().lost_reader_check_ms), "Close(10,ABORTED) Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, LeaseWithoutRenewalEndsAndIsProlongedByOne) {
  LicenseAndAnnounce();
  EXPECT_EQ(AfterMs(kLeaseMs - 1), "");
  source_.OnFetchRenew(10, {.sequence = 1});
  EXPECT_EQ(Actions(), "Reply(10,Renewed1)");
  EXPECT_EQ(AfterMs(kLeaseMs - 1), "");
  EXPECT_EQ(AfterMs(1), "Close(10,UNAVAILABLE) Revoke(1,UNAVAILABLE)");
  source_.OnFetchRelease(10);
  EXPECT_EQ(Actions(), "Close(10,CANCELLED)");
  EXPECT_EQ(AfterMs(SourceOptions().grace_ms), "Free(1)");
}

TEST_F(KvSourceTest, LeaseOfAServedJobEnds) {
  Serve();
  EXPECT_EQ(AfterMs(kLeaseMs), "Close(10,UNAVAILABLE)");
  EXPECT_EQ(AfterMs(SourceOptions().grace_ms), "Free(1)");
}

TEST_F(KvSourceTest, CancelInQuarantineChangesNothing) {
  LicenseAndAnnounce();
  source_.OnFetchClosed(10);
  Actions();
  source_.OnCancel(KeyOf(1), absl::AbortedError("the router"));
  source_.OnFailed(KeyOf(1), absl::InternalError("kernel"));
  EXPECT_EQ(Actions(), "");
  Open(1, 11);
  EXPECT_EQ(Actions(), "Close(11,CANCELLED)");
  EXPECT_EQ(AfterMs(kLeaseMs + SourceOptions().grace_ms), "Free(1)");
}

TEST_F(KvSourceTest, ShortLeaseIsLengthenedAndALongOneRefused) {
  ASSERT_TRUE(Prefill(1).ok());
  FetchOpen open = OpenOf(1);
  for (int64_t lease_ms : {int64_t{0}, int64_t{-1}, SourceOptions().max_lease_ms + 1, INT64_MAX}) {
    open.lease_ms = lease_ms;
    source_.OnFetchOpen(10, open);
    EXPECT_EQ(Actions(), "Close(10,INVALID_ARGUMENT)") << lease_ms;
  }
  open.lease_ms = 1;
  source_.OnFetchOpen(10, open);
  EXPECT_EQ(Actions(), "Reply(10,Accepted) Grant(1,0)");
  EXPECT_EQ(source_.NextTimer(), clock_.Now() + SourceOptions().min_lease_ms * kNsPerMs);
}

}  // namespace
}  // namespace baton::kvtransfer
