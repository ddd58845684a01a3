#include "worker/worker_calls.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::worker {
namespace {

namespace pb = internal::v1;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class ToldStream final : public RouterStream {
 public:
  void Send(size_t /*bytes*/, absl::FunctionRef<void(pb::WorkerMessage&)> fill) override { fill(said); }
  // All that was said, merged.
  pb::WorkerMessage said;
};

// A phase that ends what is cancelled.
class SharedTestPhase final : public Phase {
 public:
  void AddTo(WorkerCore&, UpdateSink&) override {}
  pb::CallStart::SideCase side() const override { return pb::CallStart::kDecode; }
  absl::Status Start(WorkerJob job, const pb::CallStart&) override {
    if (!refusal.ok()) return refusal;
    started.push_back(job.key.attempt);
    return absl::OkStatus();
  }
  void Cancel(const JobKey& key, const absl::Status& why) override {
    cancelled.push_back(key.attempt);
    sink->End(key, why);
  }

  UpdateSink* sink = nullptr;
  absl::Status refusal;
  std::vector<uint32_t> started;
  std::vector<uint32_t> cancelled;
};

JobKey AttemptKey(uint32_t attempt) { return {.job = {.high = 1, .low = 2}, .attempt = attempt}; }

class WorkerCallsTest : public ::testing::Test {
 protected:
  WorkerCallsTest() {
    phase_.sink = &calls_.Add(phase_);
    for (size_t router : {0, 1}) Join(router, rpc::kProtocolFeatures);
  }
  void Join(size_t router, uint64_t features) {
    streams_[router] = std::make_shared<ToldStream>();
    calls_.Of(router).OnJoined(streams_[router], features);
  }
  void Start(size_t router, uint64_t call, uint32_t attempt) {
    pb::RouterMessage message;
    pb::CallStart* start = message.add_starts();
    start->set_call(call);
    rpc::ToProto({.key = AttemptKey(attempt), .secret = {.high = 5, .low = 6}, .prompt = {1, 2}}, 0,
                 start->mutable_job());
    start->mutable_decode();
    calls_.Of(router).OnMessage(message);
  }
  void Token(uint32_t attempt, int32_t token) {
    phase_.sink->Update(AttemptKey(attempt), {.kind = WorkerUpdate::Kind::kToken, .token = {.token = token}});
  }
  void Flush(BlockReport report = {}) {
    calls_.Flush(report.holders.empty(), [&] {
      ++reports_asked_;
      return report;
    });
  }
  // What the router was told of blocks when the next report was due.
  BlockReport NextReport(size_t router, const BlockReport& report) {
    clock_.AdvanceMs(kBlockReportMs);
    Flush(report);
    return rpc::FromProto(streams_[router]->said.blocks()).value();
  }
  static std::vector<uint32_t> Holders(const BlockReport& report) {
    std::vector<uint32_t> attempts;
    for (const BlockHolder& holder : report.holders) attempts.push_back(holder.key.attempt);
    return attempts;
  }
  const pb::WorkerMessage& SaidTo(size_t router) { return streams_[router]->said; }

