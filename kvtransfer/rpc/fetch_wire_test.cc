#include "kvtransfer/rpc/fetch_wire.h"

#include <string>

#include "common/limits.h"
#include "common/rpc/wire.h"
#include "gtest/gtest.h"

namespace baton::kvtransfer {
namespace {

namespace pb = internal::v1;

constexpr JobKey kKey{.job = {.high = 1, .low = 2}, .attempt = 3, .choice = 4};

FetchOpen Open() {
  return {.key = kKey,
          .secret = {.high = 5, .low = 6},
          .source = {.high = 7, .low = 8},
          .fingerprint = "weights-1",
          .first_block = 9,
          .lease_ms = 10,
          .reader = {.host = "boot/ipc", .pid_namespace = "pid:[1]", .pid = 11},
          .capability = std::string("\0\xff", 2),
          .takes_begun = true};
}

template <typename Message, typename Wire>
Message RoundTrip(const Message& message) {
  // Through bytes, as between processes.
  Wire received;
  EXPECT_TRUE(received.ParseFromString(ToProto(message).SerializeAsString()));
  const auto back = FromProto(received);
  EXPECT_TRUE(back.ok()) << back.status();
  return back.value_or(Message{});
}

FetchRequest Sent(const FetchRequest& request) { return RoundTrip<FetchRequest, pb::FetchRequest>(request); }
FetchReply Sent(const FetchReply& reply) { return RoundTrip<FetchReply, pb::FetchResponse>(reply); }

absl::StatusCode CodeOf(const pb::FetchRequest& proto) { return FromProto(proto).status().code(); }

TEST(FetchWireTest, OpenArrivesAsItWasSent) {
  const auto open = std::get<FetchOpen>(Sent(FetchRequest(Open())));
  EXPECT_EQ(open.key, kKey);
  EXPECT_EQ(open.secret, (Id128{.high = 5, .low = 6}));
  EXPECT_EQ(open.source, (Id128{.high = 7, .low = 8}));
  EXPECT_EQ(open.fingerprint, "weights-1");
  EXPECT_EQ(open.first_block, 9);
  EXPECT_EQ(open.lease_ms, 10);
  EXPECT_EQ(open.reader.host, "boot/ipc");
  EXPECT_EQ(open.reader.pid_namespace, "pid:[1]");
  EXPECT_EQ(open.reader.pid, 11);
  EXPECT_EQ(open.capability, std::string("\0\xff", 2));
  EXPECT_TRUE(open.takes_begun);
  EXPECT_FALSE(open.terms.ok()) << "nobody has verified it";
}

TEST(FetchWireTest, ACapabilityIsBounded) {
  FetchOpen open = Open();
  open.capability = std::string(kMaxCapabilityBytes, 'x');
  EXPECT_EQ(CodeOf(ToProto(FetchRequest(open))), absl::StatusCode::kOk);
  open.capability += 'x';
  EXPECT_EQ(CodeOf(ToProto(FetchRequest(open))), absl::StatusCode::kInvalidArgument);
}

TEST(FetchWireTest, RenewAndReleaseArriveAsTheyWereSent) {
  EXPECT_EQ(std::get<FetchRenew>(Sent(FetchRequest(FetchRenew{.sequence = 12}))).sequence, 12u);
  EXPECT_TRUE(std::holds_alternative<FetchRelease>(Sent(FetchRequest(FetchRelease{}))));
}

TEST(FetchWireTest, RepliesArriveAsTheyWereSent) {
  const std::string address("\0\xff address", 10);
  const auto accepted = std::get<FetchAccepted>(Sent(FetchReply(FetchAccepted{address, 4096})));
  EXPECT_EQ(accepted.transport_address, address);
  EXPECT_EQ(accepted.block_bytes, 4096u);
  const BlocksReady ready{{{.index = 1, .offset = 2, .digest = {.high = 3, .low = 4}}, {.index = 5, .offset = 6}}};
  const auto blocks = std::get<BlocksReady>(Sent(FetchReply(ready))).blocks;
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].index, 1);
  EXPECT_EQ(blocks[0].offset, 2u);
  EXPECT_EQ(blocks[0].digest.high, 3u);
  EXPECT_EQ(blocks[0].digest.low, 4u);
  EXPECT_EQ(blocks[1].index, 5);
  EXPECT_EQ(blocks[1].offset, 6u);
  EXPECT_TRUE(std::get<BlocksReady>(Sent(FetchReply(BlocksReady{}))).blocks.empty());
  const BlocksBegun begun{{{.index = 1, .offset = 2, .bytes = 3}, {.index = 5, .offset = 6, .bytes = 7}}};
  const auto beginnings = std::get<BlocksBegun>(Sent(FetchReply(begun))).blocks;
  ASSERT_EQ(beginnings.size(), 2u);
  EXPECT_EQ(beginnings[0].index, 1);
  EXPECT_EQ(beginnings[0].offset, 2u);
  EXPECT_EQ(beginnings[0].bytes, 3u);
  EXPECT_EQ(beginnings[1].bytes, 7u);
  EXPECT_EQ(std::get<FetchRenewed>(Sent(FetchReply(FetchRenewed{7}))).sequence, 7u);
  const FetchComplete complete{.block_count = 8, .first = {.token = 9, .finish = FinishReason::kStop}};
  const auto back = std::get<FetchComplete>(Sent(FetchReply(complete)));
  EXPECT_EQ(back.block_count, 8);
  EXPECT_EQ(back.first.token, 9);
  EXPECT_EQ(back.first.finish, FinishReason::kStop);
}

