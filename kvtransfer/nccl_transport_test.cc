#include "kvtransfer/transports/nccl/nccl_transport.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "baton/internal/v1/kv_pair.grpc.pb.h"
#include "common/rpc/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/nccl_stand_in.h"
#include "kvtransfer/testing/transport_conformance.h"
#include "kvtransfer/transport_address.h"
#include "kvtransfer/transports/nccl/pair_wire.h"

namespace baton::kvtransfer {
namespace {

namespace pb = internal::v1;
using ::testing::HasSubstr;

constexpr int64_t kLongStallMs = 10'000;

absl::StatusOr<std::unique_ptr<Transport>> MakeNccl(int64_t stall_timeout_ms) {
  return MakeTransport(
      {.kind = TransportKind::kNccl, .stall_timeout_ms = stall_timeout_ms, .nccl_library = BATON_NCCL_STAND_IN});
}

INSTANTIATE_TEST_SUITE_P(Backends, TransportConformance,
                         testing::Values(TransportFactory{"NcclStandIn", [] { return MakeNccl(kLongStallMs); },
                                                          "nccl"}),
                         FactoryName);

class NcclTransportTest : public ::testing::Test {
 protected:
  static constexpr Id128 kFetch{.high = 3, .low = 4};
  static constexpr size_t kBytes = 16u << 20;

  static TransportEnd MakeNcclEnd(int64_t stall_timeout_ms = kLongStallMs) {
    TransportEnd end;
    end.transport = *MakeNccl(stall_timeout_ms);
    end.region = *end.transport->AllocateRegion(kBytes);
    end.transport->grants().Grant(kFetch, {{.offset = 0, .bytes = kBytes}});
    return end;
  }
  static absl::Status Await(TransportEnd& reader, ReadId read) {
    while (reader.Find(read) == nullptr) {
      reader.transport->WaitForEvent(kNsPerSecond);
      reader.Poll();
    }
    return reader.Find(read)->status;
  }
  static absl::Status ReadAll(TransportEnd& reader, PeerId peer) {
    const CopyRange all = {.bytes = kBytes};
    const auto read = reader.transport->StartRead(peer, kFetch, {all});
    return read.ok() ? Await(reader, *read) : read.status();
  }
  // A new peer, as the hand-off takes one after a failure.
  static absl::Status ConnectAndReadAll(TransportEnd& reader, const TransportEnd& owner) {
    return ReadAll(reader, *reader.transport->Connect(*owner.transport->Address()));
  }
};

TEST_F(NcclTransportTest, AsynchronousErrorLosesThePeerAndANewPairIsFormed) {
  TransportEnd owner = MakeNcclEnd();
  TransportEnd reader = MakeNcclEnd();
  std::fill(owner.region.begin(), owner.region.end(), 0x5a);
  const ServingThread serving(owner);
  const PeerId peer = *reader.transport->Connect(*owner.transport->Address());
  {
    const StandInFault fault("network-error:5000000");
    const absl::Status status = ReadAll(reader, peer);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("NCCL, as the reader: remote error"));
    const absl::Status lost = ReadAll(reader, peer);
    EXPECT_THAT(std::string(lost.message()), HasSubstr("the peer is lost"));
  }
  // Nothing writes the destination of the read that failed.
  std::fill(reader.region.begin(), reader.region.end(), 0xee);
  reader.transport->Disconnect(peer);
  EXPECT_EQ(reader.region[kBytes - 1], 0xee);
  EXPECT_EQ(ConnectAndReadAll(reader, owner), absl::OkStatus());
  EXPECT_TRUE(std::equal(owner.region.begin(), owner.region.end(), reader.region.begin()));
}

TEST_F(NcclTransportTest, PeerThatFallsSilentIsGivenUpByTheStallTimeout) {
  TransportEnd owner = MakeNcclEnd();
  TransportEnd reader = MakeNcclEnd(/*stall_timeout_ms=*/50);
  const ServingThread serving(owner);
  const PeerId peer = *reader.transport->Connect(*owner.transport->Address());
  const StandInFault fault("silent-peer:5000000");
  const absl::Status status = ReadAll(reader, peer);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing came for 50 ms"));
}

TEST_F(NcclTransportTest, OwnerTakesItsBytesBackFromAReaderThatFellSilent) {
  TransportEnd owner = MakeNcclEnd(/*stall_timeout_ms=*/50);
  TransportEnd reader = MakeNcclEnd();
  const ServingThread serving(owner);
  const PeerId peer = *reader.transport->Connect(*owner.transport->Address());
  const StandInFault fault("silent-peer:5000000");
  const CopyRange all = {.bytes = kBytes};
  const auto read = reader.transport->StartRead(peer, kFetch, {all});
  ASSERT_TRUE(read.ok()) << read.status();
  const absl::Status status = Await(reader, *read);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the reader was silent for 50 ms"));
  while (!owner.transport->grants().Withdraw(kFetch)) std::this_thread::yield();
}

TEST_F(NcclTransportTest, CommunicatorThatIsNeverFormedIsGivenUp) {
  TransportEnd owner = MakeNcclEnd();
  TransportEnd reader = MakeNcclEnd(/*stall_timeout_ms=*/50);
  const ServingThread serving(owner);
  {
    const StandInFault fault("init-hangs");
    const absl::Status status = ConnectAndReadAll(reader, owner);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
  EXPECT_EQ(ConnectAndReadAll(reader, owner), absl::OkStatus());
}

TEST_F(NcclTransportTest, CommunicatorThatCannotBeFormedFailsTheRead) {
  TransportEnd owner = MakeNcclEnd();
  TransportEnd reader = MakeNcclEnd();
  const ServingThread serving(owner);
  {
    const StandInFault fault("init-fails");
    const absl::Status status = ConnectAndReadAll(reader, owner);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("unhandled system error"));
  }
  EXPECT_EQ(ConnectAndReadAll(reader, owner), absl::OkStatus());
}

TEST_F(NcclTransportTest, EachFailureDoublesTheWaitForTheNextPair) {
  TransportEnd owner = MakeNcclEnd();
  TransportEnd reader = MakeNcclEnd();
  const ServingThread serving(owner);
  const StandInFault fault("init-fails");
  const TimeNs begin = MonotonicClock().Now();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(absl::IsUnavailable(ConnectAndReadAll(reader, owner)));
  EXPECT_GE(MonotonicClock().Now() - begin, (50 + 100 + 200) * kNsPerMs);
}

TEST_F(NcclTransportTest, FlippedBitArrives) {
  TransportEnd owner = MakeNcclEnd();
  TransportEnd reader = MakeNcclEnd();
  const ServingThread serving(owner);
  const StandInFault fault("bit-flip:16000000");
  EXPECT_EQ(ConnectAndReadAll(reader, owner), absl::OkStatus());
  EXPECT_EQ(std::count(reader.region.begin(), reader.region.end(), 1), 1) << "the hand-off's digests find it";
}

TEST_F(NcclTransportTest, WorkerOfAnotherTransportIsRefusedWithWhatToDo) {
  const TransportEnd reader = MakeNcclEnd();
  const auto other = *MakeTransport({.kind = TransportKind::kInproc});
  ASSERT_TRUE(other->AllocateRegion(kBytes).ok());
  const absl::Status refused = reader.transport->Connect(*other->Address()).status();
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--transport"));
}

// A reader that speaks the protocol of pairs by itself.
class PairProtocolTest : public NcclTransportTest {
 protected:
  using Call = grpc::ClientReaderWriter<pb::KvPairRequest, pb::KvPairReply>;