  ManualClock clock_;
  WorkNote work_;
  SharedTestPhase phase_;
  WorkerCalls calls_{2, clock_, work_};
  std::shared_ptr<ToldStream> streams_[2];
  int reports_asked_ = 0;
  // Attempts 1 and 2 hold 3 and 4 blocks, of which they share one.
  const BlockReport two_holders_ = {.free_blocks = 10,
                                    .cached_blocks = 2,
                                    .holders = {{.key = AttemptKey(1), .blocks = 3, .own_blocks = 3},
                                                {.key = AttemptKey(2), .blocks = 4, .own_blocks = 3}}};
};

TEST_F(WorkerCallsTest, EachRouterHearsOfItsOwnCallsAloneAlsoUnderEqualNumbers) {
  Start(0, 7, 1);
  Start(1, 7, 2);
  Token(1, 100);
  Token(2, 200);
  phase_.sink->End(AttemptKey(2), absl::OkStatus());
  Flush();
  ASSERT_EQ(SaidTo(0).tokens_size(), 1);
  ASSERT_EQ(SaidTo(1).tokens_size(), 1);
  EXPECT_EQ(SaidTo(0).tokens(0).id(), 100);
  EXPECT_EQ(SaidTo(1).tokens(0).id(), 200);
  EXPECT_EQ(SaidTo(0).ended_size(), 0);
  EXPECT_EQ(SaidTo(1).ended_size(), 1);
  EXPECT_EQ(calls_.open_calls(), 1u);
}

TEST_F(WorkerCallsTest, ARouterThatIsLostTakesItsOwnJobsAlone) {
  Start(0, 1, 1);
  Start(1, 1, 2);
  calls_.Of(0).OnLost(absl::UnavailableError("gone"));
  EXPECT_THAT(phase_.cancelled, ElementsAre(1));
  Token(2, 200);
  Flush();
  EXPECT_EQ(SaidTo(1).tokens_size(), 1);
  EXPECT_EQ(SaidTo(1).ended_size(), 0);
}

TEST_F(WorkerCallsTest, AnAttemptOfOneRouterIsNoOtherRouters) {
  Start(0, 1, 1);
  Start(1, 1, 1);
  Flush();
  ASSERT_EQ(SaidTo(1).ended_size(), 1);
  absl::Status end;
  ASSERT_TRUE(rpc::FromProto(SaidTo(1).ended(0), end).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(end)) << end;
  EXPECT_EQ(SaidTo(0).ended_size(), 0) << "the call that was first goes on";
  EXPECT_THAT(phase_.started, ElementsAre(1));
}

TEST_F(WorkerCallsTest, AnAttemptThatThePhaseRefusedMayComeAgain) {
  phase_.refusal = absl::InvalidArgumentError("not like this");
  Start(0, 1, 1);
  phase_.refusal = absl::OkStatus();
  Start(0, 2, 1);
  EXPECT_THAT(phase_.started, ElementsAre(1));
}

TEST_F(WorkerCallsTest, AReportNamesTheRoutersOwnHoldersAndCountsTheBlocksOfOthers) {
  Start(0, 1, 1);
  Start(1, 1, 2);
  const BlockReport first = NextReport(0, two_holders_);
  EXPECT_THAT(Holders(first), ElementsAre(1));
  EXPECT_EQ(first.other_routers_blocks, 3);
  EXPECT_EQ(reports_asked_, 1) << "both routers were told of the same moment";
  const BlockReport second = NextReport(1, two_holders_);
  EXPECT_THAT(Holders(second), ElementsAre(2));
  EXPECT_EQ(second.other_routers_blocks, 3);
  EXPECT_EQ(second.free_blocks, 10);
  EXPECT_EQ(second.cached_blocks, 2);
}

TEST_F(WorkerCallsTest, BlocksKeepTheirRouterBehindTheEndOfTheCall) {
  Start(0, 1, 1);
  phase_.sink->End(AttemptKey(1), absl::OkStatus());
  EXPECT_THAT(Holders(NextReport(1, two_holders_)), ElementsAre(2)) << "nobody is known to have started attempt 2";
  EXPECT_THAT(Holders(NextReport(1, two_holders_)), ElementsAre(2));
  EXPECT_THAT(Holders(NextReport(0, two_holders_)), ElementsAre(1, 2));
  NextReport(0, {});
  EXPECT_THAT(Holders(NextReport(1, two_holders_)), ElementsAre(1, 2)) << "what held nothing is forgotten";
}

TEST_F(WorkerCallsTest, BlocksOfARouterThatIsGoneAreToldToAllUntilItIsBack) {
  Start(0, 1, 1);
  calls_.Of(0).OnLost(absl::UnavailableError("gone"));
  const BlockReport alone = NextReport(1, two_holders_);
  EXPECT_THAT(Holders(alone), ElementsAre(1, 2));
  EXPECT_EQ(alone.other_routers_blocks, 0);
  Join(0, rpc::kProtocolFeatures);
  EXPECT_THAT(Holders(NextReport(1, two_holders_)), ElementsAre(2));
  EXPECT_THAT(Holders(NextReport(0, two_holders_)), ElementsAre(1, 2));
}

TEST_F(WorkerCallsTest, ARouterOfAFormerVersionIsToldOfNoBlocksWhileOthersHoldSome) {
  Join(0, rpc::kFeatureBlockReports);
  Flush();
  EXPECT_TRUE(SaidTo(0).has_blocks());
  streams_[0]->said.Clear();
  Start(1, 1, 2);
  NextReport(1, two_holders_);
  EXPECT_FALSE(SaidTo(0).has_blocks());
}

TEST_F(WorkerCallsTest, AttemptsThatHaveEndedAreForgottenAlsoWhereNoRouterAsksForReports) {
  for (size_t router : {0, 1}) Join(router, 0);
  uint32_t attempt = 0;
  const auto end_attempts = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      ++attempt;
      Start(0, attempt, attempt);
      phase_.sink->End(AttemptKey(attempt), absl::OkStatus());
    }
    Flush(two_holders_);
  };
  end_attempts(kMaxEndedAttempts);
  EXPECT_EQ(reports_asked_, 0);
  end_attempts(1);
  EXPECT_EQ(reports_asked_, 1);
  end_attempts(1);
  EXPECT_EQ(reports_asked_, 1) << "all but the two holders were forgotten";
}

TEST_F(WorkerCallsTest, TheEndOfADrainEndsTheCallsOfAllRouters) {
  Start(0, 1, 1);
  Start(1, 1, 2);
  EXPECT_THAT(calls_.CutAll(200), ElementsAre(AttemptKey(1).choice_key())) << "two attempts of one request";
  EXPECT_THAT(phase_.cancelled, UnorderedElementsAre(1, 2));
  EXPECT_EQ(SaidTo(0).ended_size(), 1);
  EXPECT_EQ(SaidTo(1).ended_size(), 1);
  EXPECT_EQ(calls_.open_calls(), 0u);
}

}  // namespace
}  // namespace baton::worker
