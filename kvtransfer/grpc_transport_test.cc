#include "kvtransfer/transports/grpc/grpc_transport.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "baton/internal/v1/kv_read.grpc.pb.h"
#include "common/rpc/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/deferred_memory.h"
#include "kvtransfer/testing/transport_conformance.h"
#include "kvtransfer/transport_address.h"

namespace baton::kvtransfer {
namespace {

namespace pb = internal::v1;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Transport>> Make() { return MakeTransport({.kind = TransportKind::kGrpc}); }

absl::StatusOr<std::unique_ptr<Transport>> MakeOnDevice() {
  return MakeTransport({.kind = TransportKind::kGrpc, .memory = NewDeferredMemory()});
}

INSTANTIATE_TEST_SUITE_P(Backends, TransportConformance,
                         testing::Values(TransportFactory{"Grpc", &Make, "grpc"},
                                         TransportFactory{"GrpcDevice", &MakeOnDevice, "grpc"}),
                         FactoryName);

class GrpcTransportTest : public ::testing::Test {
 protected:
  static constexpr Id128 kFetch{.high = 3, .low = 4};
  static constexpr size_t kBytes = 1u << 20;

  GrpcTransportTest() {
    owner_.transport = *Make();
    owner_.region = *owner_.transport->AllocateRegion(kBytes);
    owner_.transport->grants().Grant(kFetch, {{.offset = 0, .bytes = kBytes}});
    address_ = *DecodeAddress(*owner_.transport->Address());
    stub_ = pb::KvReadService::NewStub(grpc::CreateChannel(address_.grpc_target, grpc::InsecureChannelCredentials()));
    request_.set_nonce(rpc::ToBytes(address_.nonce));
    request_.set_fetch(rpc::ToBytes(kFetch));
  }
  void AddRange(uint64_t offset, uint64_t bytes) {
    request_.add_offsets(offset);
    request_.add_bytes(bytes);
  }
  // The bytes that a reader who speaks the protocol by itself gets.
  grpc::Status Read(std::string* bytes = nullptr) {
    const ServingThread serving(owner_);
    grpc::ClientContext context;
    const auto call = stub_->Read(&context, request_);
    pb::KvReadPiece piece;
    while (call->Read(&piece)) {
      if (bytes != nullptr) bytes->append(piece.data());
    }
    return call->Finish();
  }