TEST(FetchWireTest, MessagesWithoutContentAreRefused) {
  EXPECT_EQ(CodeOf(pb::FetchRequest()), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FromProto(pb::FetchResponse()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FetchWireTest, OpenWithIdsOfAnotherLengthIsRefused) {
  const pb::FetchRequest good = ToProto(FetchRequest(Open()));
  EXPECT_EQ(CodeOf(good), absl::StatusCode::kOk);
  for (const std::string& secret : {std::string(), std::string(15, 'x'), std::string(17, 'x')}) {
    pb::FetchRequest bad = good;
    bad.mutable_open()->set_secret(secret);
    EXPECT_EQ(CodeOf(bad), absl::StatusCode::kInvalidArgument) << secret.size();
  }
  pb::FetchRequest bad = good;
  bad.mutable_open()->set_source_incarnation("not hex");
  EXPECT_EQ(CodeOf(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.mutable_open()->clear_key();
  EXPECT_EQ(CodeOf(bad), absl::StatusCode::kInvalidArgument);
}

TEST(FetchWireTest, NamesOfAReaderAreBounded) {
  FetchOpen open = Open();
  open.reader.host = std::string(256, 'x');
  open.reader.pid_namespace = std::string(256, 'x');
  EXPECT_EQ(CodeOf(ToProto(FetchRequest(open))), absl::StatusCode::kOk);
  FetchOpen long_host = open;
  long_host.reader.host += 'x';
  EXPECT_EQ(CodeOf(ToProto(FetchRequest(long_host))), absl::StatusCode::kInvalidArgument);
  FetchOpen long_namespace = open;
  long_namespace.reader.pid_namespace += 'x';
  EXPECT_EQ(CodeOf(ToProto(FetchRequest(long_namespace))), absl::StatusCode::kInvalidArgument);
}

TEST(FetchWireTest, CompleteWithAnUnknownFinishIsRefused) {
  pb::FetchResponse proto = ToProto(FetchReply(FetchComplete{.block_count = 1}));
  proto.mutable_complete()->mutable_first()->set_finish(static_cast<pb::Finish>(99));
  EXPECT_EQ(FromProto(proto).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::kvtransfer
