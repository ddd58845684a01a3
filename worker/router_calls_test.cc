#include "worker/router_calls.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/drain.h"
#include "common/limits.h"
#include "common/rpc/capability.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::worker {
namespace {

namespace pb = internal::v1;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class FakeStream final : public RouterStream {
 public:
  void Send(size_t bytes, absl::FunctionRef<void(pb::WorkerMessage&)> fill) override {
    pb::WorkerMessage message;
    fill(message);
    EXPECT_LE(message.ByteSizeLong(), bytes);
    messages.push_back(std::move(message));
  }
  std::vector<pb::WorkerMessage> messages;
};

// Keeps what it is told; the test speaks for it through its sink.
class FakePhase final : public Phase {
 public:
  explicit FakePhase(pb::CallStart::SideCase side) : side_(side) {}
  void AddTo(WorkerCore&, UpdateSink&) override {}
  pb::CallStart::SideCase side() const override { return side_; }
  absl::Status Start(WorkerJob job, const pb::CallStart&) override {
    if (on_start != nullptr) on_start();
    if (!refusal.ok()) return refusal;
    started.push_back(std::move(job));
    return absl::OkStatus();
  }
  void Cancel(const JobKey& key, const absl::Status& why) override {
    cancelled.push_back(key.attempt);
    if (sink != nullptr) sink->End(key, why);
  }

  void Begin(const JobKey& key, const HandOver& hand_over) override { hand_overs.emplace_back(key, hand_over); }

  UpdateSink* sink = nullptr;
  absl::Status refusal;
  std::function<void()> on_start;
  std::vector<WorkerJob> started;
  std::vector<uint32_t> cancelled;
  std::vector<std::pair<JobKey, HandOver>> hand_overs;

 private:
  const pb::CallStart::SideCase side_;
};

JobKey KeyOf(uint32_t attempt) { return {.job = {.high = 1, .low = 2}, .attempt = attempt}; }

pb::CallStart MakeStart(uint64_t call, uint32_t attempt, pb::CallStart::SideCase side) {
  pb::CallStart start;
  start.set_call(call);
  rpc::ToProto({.key = KeyOf(attempt), .secret = {.high = 5, .low = 6}, .prompt = {1, 2}}, 0, start.mutable_job());
  if (side == pb::CallStart::kPrefill) start.mutable_prefill();
  if (side == pb::CallStart::kDecode) start.mutable_decode();
  return start;
}

class RouterCallsTest : public ::testing::Test {
 protected:
  RouterCallsTest() {
    prefill_.sink = &calls_.Add(prefill_);
    decode_.sink = &calls_.Add(decode_);
    calls_.OnJoined(stream_, rpc::kFeatureResume);
  }
  void Start(uint64_t call, uint32_t attempt, pb::CallStart::SideCase side) {
    pb::RouterMessage message;
    *message.add_starts() = MakeStart(call, attempt, side);
    calls_.OnMessage(message);
  }
  void Token(FakePhase& phase, uint32_t attempt, int32_t token) {
    phase.sink->Update(KeyOf(attempt), {.kind = WorkerUpdate::Kind::kToken, .token = {.index = 0, .token = token}});
  }
  // The end of the only call in the only message.
  absl::Status OnlyEnd() {
    calls_.Flush();
    absl::Status end;
    EXPECT_EQ(stream_->messages.size(), 1u);
    EXPECT_EQ(stream_->messages.at(0).ended_size(), 1);
    EXPECT_TRUE(rpc::FromProto(stream_->messages.at(0).ended(0), end).ok());
    return end;
  }

