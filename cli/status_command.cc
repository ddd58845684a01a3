#include "cli/status_command.h"

#include <chrono>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "baton/v1/admin.grpc.pb.h"
#include "cli/generation_client.h"
#include "cli/options.h"
#include "cli/process.h"
#include "common/rpc/channel_cache.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace baton::cli {
namespace {

constexpr std::chrono::seconds kTimeout{5};

struct StatusFlags {
  std::string target;
  bool json = false;
};

nlohmann::ordered_json WorkerJson(const v1::WorkerStatus& worker) {
  return {{"pid", worker.pid()},
          {"role", worker.role()},
          {"address", worker.address()},
          {"state", worker.state()},
          {"model", worker.model()},
          {"total_blocks", worker.total_blocks()},
          {"free_blocks", worker.free_blocks()},
          {"used_blocks", worker.used_blocks()},
          {"cached_blocks", worker.cached_blocks()},
          {"running", worker.running()},
          {"pending_prompt_tokens", worker.pending_prompt_tokens()},
          {"incarnation", worker.incarnation()},
          {"fingerprint", worker.fingerprint()}};
}

absl::StatusOr<v1::GetStatusResponse> GetStatus(const std::string& target) {
  const auto stub = v1::AdminService::NewStub(
      grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), rpc::ClientChannelArguments()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  v1::GetStatusResponse response;
  const grpc::Status status = stub->GetStatus(&context, {}, &response);
  if (!status.ok()) return ExplainRpcError(status, target);
  return response;
}

absl::Status Status(const StatusFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, GetStatus(flags.target));
  if (flags.json) {
    nlohmann::ordered_json json = {{"version", status.version()},
                                   {"queued_jobs", status.queued_jobs()},
                                   {"running_jobs", status.running_jobs()},
                                   {"workers", nlohmann::ordered_json::array()}};
    for (const v1::WorkerStatus& worker : status.workers()) json["workers"].push_back(WorkerJson(worker));
    std::cout << json.dump() << std::endl;
    return absl::OkStatus();
  }
  std::cout << absl::StreamFormat("router %s, version %s: %d jobs queued, %d running\n", flags.target, status.version(),
                                  status.queued_jobs(), status.running_jobs());
  std::cout << absl::StreamFormat("%-8s %8s %-22s %-9s %8s %8s %8s %8s\n", "role", "pid", "address", "state", "free",
                                  "used", "cached", "running");
  for (const v1::WorkerStatus& worker : status.workers()) {
    std::cout << absl::StreamFormat("%-8s %8d %-22s %-9s %8d %8d %8d %8d\n", worker.role(), worker.pid(),
                                    worker.address(), worker.state(), worker.free_blocks(), worker.used_blocks(),
                                    worker.cached_blocks(), worker.running());
  }
  return absl::OkStatus();
}

}  // namespace

void AddStatusCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* command = app.add_subcommand("status", "shows the workers of a running router");
  AddTargetFlag(*command, flags->target);
  command->add_flag("--json", flags->json);
  command->callback([flags, &exit_code] { exit_code = Report(Status(*flags)); });
}

}  // namespace baton::cli
