#include "kvtransfer/kv_source.h"

#include <string>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/describe_handoff.h"
#include "kvtransfer/testing/fake_block_access.h"
#include "kvtransfer/tombstones.h"

namespace baton::kvtransfer {
namespace {

constexpr int64_t kLeaseMs = 1'000;

KvSourceOptions Options() {
  KvSourceOptions options;
  options.incarnation = kSourceIncarnation;
  options.fingerprint = "weights-1";
  options.transport_address = "address";
  options.block_bytes = 64;
  options.max_tombstones = 8;
  options.max_parked = 3;
  return options;
}

// Job 1, and stream 10 of its reader.
class KvSourceTest : public testing::Test {
 protected:
  std::string Actions() { return DescribeAll(source_.TakeActions()); }
  std::string AfterMs(int64_t ms) {
    clock_.AdvanceMs(ms);
    source_.OnTimer();
    return Actions();
  }
  absl::Status Prefill(uint64_t job, bool solo = false, TimeNs deadline = kNever) {
    return source_.OnPrefill(KeyOf(job), {.secret = SecretOf(KeyOf(job))}, deadline, solo);
  }
  FetchOpen OpenOf(uint64_t job, int32_t first_block = 0) {
    return {.key = KeyOf(job),
            .secret = SecretOf(KeyOf(job)),
            .source = kSourceIncarnation,
            .fingerprint = "weights-1",
            .first_block = first_block,
            .lease_ms = kLeaseMs};
  }
  void Open(uint64_t job, FetchStreamId stream, int32_t first_block = 0) {
    source_.OnFetchOpen(stream, OpenOf(job, first_block));
  }
  void Compute(uint64_t job, std::vector<int32_t> indices) {
    BlocksReady ready;
    for (int32_t index : indices)
      ready.blocks.push_back({.index = index, .offset = 64u * static_cast<uint64_t>(index)});
    source_.OnBlocksComputed(KeyOf(job), ready);
  }
  void Complete(uint64_t job, int32_t blocks) {
    source_.OnPromptFinished(KeyOf(job), {.block_count = blocks, .first = {.token = 5}});
  }
  // Job 1 with its reader, nothing announced.
  void License(TimeNs deadline = kNever) {
    ASSERT_TRUE(Prefill(1, false, deadline).ok());
    Open(1, 10);
    ASSERT_EQ(Actions(), "Reply(10,Accepted) Grant(1,0)");
  }
  void LicenseAndAnnounce(TimeNs deadline = kNever) {
    License(deadline);
    Compute(1, {0});
    ASSERT_EQ(Actions(), "Reply(10,Ready:0)");
  }
  void Serve(TimeNs deadline = kNever) {
    LicenseAndAnnounce(deadline);
    Complete(1, 1);
    ASSERT_EQ(Actions(), "Reply(10,Complete1)");
  }
  void Drain() {
    LicenseAndAnnounce();
    source_.OnCancel(KeyOf(1), absl::AbortedError("the router"));
    ASSERT_EQ(Actions(), "Revoke(1,ABORTED)");
  }
  void ExpectOver() {
    EXPECT_EQ(source_.open_jobs(), 0);
    EXPECT_EQ(source_.NextTimer(), kNever);
    EXPECT_EQ(Prefill(1).code(), absl::StatusCode::kCancelled);
    Open(1, 99);
    EXPECT_EQ(Actions(), "Close(99,CANCELLED)");
  }