  ManualClock clock_;
  FakePhase prefill_{pb::CallStart::kPrefill};
  FakePhase decode_{pb::CallStart::kDecode};
  WorkNote work_;
  RouterCalls calls_{clock_, work_};
  std::shared_ptr<FakeStream> stream_ = std::make_shared<FakeStream>();
};

TEST_F(RouterCallsTest, AStartGoesToThePhaseOfItsSide) {
  Start(1, 1, pb::CallStart::kPrefill);
  Start(2, 2, pb::CallStart::kDecode);
  ASSERT_EQ(prefill_.started.size(), 1u);
  ASSERT_EQ(decode_.started.size(), 1u);
  EXPECT_EQ(prefill_.started[0].key, KeyOf(1));
  EXPECT_EQ(prefill_.started[0].secret, (Id128{.high = 5, .low = 6}));
  EXPECT_EQ(decode_.started[0].key, KeyOf(2));
  EXPECT_EQ(calls_.open_calls(), 2u);
}

TEST_F(RouterCallsTest, AHandOverGoesToThePhaseOfItsCallAndOneOfAnUnknownCallToNobody) {
  Start(7, 3, pb::CallStart::kDecode);
  pb::RouterMessage message;
  for (const uint64_t call : {7, 8}) {
    pb::HandOver* hand_over = message.add_hand_overs();
    hand_over->set_call(call);
    hand_over->set_next_attempt(4);
    hand_over->set_secret(rpc::ToBytes({.high = 8, .low = 9}));
  }
  message.add_hand_overs()->set_call(7);
  calls_.OnMessage(message);
  ASSERT_EQ(decode_.hand_overs.size(), 1u);
  EXPECT_EQ(decode_.hand_overs[0].first, KeyOf(3));
  EXPECT_EQ(decode_.hand_overs[0].second.next, KeyOf(4));
  EXPECT_EQ(decode_.hand_overs[0].second.secret, (Id128{.high = 8, .low = 9}));
  EXPECT_THAT(prefill_.hand_overs, IsEmpty());
}

constexpr MembershipId kMembership = {.high = 11, .low = 12};

TEST_F(RouterCallsTest, APrefillDemandsTheCapabilityOfTheReaderThatTheRouterNames) {
  pb::RouterMessage message;
  message.mutable_accepted()->set_membership(rpc::ToBytes(kMembership));
  *message.add_starts() = MakeStart(1, 1, pb::CallStart::kPrefill);
  *message.add_starts() = MakeStart(2, 2, pb::CallStart::kPrefill);
  message.mutable_starts(1)->mutable_prefill()->set_reader_incarnation(rpc::ToBytes({.high = 8, .low = 9}));
  calls_.OnMessage(message);
  ASSERT_EQ(prefill_.started.size(), 2u);
  EXPECT_FALSE(prefill_.started[0].reader.has_value());
  ASSERT_TRUE(prefill_.started[1].reader.has_value());
  EXPECT_EQ(prefill_.started[1].reader->incarnation, (Incarnation{.high = 8, .low = 9}));
  EXPECT_EQ(prefill_.started[1].reader->membership, rpc::MembershipTag(kMembership));
  // The next membership has another tag.
  calls_.OnLost(absl::UnavailableError("gone"));
  message.mutable_accepted()->set_membership(rpc::ToBytes({.high = 11, .low = 13}));
  message.mutable_starts()->DeleteSubrange(0, 1);
  calls_.OnMessage(message);
  ASSERT_EQ(prefill_.started.size(), 3u);
  EXPECT_EQ(prefill_.started[2].reader->membership, rpc::MembershipTag({.high = 11, .low = 13}));
}

TEST_F(RouterCallsTest, AMalformedReaderEndsTheCall) {
  pb::RouterMessage message;
  *message.add_starts() = MakeStart(1, 1, pb::CallStart::kPrefill);
  message.mutable_starts(0)->mutable_prefill()->set_reader_incarnation("short");
  calls_.OnMessage(message);
  EXPECT_TRUE(absl::IsInvalidArgument(OnlyEnd()));
  EXPECT_THAT(prefill_.started, IsEmpty());
}

TEST_F(RouterCallsTest, AHandOverDemandsACapabilityOfAnyReaderWhereTheRouterSaysSo) {
  pb::RouterMessage message;
  message.mutable_accepted()->set_membership(rpc::ToBytes(kMembership));
  *message.add_starts() = MakeStart(7, 3, pb::CallStart::kDecode);
  for (const bool needs : {false, true}) {
    pb::HandOver* hand_over = message.add_hand_overs();
    hand_over->set_call(7);
    hand_over->set_next_attempt(4);
    hand_over->set_secret(rpc::ToBytes({.high = 8, .low = 9}));
    hand_over->set_needs_capability(needs);
  }
  calls_.OnMessage(message);
  ASSERT_EQ(decode_.hand_overs.size(), 2u);
  EXPECT_FALSE(decode_.hand_overs[0].second.reader.has_value());
  ASSERT_TRUE(decode_.hand_overs[1].second.reader.has_value());
  EXPECT_TRUE(decode_.hand_overs[1].second.reader->incarnation.is_zero());
  EXPECT_EQ(decode_.hand_overs[1].second.reader->membership, rpc::MembershipTag(kMembership));
}

TEST_F(RouterCallsTest, ADecodeShowsItsCapabilityWithTheLastKey) {
  const auto shown = [this](size_t call) {
    pb::Capability capability;
    EXPECT_TRUE(capability.ParseFromString(decode_.started.at(call).capability));
    return capability;
  };
  pb::RouterMessage message;
  message.mutable_capability_key()->set_public_key("first key");
  *message.add_starts() = MakeStart(1, 1, pb::CallStart::kDecode);
  *message.add_starts() = MakeStart(2, 2, pb::CallStart::kDecode);
  message.mutable_starts(1)->mutable_decode()->mutable_capability()->set_terms("terms 2");
  calls_.OnMessage(message);
  message.Clear();
  *message.add_starts() = MakeStart(3, 3, pb::CallStart::kDecode);
  message.mutable_starts(0)->mutable_decode()->mutable_capability()->set_terms("terms 3");
  calls_.OnMessage(message);
  message.mutable_capability_key()->set_public_key("second key");
  *message.mutable_starts(0)->mutable_job() = MakeStart(4, 4, pb::CallStart::kDecode).job();
  message.mutable_starts(0)->set_call(4);
  calls_.OnMessage(message);
  ASSERT_EQ(decode_.started.size(), 4u);
  EXPECT_EQ(decode_.started[0].capability, "");
  EXPECT_EQ(shown(1).terms().terms(), "terms 2");
  EXPECT_EQ(shown(1).key().public_key(), "first key");
  EXPECT_EQ(shown(2).terms().terms(), "terms 3");
  EXPECT_EQ(shown(2).key().public_key(), "first key");
  EXPECT_EQ(shown(3).key().public_key(), "second key");
}

// The key belongs to the membership's stream.
TEST_F(RouterCallsTest, ACapabilityWithoutAKeyEndsTheCall) {
  pb::RouterMessage message;
  message.mutable_capability_key()->set_public_key("key");
  calls_.OnMessage(message);
  calls_.OnLost(absl::UnavailableError("gone"));
  calls_.OnJoined(stream_, rpc::kFeatureResume);
  message.Clear();
  *message.add_starts() = MakeStart(1, 1, pb::CallStart::kDecode);
  message.mutable_starts(0)->mutable_decode()->mutable_capability()->set_terms("terms");
  calls_.OnMessage(message);
  EXPECT_TRUE(absl::IsInvalidArgument(OnlyEnd()));
}

TEST_F(RouterCallsTest, AFrozenCallStaysOpenUntilItsEnd) {
  Start(7, 3, pb::CallStart::kDecode);
  const OutputToken last = {.index = 4, .token = 70, .logprob = -0.5f, .top = {{70, -0.5f}}};
  decode_.sink->Update(KeyOf(3), {.kind = WorkerUpdate::Kind::kFrozen, .token = last, .kv_digest = "digest"});
  calls_.Flush();
  ASSERT_EQ(stream_->messages.size(), 1u);
  ASSERT_EQ(stream_->messages[0].frozen_size(), 1);
  EXPECT_EQ(stream_->messages[0].frozen(0).call(), 7u);
  const absl::StatusOr<WorkerUpdate> read = rpc::FromProto(stream_->messages[0].frozen(0));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->token, last);
  EXPECT_EQ(read->kv_digest, "digest");
  EXPECT_EQ(calls_.open_calls(), 1u);
}

