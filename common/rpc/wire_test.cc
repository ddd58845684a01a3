#include "common/rpc/wire.h"

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

namespace pb = internal::v1;

OutputToken LastToken() {
  return {.index = 7,
          .token = 42,
          .finish = FinishReason::kStop,
          .logprob = -0.25f,
          .top = {{.token = 42, .logprob = -0.25f}, {.token = 9, .logprob = -1.5f}}};
}

TEST(Wire, ATokenKeepsItsFinishAndItsLogProbabilities) {
  pb::Token proto;
  ToProto(LastToken(), &proto);
  const absl::StatusOr<OutputToken> token = FromProto(proto);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(*token, LastToken());
}

TEST(Wire, AnUnknownFinishIsRefused) {
  for (const int finish : {-1, 3, 1000}) {
    pb::Token proto;
    ToProto(LastToken(), &proto);
    proto.set_finish(static_cast<pb::Finish>(finish));
    EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto).status())) << finish;
  }
}

TEST(Wire, LogProbabilitiesThatDoNotMatchTheirTokensAreRefused) {
  pb::Token proto;
  ToProto(LastToken(), &proto);
  proto.add_top_ids(3);
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto).status()));
  proto.clear_top_ids();
  proto.clear_top_logprobs();
  for (int i = 0; i <= kMaxLogprobs; ++i) {
    proto.add_top_ids(i);
    proto.add_top_logprobs(0);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto).status()));
}

TEST(Wire, ADamagedTokenMakesItsUpdateDamaged) {
  pb::WorkerUpdate proto;
  ToProto(WorkerUpdate{.kind = WorkerUpdate::Kind::kToken, .token = LastToken()}, &proto);
  EXPECT_EQ(FromProto(proto).value().token, LastToken());
  proto.mutable_token()->add_top_ids(3);
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(pb::WorkerUpdate()).status())) << "without content";
}

TEST(Wire, AJobKeyNamesJobAttemptAndChoice) {
  const JobKey key = {.job = {.high = 5, .low = 6}, .attempt = 3, .choice = 2};
  pb::JobKey proto;
  ToProto(key, &proto);
  EXPECT_EQ(FromProto(proto).value(), key);
  EXPECT_EQ(key.ToString(), absl::StrCat(key.job.ToHex(), ":2/3"));
  EXPECT_EQ((JobKey{.job = key.job, .attempt = 3}).ToString(), absl::StrCat(key.job.ToHex(), "/3"));
  proto.set_job("no id");
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto).status()));
}

}  // namespace
}  // namespace baton::rpc
