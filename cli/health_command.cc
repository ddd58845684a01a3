#include "cli/health_command.h"

#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "cli/process.h"
#include "cli/router_channel.h"
#include "common/rpc/client_error.h"
#include "common/status.h"

namespace baton::cli {
namespace {

constexpr std::chrono::seconds kHealthTimeout{5};
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
// ServingStatus.SERVING
constexpr int kServing = 1;

// HealthCheckRequest has one field, a string with number 1, and HealthCheckResponse an enum with number 1. On the wire
// they are these two, whose code protobuf has compiled in.
using Request = google::protobuf::StringValue;
using Response = google::protobuf::Int32Value;

struct HealthFlags {
  TargetFlags router;
  std::string service;
};

std::string Subject(const HealthFlags& flags) {
  return flags.service.empty() ? flags.router.target : absl::StrCat(flags.service, " of ", flags.router.target);
}

absl::Status Check(const HealthFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const auto channel, OpenChannel(flags.router));
  grpc::TemplatedGenericStub<Request, Response> stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kHealthTimeout);
  Request request;
  request.set_value(flags.service);
  Response response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, kCheck, grpc::StubOptions(), &request, &response, [&status, &done](grpc::Status result) {
    status = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    return absl::NotFoundError(absl::StrCat(flags.router.target, " has no service named ", flags.service));
  }
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat(flags.router.target, " does not say how it is: ", rpc::ConnectionTrouble(status.error_message())));
  }
  if (response.value() != kServing) return absl::UnavailableError(absl::StrCat(Subject(flags), " is not serving"));
  return absl::OkStatus();
}

}  // namespace

void AddHealthCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<HealthFlags>();
  CLI::App* command = app.add_subcommand("health", "says by its exit code whether a router or a worker can serve");
  AddTargetFlags(*command, flags->router);
  command->add_option("--service", flags->service,
                      "full name of a gRPC service; baton.v1.AdminService: whether a router lives [the whole process]");
  command->callback([flags, &exit_code] { exit_code = Report(Check(*flags)); });
}

}  // namespace baton::cli