TEST_F(RouterCallsTest, WhatIsSaidInARoundIsOneMessageThatNamesCallsByNumber) {
  Start(7, 1, pb::CallStart::kDecode);
  Start(9, 2, pb::CallStart::kDecode);
  calls_.Flush();
  EXPECT_THAT(stream_->messages, IsEmpty()) << "nothing was said";
  Token(decode_, 1, 70);
  Token(decode_, 2, 90);
  decode_.sink->End(KeyOf(2), absl::OkStatus());
  calls_.Flush();
  ASSERT_EQ(stream_->messages.size(), 1u);
  const pb::WorkerMessage& message = stream_->messages[0];
  ASSERT_EQ(message.tokens_size(), 2);
  EXPECT_EQ(message.tokens(0).call(), 7u);
  EXPECT_EQ(message.tokens(0).id(), 70);
  EXPECT_EQ(message.tokens(1).call(), 9u);
  ASSERT_EQ(message.ended_size(), 1);
  EXPECT_EQ(message.ended(0).call(), 9u);
  EXPECT_EQ(calls_.open_calls(), 1u);
  Token(decode_, 1, 71);
  calls_.Flush();
  ASSERT_EQ(stream_->messages.size(), 2u);
  EXPECT_EQ(stream_->messages[1].tokens_size(), 1) << "each is said once";
}

