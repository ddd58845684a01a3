#include "common/rpc/client_error.h"

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "baton/v1/admin.grpc.pb.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/grpc_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHint[] = "is `baton serve` running there?";

class AnsweringRouter final : public v1::AdminService::Service {
 public:
  explicit AnsweringRouter(grpc::Status answer) : answer_(std::move(answer)) {}
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*, v1::GetStatusResponse*) override {
    return answer_;
  }

 private:
  const grpc::Status answer_;
};

absl::Status Ask(const std::string& target, std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
  const auto stub = v1::AdminService::NewStub(
      grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), ClientChannelArguments()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  v1::GetStatusResponse response;
  const grpc::Status status = stub->GetStatus(&context, {}, &response);
  EXPECT_FALSE(status.ok());
  return ExplainRouterError(context, status, target);
}

std::string AskServer(const GrpcServerOptions& options) {
  const absl::StatusOr<GrpcServer> server = StartGrpcServer(options);
  EXPECT_TRUE(server.ok()) << server.status();
  return std::string(Ask(server->address).message());
}

std::string AskRouter(const grpc::Status& answer) {
  AnsweringRouter router(answer);
  return AskServer({.bind = "127.0.0.1", .services = {&router}});
}

TEST(ClientError, WhereNobodyAnswersTheUserIsAskedWhetherTheServerRuns) {
  const absl::Status error = Ask("127.0.0.1:9");
  EXPECT_TRUE(absl::IsUnavailable(error));
  EXPECT_EQ(error.message(),
            "router 127.0.0.1:9: Connection refused; is `baton serve` running there? --target HOST:PORT names another");
  EXPECT_THAT(std::string(Ask("no-such-host.invalid:1").message()), HasSubstr(kHint));
}

TEST(ClientError, WhatARouterAnswersIsTakenAsItsWord) {
  EXPECT_THAT(AskRouter({grpc::StatusCode::UNAVAILABLE, "no workers"}),
              ::testing::AllOf(HasSubstr("no workers"), Not(HasSubstr(kHint))));
  EXPECT_THAT(AskRouter({grpc::StatusCode::UNAVAILABLE, "failed to connect to its worker"}), Not(HasSubstr(kHint)));
  EXPECT_EQ(AskRouter({grpc::StatusCode::INVALID_ARGUMENT, "prompt: empty"}), "INVALID_ARGUMENT: prompt: empty");
  EXPECT_EQ(AskRouter({grpc::StatusCode::DEADLINE_EXCEEDED, "while it waited"}), "DEADLINE_EXCEEDED: while it waited");
  EXPECT_EQ(AskRouter({grpc::StatusCode::UNIMPLEMENTED, "grammar: not yet", "which field"}),
            "UNIMPLEMENTED: grammar: not yet");
}

TEST(ClientError, AServerThatIsNoRouterIsCalledWhatItIs) {
  const std::string worker = AskServer({.bind = "127.0.0.1", .what = "this is a worker"});
  EXPECT_THAT(worker, HasSubstr(": this is a worker; --target names the --grpc-port"));
  EXPECT_THAT(worker, Not(HasSubstr("UNIMPLEMENTED")));
  EXPECT_THAT(AskServer({.bind = "127.0.0.1"}), HasSubstr("it answers, but not as a router"));
}

TEST(ClientError, ARouterThatSaysNothingDidNotAnswerInTime) {
  class StoppedRouter final : public v1::AdminService::CallbackService {
    grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
                                        v1::GetStatusResponse*) override {
      class Silent final : public grpc::ServerUnaryReactor {
        void OnCancel() override { Finish(grpc::Status::CANCELLED); }
        void OnDone() override { delete this; }
      };
      return new Silent;
    }
  } router;
  const absl::StatusOr<GrpcServer> server = StartGrpcServer({.bind = "127.0.0.1", .services = {&router}});
  ASSERT_TRUE(server.ok());
  const absl::Status error = Ask(server->address, std::chrono::milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(error));
  EXPECT_EQ(error.message(), absl::StrCat("router ", server->address, " did not answer in time"));
}

TEST(ClientError, WhatGrpcItselfSaysIsNoAnswerOfARouter) {
  EXPECT_THAT(AskRouter({grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"}),
              HasSubstr(" did not answer in time"));
  for (const char* const message :
       {"Socket closed", "recvmsg:Connection reset by peer", "sendmsg:Broken pipe", "keepalive watchdog timeout"}) {
    EXPECT_THAT(AskRouter({grpc::StatusCode::UNAVAILABLE, message}),
                HasSubstr(absl::StrCat(": the connection broke (", message, "); send the request again")));
  }
}

}  // namespace
}  // namespace baton::rpc
