#include "decode_worker/decode_phase.h"

#include "common/rpc/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::decode_worker {
namespace {

using ::testing::ElementsAre;

internal::v1::DecodeStart Moved() {
  internal::v1::DecodeStart start;
  start.set_prefill_target("d:1");
  start.set_prefill_incarnation(rpc::ToBytes(Incarnation{3, 3}));
  rpc::ToProto(KvOrigin{.incarnation = {1, 1}, .target = "p:1"}, start.add_earlier());
  rpc::ToProto(KvOrigin{.incarnation = {2, 2}, .target = "d:2"}, start.add_earlier());
  return start;
}

TEST(DecodePhaseTest, TheSourceHasTheWorkersThatTheKvCameThroughBeforeInTheirOrder) {
  const absl::StatusOr<DecodeSource> source = SourceOf(Moved());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_FALSE(source->local);
  EXPECT_EQ(source->prefill_target, "d:1");
  EXPECT_EQ(source->prefill_incarnation, (Incarnation{3, 3}));
  EXPECT_THAT(source->earlier, ElementsAre(KvOrigin{.incarnation = {1, 1}, .target = "p:1"},
                                           KvOrigin{.incarnation = {2, 2}, .target = "d:2"}));
}

TEST(DecodePhaseTest, AnIncarnationOfAnotherLengthIsRefusedWhereverItStands) {
  internal::v1::DecodeStart source = Moved();
  source.set_prefill_incarnation("short");
  EXPECT_EQ(SourceOf(source).status().code(), absl::StatusCode::kInvalidArgument);
  internal::v1::DecodeStart earlier = Moved();
  earlier.mutable_earlier(1)->set_incarnation("short");
  EXPECT_EQ(SourceOf(earlier).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(DecodePhaseTest, APromptThatThisWorkerComputesHasNoSource) {
  internal::v1::DecodeStart start;
  start.set_local_prefill(true);
  const absl::StatusOr<DecodeSource> source = SourceOf(start);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(source->local);
}

}  // namespace
}  // namespace baton::decode_worker