TEST_F(RouterCallsTest, TheSameAttemptMayHaveACallOfEachSide) {
  Start(1, 1, pb::CallStart::kPrefill);
  Start(2, 1, pb::CallStart::kDecode);
  Token(decode_, 1, 5);
  prefill_.sink->End(KeyOf(1), absl::OkStatus());
  calls_.Flush();
  EXPECT_EQ(stream_->messages.at(0).tokens(0).call(), 2u);
  EXPECT_EQ(stream_->messages.at(0).ended(0).call(), 1u);
}

TEST_F(RouterCallsTest, ASecondCallOfAnAttemptIsRefusedAndTheFirstGoesOn) {
  Start(1, 1, pb::CallStart::kDecode);
  Start(2, 1, pb::CallStart::kDecode);
  EXPECT_TRUE(absl::IsAlreadyExists(OnlyEnd()));
  EXPECT_EQ(stream_->messages[0].ended(0).call(), 2u);
  EXPECT_EQ(decode_.started.size(), 1u);
  Token(decode_, 1, 5);
  calls_.Flush();
  EXPECT_EQ(stream_->messages.at(1).tokens(0).call(), 1u);
}

TEST_F(RouterCallsTest, AStartWithTheNumberOfAnOpenCallIsRefusedAndThatCallGoesOn) {
  Start(1, 1, pb::CallStart::kDecode);
  Start(1, 2, pb::CallStart::kDecode);
  EXPECT_TRUE(absl::IsAlreadyExists(OnlyEnd()));
  EXPECT_EQ(decode_.started.size(), 1u);
  EXPECT_EQ(calls_.open_calls(), 1u);
  Token(decode_, 1, 5);
  calls_.Flush();
  EXPECT_EQ(stream_->messages.at(1).tokens(0).call(), 1u);
}

TEST_F(RouterCallsTest, AStartThatCannotBeReadEndsItsCallAlone) {
  pb::RouterMessage message;
  *message.add_starts() = MakeStart(1, 1, pb::CallStart::kDecode);
  message.mutable_starts(0)->mutable_job()->set_secret("short");
  *message.add_starts() = MakeStart(2, 2, pb::CallStart::kDecode);
  calls_.OnMessage(message);
  EXPECT_TRUE(absl::IsInvalidArgument(OnlyEnd()));
  EXPECT_EQ(decode_.started.size(), 1u);
}

TEST_F(RouterCallsTest, AStartWithoutASideThatAPhaseTakesIsRefused) {
  Start(1, 1, pb::CallStart::SIDE_NOT_SET);
  EXPECT_TRUE(absl::IsInvalidArgument(OnlyEnd()));
  EXPECT_EQ(calls_.open_calls(), 0u);
}

TEST_F(RouterCallsTest, WhatAPhaseRefusesEndsItsCall) {
  decode_.refusal = absl::InvalidArgumentError("no incarnation");
  Start(1, 1, pb::CallStart::kDecode);
  EXPECT_EQ(OnlyEnd(), decode_.refusal);
  EXPECT_EQ(calls_.open_calls(), 0u);
}

TEST_F(RouterCallsTest, ACancelReachesThePhaseAndOneOfAnEndedCallNobody) {
  Start(1, 1, pb::CallStart::kDecode);
  Start(2, 2, pb::CallStart::kPrefill);
  pb::RouterMessage message;
  message.add_cancels(2);
  message.add_cancels(2);
  message.add_cancels(77);
  calls_.OnMessage(message);
  EXPECT_THAT(decode_.cancelled, IsEmpty());
  EXPECT_THAT(prefill_.cancelled, ElementsAre(2));
  EXPECT_TRUE(absl::IsCancelled(OnlyEnd()));
}