  PairProtocolTest() {
    address_ = *DecodeAddress(*owner_.transport->Address());
    stub_ = pb::KvPairService::NewStub(grpc::CreateChannel(address_.nccl_target, grpc::InsecureChannelCredentials()));
    hello_.mutable_hello()->set_nonce(rpc::ToBytes(address_.nonce));
    hello_.mutable_hello()->set_nccl_version(StandIn().version);
  }
  static pb::KvPairRequest Piece(const std::vector<CopyRange>& ranges) {
    pb::KvPairRequest request;
    request.mutable_piece()->set_fetch(rpc::ToBytes(kFetch));
    for (const CopyRange& range : ranges) {
      request.mutable_piece()->add_offsets(range.remote_offset);
      request.mutable_piece()->add_bytes(range.bytes);
    }
    return request;
  }
  // How the owner ends a pair in which these are said.
  grpc::Status EndOf(const std::vector<pb::KvPairRequest>& requests) {
    const ServingThread serving(owner_);
    grpc::ClientContext context;
    const auto call = stub_->Pair(&context);
    for (const pb::KvPairRequest& request : requests) call->Write(request);
    pb::KvPairReply reply;
    while (call->Read(&reply)) {
    }
    return call->Finish();
  }

  TransportEnd owner_ = MakeNcclEnd();
  TransportAddress address_;
  std::unique_ptr<pb::KvPairService::Stub> stub_;
  pb::KvPairRequest hello_;
};

TEST_F(PairProtocolTest, HelloOfAnotherRegionOrVersionIsRefused) {
  pb::KvPairRequest bad = hello_;
  bad.mutable_hello()->set_nonce(rpc::ToBytes({.high = 1, .low = 1}));
  const grpc::Status gone = EndOf({bad});
  EXPECT_EQ(gone.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(gone.error_message(), "another region is meant");
  bad = hello_;
  bad.mutable_hello()->set_nonce("short");
  EXPECT_EQ(EndOf({bad}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  bad = hello_;
  bad.mutable_hello()->set_nccl_version(StandIn().version + 1);
  const grpc::Status other = EndOf({bad});
  EXPECT_EQ(other.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(other.error_message(), HasSubstr("all workers need the same"));
}

TEST_F(PairProtocolTest, MessagesOutOfPlaceAndDamagedPiecesEndThePair) {
  const std::vector<std::vector<pb::KvPairRequest>> bad = {
      {pb::KvPairRequest()},
      {Piece({{.bytes = 64}})},
      {hello_, hello_},
      {hello_, Piece({{.bytes = 0}})},
      {hello_, Piece({{.bytes = kPairPieceBytes + 1}})},
      {hello_, Piece({{.bytes = kPairPieceBytes}, {.bytes = 1}})},
      {hello_, Piece(std::vector<CopyRange>(kPairPieceRanges + 1, {.bytes = 1}))},
      {hello_, Piece({{.bytes = UINT64_MAX}})},
  };
  for (const auto& requests : bad) {
    EXPECT_EQ(EndOf(requests).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << requests.back().ShortDebugString();
  }
}

TEST_F(PairProtocolTest, ReaderThatAsksForMoreThanAPairHasLosesIt) {
  const std::vector<pb::KvPairRequest> pieces(100, Piece({{.bytes = 64}}));
  std::vector<pb::KvPairRequest> requests = {hello_};
  requests.insert(requests.end(), pieces.begin(), pieces.end());
  EXPECT_EQ(EndOf(requests).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(PairProtocolTest, ReaderThatVanishesLeavesNoGrantInUse) {
  {
    const ServingThread serving(owner_);
    grpc::ClientContext context;
    const auto call = stub_->Pair(&context);
    call->Write(hello_);
    call->Write(Piece({{.bytes = 64}}));
    pb::KvPairReply reply;
    while (call->Read(&reply) && !reply.has_answer()) {
    }
    EXPECT_TRUE(reply.answer().granted());
    EXPECT_FALSE(owner_.transport->grants().Withdraw(kFetch)) << "it waits in NCCL for the reader";
    context.TryCancel();
    while (!owner_.transport->grants().Withdraw(kFetch)) std::this_thread::yield();
  }
}

// An owner that answers what it likes.
class FakeNcclOwner final : public pb::KvPairService::Service {
 public:
  explicit FakeNcclOwner(std::vector<pb::KvPairReply> replies) : replies_(std::move(replies)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const {
    return EncodeAddress({.nonce = {.high = 1, .low = 2},
                          .region_bytes = 16u << 20,
                          .nccl_target = "127.0.0.1:" + std::to_string(port_)});
  }

 private:
  grpc::Status Pair(grpc::ServerContext* /*context*/,
                    grpc::ServerReaderWriter<pb::KvPairReply, pb::KvPairRequest>* stream) override {
    for (const pb::KvPairReply& reply : replies_) stream->Write(reply);
    pb::KvPairRequest request;
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  }

  const std::vector<pb::KvPairReply> replies_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(NcclTransportTest, OwnerThatBreaksTheProtocolIsLost) {
  pb::KvPairReply short_id;
  short_id.set_unique_id("short");
  pb::KvPairReply id;
  nccl::UniqueId drawn;
  ASSERT_EQ(StandIn().get_unique_id(&drawn), nccl::kSuccess);
  id.set_unique_id(drawn.bytes, sizeof(drawn.bytes));
  pb::KvPairReply answer;
  answer.mutable_answer()->set_piece(99);
  for (const auto& replies : std::vector<std::vector<pb::KvPairReply>>{
           {short_id}, {answer}, {pb::KvPairReply()}, {id, id}, {id, answer}, {100, answer}}) {
    const FakeNcclOwner fake(replies);
    TransportEnd reader = MakeNcclEnd();
    const absl::Status status = ReadAll(reader, *reader.transport->Connect(fake.address()));
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the owner"));
  }
}

}  // namespace
}  // namespace baton::kvtransfer