  ManualClock clock_;
  FakeBlockAccess access_;
  KvSource source_{Options(), clock_, access_};
};

TEST_F(KvSourceTest, PrefillWithoutAFetchHoldsNothing) {
  ASSERT_TRUE(Prefill(1).ok());
  EXPECT_EQ(Actions(), "");
  EXPECT_EQ(source_.open_jobs(), 0);
  EXPECT_EQ(source_.NextTimer(), clock_.Now() + Options().unlicensed_ms * kNsPerMs);
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
  EXPECT_EQ(AfterMs(Options().unlicensed_ms - 1), "");
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
  EXPECT_EQ(AfterMs(Options().parked_ms - 1), "");
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
  EXPECT_EQ(source_.NextTimer(), clock_.Now() + Options().unlicensed_ms * kNsPerMs);
  Open(1, 10);
  EXPECT_EQ(Actions(), "Reply(10,Accepted) Grant(1,0)");
}

constexpr ExpectedReader kReader = {.incarnation = {.high = 21, .low = 22}, .membership = {.high = 23, .low = 24}};

// What the router signs for job 1.
CapabilityTerms TermsOf(uint64_t job) {
  return {.key = KeyOf(job),
          .source = kSourceIncarnation,
          .reader = kReader.incarnation,
          .membership = kReader.membership,
          .tenant = "alice"};
}

// Attempts of which the router demands a capability.
class CapabilitySourceTest : public KvSourceTest {
 protected:
  absl::Status Demand(uint64_t job, const ExpectedReader& reader = kReader) {
    return source_.OnPrefill(KeyOf(job), {.secret = SecretOf(KeyOf(job)), .reader = reader, .tenant = "alice"}, kNever,
                             /*solo=*/false);
  }
  FetchOpen OpenWith(uint64_t job, absl::StatusOr<CapabilityTerms> terms, int32_t first_block = 0) {
    FetchOpen open = OpenOf(job, first_block);
    open.terms = std::move(terms);
    return open;
  }
  // One wrong capability after another, none of which opens job 1.
  std::vector<std::pair<std::string, FetchOpen>> WrongOpens() {
    std::vector<std::pair<std::string, FetchOpen>> wrong;
    const auto add = [&](const std::string& what, auto change) {
      CapabilityTerms terms = TermsOf(1);
      change(terms);
      wrong.emplace_back(what, OpenWith(1, terms));
    };
    add("another job's", [](CapabilityTerms& terms) { ++terms.key.job.low; });
    add("another attempt's", [](CapabilityTerms& terms) { ++terms.key.attempt; });
    add("another choice's", [](CapabilityTerms& terms) { ++terms.key.choice; });
    add("another source's", [](CapabilityTerms& terms) { ++terms.source.low; });
    add("another reader's", [](CapabilityTerms& terms) { ++terms.reader.low; });
    add("nobody's", [](CapabilityTerms& terms) { terms.reader = {}; });
    add("of a membership that is over", [](CapabilityTerms& terms) { ++terms.membership.low; });
    add("another tenant's", [](CapabilityTerms& terms) { terms.tenant = "bob"; });
    add("from a later block", [](CapabilityTerms& terms) { terms.first_block = 1; });
    wrong.emplace_back("not verified", OpenWith(1, absl::PermissionDeniedError("its capability is none")));
    wrong.emplace_back("none", OpenOf(1));
    FetchOpen forged = OpenWith(1, TermsOf(1));
    ++forged.secret.low;
    wrong.emplace_back("without the secret", forged);
    return wrong;
  }
};

TEST_F(CapabilitySourceTest, FetchWithAnythingButTheAttemptsOwnCapabilityIsRefused) {
  ASSERT_TRUE(Demand(1).ok());
  for (const auto& [what, open] : WrongOpens()) {
    source_.OnFetchOpen(9, open);
    EXPECT_EQ(Actions(), "Close(9,PERMISSION_DENIED)") << what;
  }
  source_.OnFetchOpen(10, OpenWith(1, TermsOf(1)));
  EXPECT_EQ(Actions(), "Reply(10,Accepted) Grant(1,0)");
}

TEST_F(CapabilitySourceTest, ParkedFetchIsJudgedWhenTheRouterHasSaidWhoseItIs) {
  for (const auto& [what, open] : WrongOpens()) {
    KvSource source(Options(), clock_, access_);
    source.OnFetchOpen(9, open);
    EXPECT_EQ(DescribeAll(source.TakeActions()), "") << what;
    ASSERT_TRUE(source
                    .OnPrefill(KeyOf(1), {.secret = SecretOf(KeyOf(1)), .reader = kReader, .tenant = "alice"}, kNever,
                               /*solo=*/false)
                    .ok());
    EXPECT_EQ(DescribeAll(source.TakeActions()), "Close(9,PERMISSION_DENIED)") << what;
    source.OnFetchOpen(10, OpenWith(1, TermsOf(1)));
    EXPECT_EQ(DescribeAll(source.TakeActions()), "Reply(10,Accepted) Grant(1,0)") << what;
  }
  source_.OnFetchOpen(9, OpenWith(1, TermsOf(1)));
  ASSERT_TRUE(Demand(1).ok());
  EXPECT_EQ(Actions(), "Reply(9,Accepted) Grant(1,0)");
}

TEST_F(CapabilitySourceTest, CapabilityIsUsedOnce) {
  ASSERT_TRUE(Demand(1).ok());
  source_.OnFetchOpen(10, OpenWith(1, TermsOf(1)));
  ASSERT_EQ(Actions(), "Reply(10,Accepted) Grant(1,0)");
  source_.OnFetchOpen(11, OpenWith(1, TermsOf(1)));
  EXPECT_EQ(Actions(), "Close(11,ALREADY_EXISTS)");
  source_.OnFetchRelease(10);
  ASSERT_EQ(Actions(), "Close(10,OK) Revoke(1,CANCELLED) Free(1)");
  source_.OnFetchOpen(12, OpenWith(1, TermsOf(1)));
  EXPECT_EQ(Actions(), "Close(12,CANCELLED)");
  EXPECT_FALSE(Demand(1).ok());
}

TEST_F(CapabilitySourceTest, ReaderMayAskForLaterBlocksThanItsCapabilityAllows) {
  CapabilityTerms terms = TermsOf(1);
  terms.first_block = 2;
  ASSERT_TRUE(Demand(1).ok());
  source_.OnFetchOpen(9, OpenWith(1, terms, 1));
  EXPECT_EQ(Actions(), "Close(9,PERMISSION_DENIED)");
  source_.OnFetchOpen(10, OpenWith(1, terms, 3));
  EXPECT_EQ(Actions(), "Reply(10,Accepted) Grant(1,3)");
}

// A sequence is offered before the router knows who goes on with it.
TEST_F(CapabilitySourceTest, WhereTheReaderIsNotKnownYetAnyThatTheRouterNamesIsLetIn) {
  ASSERT_TRUE(Demand(1, {.incarnation = {}, .membership = kReader.membership}).ok());
  CapabilityTerms terms = TermsOf(1);
  ++terms.membership.high;
  source_.OnFetchOpen(9, OpenWith(1, terms));
  EXPECT_EQ(Actions(), "Close(9,PERMISSION_DENIED)");
  source_.OnFetchOpen(10, OpenWith(1, TermsOf(1)));
  EXPECT_EQ(Actions(), "Reply(10,Accepted) Grant(1,0)");
}

// In plain text, and while one of the two is of an older version.
TEST_F(CapabilitySourceTest, WhereTheRouterDemandsNoneTheSecretIsEnough) {
  ASSERT_TRUE(Prefill(1).ok());
  source_.OnFetchOpen(10, OpenWith(1, absl::PermissionDeniedError("its capability is none")));
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
  EXPECT_EQ(AfterMs(Options().grace_ms - 1), "");
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

TEST_F(KvSourceTest, ClosedStreamRevokesAndQuarantines) {
  LicenseAndAnnounce();
  clock_.AdvanceMs(100);
  source_.OnFetchClosed(10);
  EXPECT_EQ(Actions(), "Revoke(1,UNAVAILABLE)");
  EXPECT_EQ(source_.open_jobs(), 1);
  EXPECT_EQ(AfterMs(kLeaseMs - 100 + Options().grace_ms - 1), "");
  EXPECT_EQ(AfterMs(1), "Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, ClosedStreamOfServedAndDrainingJobsQuarantines) {
  Serve();
  source_.OnFetchClosed(10);
  EXPECT_EQ(Actions(), "");
  EXPECT_EQ(AfterMs(kLeaseMs + Options().grace_ms), "Free(1)");
}

TEST_F(KvSourceTest, ClosedStreamOfADrainingJobQuarantines) {
  Drain();
  source_.OnFetchClosed(10);
  EXPECT_EQ(AfterMs(kLeaseMs + Options().grace_ms - 1), "");
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
  EXPECT_EQ(AfterMs(Options().lost_reader_check_ms), "");
  access_.stops_readers = true;
  EXPECT_EQ(AfterMs(Options().lost_reader_check_ms - 1), "");
  EXPECT_EQ(AfterMs(1), "Free(1)");
  ExpectOver();
}

TEST_F(KvSourceTest, DrainingReaderIsAskedAfterUntilItCannotBeReading) {
  Drain();
  EXPECT_EQ(AfterMs(Options().lost_reader_check_ms), "");
  access_.stops_readers = true;
  EXPECT_EQ(AfterMs(Options().lost_reader_check_ms), "Close(10,ABORTED) Free(1)");
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
  EXPECT_EQ(AfterMs(Options().grace_ms), "Free(1)");
}

TEST_F(KvSourceTest, LeaseOfAServedJobEnds) {
  Serve();
  EXPECT_EQ(AfterMs(kLeaseMs), "Close(10,UNAVAILABLE)");
  EXPECT_EQ(AfterMs(Options().grace_ms), "Free(1)");
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
  EXPECT_EQ(AfterMs(kLeaseMs + Options().grace_ms), "Free(1)");
}

TEST_F(KvSourceTest, ShortLeaseIsLengthenedAndALongOneRefused) {
  ASSERT_TRUE(Prefill(1).ok());
  FetchOpen open = OpenOf(1);
  for (int64_t lease_ms : {int64_t{0}, int64_t{-1}, Options().max_lease_ms + 1, INT64_MAX}) {
    open.lease_ms = lease_ms;
    source_.OnFetchOpen(10, open);
    EXPECT_EQ(Actions(), "Close(10,INVALID_ARGUMENT)") << lease_ms;
  }
  open.lease_ms = 1;
  source_.OnFetchOpen(10, open);
  EXPECT_EQ(Actions(), "Reply(10,Accepted) Grant(1,0)");
  EXPECT_EQ(source_.NextTimer(), clock_.Now() + Options().min_lease_ms * kNsPerMs);
}

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
  EXPECT_EQ(AfterMs(kLeaseMs + Options().grace_ms), "Free(1)");
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
  clock_.AdvanceMs(Options().max_tombstone_ms - 1);
  EXPECT_EQ(Prefill(1).code(), absl::StatusCode::kCancelled);
  clock_.AdvanceMs(1);
  EXPECT_TRUE(Prefill(1).ok());
}

TEST(TombstonesTest, OldestGoFirstAndExpiredOnesGoAtAll) {
  Tombstones tombstones(3);
  for (uint64_t job = 1; job <= 4; ++job) tombstones.Add(KeyOf(job), 100, 0);
  EXPECT_EQ(tombstones.size(), 3u);
  EXPECT_FALSE(tombstones.Contains(KeyOf(1), 0));
  EXPECT_TRUE(tombstones.Contains(KeyOf(2), 99));
  EXPECT_FALSE(tombstones.Contains(KeyOf(2), 100));
  tombstones.Add(KeyOf(2), 300, 0);
  EXPECT_EQ(tombstones.size(), 3u);
  tombstones.Add(KeyOf(5), 300, 100);
  EXPECT_TRUE(tombstones.Contains(KeyOf(5), 100));
  EXPECT_LE(tombstones.size(), 3u);
}

}  // namespace
}  // namespace baton::kvtransfer