TEST_F(RouterCallsTest, TheEndOfTheMembershipCancelsAllCallsAndNothingMoreIsSaidOfThem) {
  Start(1, 1, pb::CallStart::kDecode);
  Start(2, 2, pb::CallStart::kDecode);
  Token(decode_, 1, 5);
  calls_.OnLost(absl::UnavailableError("gone"));
  EXPECT_THAT(decode_.cancelled, UnorderedElementsAre(1, 2));
  EXPECT_EQ(calls_.open_calls(), 0u);
  // A late word of the old membership does not reach the new one.
  const auto next = std::make_shared<FakeStream>();
  calls_.OnJoined(next, rpc::kProtocolFeatures);
  Token(decode_, 1, 6);
  calls_.Flush();
  EXPECT_THAT(next->messages, IsEmpty());
  EXPECT_THAT(stream_->messages, IsEmpty());
  Start(1, 3, pb::CallStart::kDecode);
  Token(decode_, 3, 8);
  calls_.Flush();
  ASSERT_EQ(next->messages.size(), 1u);
  EXPECT_EQ(next->messages[0].tokens(0).call(), 1u);
}

TEST_F(RouterCallsTest, BlocksAreReportedOnJoiningAndFromTimeToTimeToARouterThatTakesIt) {
  EXPECT_FALSE(calls_.BlocksAreDue(false)) << "this router does not";
  calls_.OnLost(absl::UnavailableError("gone"));
  calls_.OnJoined(stream_, rpc::kProtocolFeatures);
  EXPECT_TRUE(calls_.BlocksAreDue(false));
  calls_.SayBlocks({.free_blocks = 3, .cached_blocks = 4, .holders = {{.key = KeyOf(1), .blocks = 2}}});
  calls_.Flush();
  ASSERT_EQ(stream_->messages.size(), 1u);
  EXPECT_EQ(rpc::FromProto(stream_->messages[0].blocks())->holders.at(0).key, KeyOf(1));
  EXPECT_FALSE(calls_.BlocksAreDue(false));
  clock_.AdvanceMs(kBlockReportMs - 1);
  EXPECT_FALSE(calls_.BlocksAreDue(false));
  clock_.AdvanceMs(1);
  EXPECT_TRUE(calls_.BlocksAreDue(false));
  calls_.OnLost(absl::UnavailableError("gone"));
  EXPECT_FALSE(calls_.BlocksAreDue(false));
}

TEST_F(RouterCallsTest, ARouterThatKnowsOfHoldersIsToldAtOnceWhenThereAreNoneAnyMore) {
  calls_.OnLost(absl::UnavailableError("gone"));
  calls_.OnJoined(stream_, rpc::kProtocolFeatures);
  calls_.SayBlocks({.free_blocks = 3, .holders = {{.key = KeyOf(1), .blocks = 2}}});
  EXPECT_FALSE(calls_.BlocksAreDue(false));
  EXPECT_TRUE(calls_.BlocksAreDue(true));
  calls_.SayBlocks({.free_blocks = 5, .holders = {}});
  EXPECT_FALSE(calls_.BlocksAreDue(true)) << "it knows";
  clock_.AdvanceMs(kBlockReportMs);
  calls_.SayBlocks({.free_blocks = 3, .holders = {{.key = KeyOf(1), .blocks = 2}}});
  calls_.Flush();
  stream_->messages.clear();
  calls_.SayBlocks({.free_blocks = 5, .holders = {{.key = KeyOf(1), .blocks = 0}}});
  calls_.Flush();
  EXPECT_THAT(stream_->messages, IsEmpty()) << "something is there after all";
  EXPECT_FALSE(calls_.BlocksAreDue(true)) << "one extra report between two others";
  clock_.AdvanceMs(kBlockReportMs);
  EXPECT_TRUE(calls_.BlocksAreDue(true));
  calls_.SayBlocks({.free_blocks = 3, .other_routers_blocks = 2, .holders = {}});
  EXPECT_TRUE(calls_.BlocksAreDue(true)) << "those of other routers count as well";
  calls_.OnLost(absl::UnavailableError("gone"));
  EXPECT_FALSE(calls_.BlocksAreDue(true));
}

// A stream merges what it cannot write yet into one message.
class MergingStream final : public RouterStream {
 public:
  void Send(size_t, absl::FunctionRef<void(pb::WorkerMessage&)> fill) override { fill(message); }
  pb::WorkerMessage message;
};

