#include "router/registry_service.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/protocol.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

namespace pb = internal::v1;
using ::testing::HasSubstr;

class NoCalls final : public WorkerCalls {
 public:
  void Start(const StartPrefill&) override { FAIL(); }
  void Start(const StartDecode&) override { FAIL(); }
  void Cancel(const CancelAttempt&) override { FAIL(); }
};

class RegistryServiceTest : public ::testing::Test {
 protected:
  RegistryServiceTest() {
    loop_.Start(calls_);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = pb::WorkerRegistryService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  ~RegistryServiceTest() override {
    server_->Shutdown();
    loop_.Stop();
  }

  static pb::WorkerHello Hello() {
    pb::WorkerHello hello;
    hello.set_incarnation(Id128{1, 2}.ToHex());
    hello.set_role(pb::WORKER_ROLE_MIXED);
    hello.set_target("127.0.0.1:1");
    hello.set_model("tiny");
    hello.set_fingerprint("f");
    hello.set_total_blocks(8);
    hello.set_max_sequences(2);
    hello.set_chunk_tokens(16);
    hello.set_context_length(64);
    hello.set_full_groups(1);
    hello.set_protocol_version(rpc::kProtocolVersion);
    return hello;
  }

  struct Answer {
    std::optional<pb::JoinAccepted> accepted;
    grpc::Status status;
  };
  // One membership, which ends after its answer.
  Answer Join(const pb::WorkerHello& hello) {
    grpc::ClientContext context;
    const auto stream = stub_->Join(&context);
    pb::JoinRequest request;
    *request.mutable_hello() = hello;
    stream->Write(request);
    pb::JoinResponse response;
    Answer answer;
    if (stream->Read(&response)) answer.accepted = response.accepted();
    stream->WritesDone();
    answer.status = stream->Finish();
    return answer;
  }

  NoCalls calls_;
  RouterLoop loop_{DispatcherOptions{}, MonotonicClock()};
  RegistryService service_{"tiny", loop_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<pb::WorkerRegistryService::Stub> stub_;
};

TEST_F(RegistryServiceTest, AWorkerOfAnotherProtocolVersionIsRefusedAndToldWhatToDo) {
  for (const uint32_t version : {uint32_t{0}, rpc::kProtocolVersion + 1}) {
    pb::WorkerHello hello = Hello();
    hello.set_protocol_version(version);
    const Answer answer = Join(hello);
    EXPECT_FALSE(answer.accepted.has_value());
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(answer.status.error_message(), HasSubstr(absl::StrCat("version ", version)));
    EXPECT_THAT(answer.status.error_message(), HasSubstr("start router and workers from the same release"));
  }
}

TEST_F(RegistryServiceTest, TheAnswerStatesTheVersionAndOnlyFeaturesThatBothKnow) {
  pb::WorkerHello hello = Hello();
  hello.set_features(~uint64_t{0});
  const Answer answer = Join(hello);
  ASSERT_TRUE(answer.accepted.has_value()) << answer.status.error_message();
  EXPECT_EQ(answer.accepted->protocol_version(), rpc::kProtocolVersion);
  EXPECT_EQ(answer.accepted->features(), rpc::kProtocolFeatures);
}

}  // namespace
}  // namespace baton::router