  TransportEnd owner_;
  TransportAddress address_;
  std::unique_ptr<pb::KvReadService::Stub> stub_;
  pb::KvReadRequest request_;
};

TEST_F(GrpcTransportTest, RangesComeOneAfterTheOther) {
  owner_.region[10] = 'a';
  owner_.region[kBytes - 1] = 'z';
  AddRange(kBytes - 1, 1);
  AddRange(0, 0);
  AddRange(10, 1);
  std::string bytes;
  EXPECT_TRUE(Read(&bytes).ok());
  EXPECT_EQ(bytes, "za");
}

TEST_F(GrpcTransportTest, DamagedRequestsAreRefused) {
  AddRange(0, 64);
  const pb::KvReadRequest good = request_;
  std::vector<pb::KvReadRequest> bad(4, good);
  bad[0].set_nonce("short");
  bad[1].set_fetch("");
  bad[2].add_offsets(0);
  for (size_t i = 0; i < kMaxRangesPerRead; ++i) {
    bad[3].add_offsets(0);
    bad[3].add_bytes(1);
  }
  for (const pb::KvReadRequest& request : bad) {
    request_ = request;
    EXPECT_EQ(Read().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << request.ShortDebugString();
  }
  request_ = good;
  request_.set_nonce(rpc::ToBytes({.high = 1, .low = 1}));
  EXPECT_EQ(Read().error_code(), grpc::StatusCode::UNAVAILABLE) << "it means another region";
  request_ = good;
  EXPECT_TRUE(Read().ok());
}

TEST_F(GrpcTransportTest, RangesThatWrapAroundAreRefused) {
  AddRange(64, UINT64_MAX);
  EXPECT_EQ(Read().error_code(), grpc::StatusCode::UNAVAILABLE);
  request_.set_fetch(rpc::ToBytes(Id128{}));
  EXPECT_EQ(Read().error_code(), grpc::StatusCode::UNAVAILABLE);
  request_.set_offsets(0, UINT64_MAX - 16);
  EXPECT_EQ(Read().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcTransportTest, AnOwnerThatDoesNotAnswerIsLostAfterTheStallTimeout) {
  const auto reader = *MakeTransport({.kind = TransportKind::kGrpc, .stall_timeout_ms = 50});
  ASSERT_TRUE(reader->AllocateRegion(kBytes).ok());
  const PeerId peer = *reader->Connect(*owner_.transport->Address());
  const CopyRange range = {.bytes = 64};
  ASSERT_TRUE(reader->StartRead(peer, kFetch, {range}).ok());
  std::vector<ReadCompletion> completions;
  while (completions.empty()) {
    reader->WaitForEvent(kNsPerSecond);
    reader->Poll(completions);
  }
  EXPECT_TRUE(absl::IsUnavailable(completions[0].status)) << completions[0].status;
  EXPECT_THAT(std::string(completions[0].status.message()), HasSubstr("nothing came for 50 ms"));
}

// An owner that sends what it likes.
class FakeOwner final : public pb::KvReadService::Service {
 public:
  explicit FakeOwner(size_t bytes) : bytes_(bytes) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const {
    return EncodeAddress({.nonce = {.high = 1, .low = 2},
                          .region_bytes = 1u << 20,
                          .grpc_target = "127.0.0.1:" + std::to_string(port_)});
  }

 private:
  grpc::Status Read(grpc::ServerContext* /*context*/, const pb::KvReadRequest* /*request*/,
                    grpc::ServerWriter<pb::KvReadPiece>* writer) override {
    pb::KvReadPiece piece;
    piece.set_data(std::string(bytes_, 'x'));
    writer->Write(piece);
    return grpc::Status::OK;
  }

  const size_t bytes_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(GrpcTransportTest, AnOwnerThatSendsLessOrMoreThanItWasAskedForFailsTheRead) {
  for (const size_t sent : {63, 64, 65}) {
    const FakeOwner fake(sent);
    TransportEnd reader;
    reader.transport = *Make();
    reader.region = *reader.transport->AllocateRegion(kBytes);
    const PeerId peer = *reader.transport->Connect(fake.address());
    const CopyRange range = {.local_offset = 128, .bytes = 64};
    ASSERT_TRUE(reader.transport->StartRead(peer, kFetch, {range}).ok());
    while (reader.completions.empty()) {
      reader.transport->WaitForEvent(kNsPerSecond);
      reader.Poll();
    }
    EXPECT_EQ(reader.completions[0].status.ok(), sent == 64) << reader.completions[0].status;
    EXPECT_EQ(reader.region[128 + 64], 0);
  }
}

TEST_F(GrpcTransportTest, AWorkerOfAnotherTransportIsRefusedWithWhatToDo) {
  const auto other = *MakeTransport({.kind = TransportKind::kInproc});
  ASSERT_TRUE(other->AllocateRegion(kBytes).ok());
  const absl::Status refused = owner_.transport->Connect(*other->Address()).status();
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--transport"));
}

TEST_F(GrpcTransportTest, ListensInItsPortRangeAndSaysWhenThatIsTaken) {
  const int port = std::stoi(address_.grpc_target.substr(address_.grpc_target.rfind(':') + 1));
  const absl::Status taken = MakeTransport({.kind = TransportKind::kGrpc, .tcp_ports = PortRange{port, port}}).status();
  EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
  EXPECT_THAT(std::string(taken.message()), HasSubstr("--transfer-ports"));
}

TEST_F(GrpcTransportTest, ReadersAreSentToTheAdvertisedHost) {
  const auto transport = *MakeTransport({.kind = TransportKind::kGrpc, .advertise = "worker-0.pods"});
  ASSERT_TRUE(transport->AllocateRegion(kBytes).ok());
  EXPECT_THAT(DecodeAddress(*transport->Address())->grpc_target, testing::StartsWith("worker-0.pods:"));
}

}  // namespace
}  // namespace baton::kvtransfer