TEST_F(RouterCallsTest, AReportOfBlocksReplacesOneThatIsNotWrittenYet) {
  const auto slow = std::make_shared<MergingStream>();
  calls_.OnJoined(slow, rpc::kProtocolFeatures);
  calls_.SayBlocks({.free_blocks = 1, .cached_blocks = 0, .holders = {{.key = KeyOf(1)}, {.key = KeyOf(2)}}});
  calls_.Flush();
  clock_.AdvanceMs(kBlockReportMs);
  calls_.SayBlocks({.free_blocks = 0, .cached_blocks = 0, .holders = {{.key = KeyOf(3)}}});
  calls_.Flush();
  const BlockReport report = rpc::FromProto(slow->message.blocks()).value();
  EXPECT_EQ(report.free_blocks, 0);
  ASSERT_EQ(report.holders.size(), 1u);
  EXPECT_EQ(report.holders[0].key, KeyOf(3));
  clock_.AdvanceMs(kBlockReportMs);
  calls_.SayBlocks({.free_blocks = 5, .cached_blocks = 0, .holders = {{.key = KeyOf(4)}}});
  calls_.SayBlocks({.free_blocks = 6, .cached_blocks = 0, .holders = {}});
  calls_.Flush();
  EXPECT_EQ(slow->message.blocks().free_blocks(), 6);
  EXPECT_EQ(slow->message.blocks().holders_size(), 0);
  Start(1, 1, pb::CallStart::kDecode);
  Token(decode_, 1, 5);
  calls_.Flush();
  EXPECT_EQ(slow->message.blocks().free_blocks(), 6) << "other words leave it alone";
}

TEST_F(RouterCallsTest, TheEndOfADrainEndsEveryOpenCallWithAReasonAndSaysWhoseTheyWere) {
  Start(1, 1, pb::CallStart::kPrefill);
  Start(2, 1, pb::CallStart::kDecode);
  Token(decode_, 1, 5);
  EXPECT_THAT(calls_.CutAll(200), ElementsAre(KeyOf(1).choice_key())) << "both calls are of one request";
  EXPECT_EQ(calls_.open_calls(), 0u);
  EXPECT_THAT(prefill_.cancelled, ElementsAre(1));
  EXPECT_THAT(decode_.cancelled, ElementsAre(1));
  ASSERT_EQ(stream_->messages.size(), 1u) << "it is said at once";
  EXPECT_EQ(stream_->messages[0].tokens_size(), 1) << "what was said before is not lost";
  ASSERT_EQ(stream_->messages[0].ended_size(), 2);
  for (const pb::CallEnded& ended : stream_->messages[0].ended()) {
    absl::Status end;
    ASSERT_TRUE(rpc::FromProto(ended, end).ok());
    EXPECT_EQ(end, CutByDrain(KeyOf(1).choice_key(), 200));
  }
  calls_.Flush();
  EXPECT_EQ(stream_->messages.size(), 1u) << "each call ends once";
}

TEST_F(RouterCallsTest, AStartAfterTheEndOfADrainIsRefusedSoThatAnotherWorkerGetsIt) {
  EXPECT_THAT(calls_.CutAll(200), IsEmpty());
  EXPECT_THAT(stream_->messages, IsEmpty());
  Start(1, 1, pb::CallStart::kDecode);
  EXPECT_TRUE(absl::IsResourceExhausted(OnlyEnd()));
  EXPECT_THAT(decode_.started, IsEmpty());
}

TEST_F(RouterCallsTest, TheRoutersConsentToADrainIsKept) {
  EXPECT_FALSE(calls_.drain_accepted());
  pb::RouterMessage message;
  message.set_drain_accepted(true);
  calls_.OnMessage(message);
  EXPECT_TRUE(calls_.drain_accepted());
}

TEST_F(RouterCallsTest, WhoseStartIsUnderWayIsNoted) {
  std::vector<JobKey> noted;
  prefill_.on_start = [&] { noted = work_.Read(); };
  Start(1, 1, pb::CallStart::kPrefill);
  EXPECT_THAT(noted, ElementsAre(KeyOf(1)));
  EXPECT_THAT(work_.Read(), IsEmpty());
}

}  // namespace
}  // namespace baton::worker
