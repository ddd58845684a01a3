#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kvtransfer/kv_source.h"
#include "kvtransfer/testing/source_fixture.h"

namespace baton::kvtransfer {
namespace {

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
    KvSource source(SourceOptions(), clock_, access_);
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

}  // namespace
}  // namespace baton::kvtransfer
