#include "cli/status_command.h"

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "baton/v1/admin.grpc.pb.h"
#include "cli/process.h"
#include "cli/router_channel.h"
#include "common/rpc/client_error.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace baton::cli {
namespace {

constexpr std::chrono::seconds kTimeout{5};

using Json = nlohmann::ordered_json;

struct StatusFlags {
  TargetFlags router;
  bool json = false;
};

Json WorkerJson(const v1::WorkerStatus& worker) {
  return {{"pid", worker.pid()},
          {"role", worker.role()},
          {"address", worker.address()},
          {"admin", worker.admin().empty() ? Json() : Json(worker.admin())},
          {"state", worker.state()},
          {"trouble", worker.trouble().empty() ? Json() : Json(worker.trouble())},
          {"bad_partners", Json(std::vector<std::string>(worker.bad_partners().begin(), worker.bad_partners().end()))},
          {"model", worker.model()},
          {"group", worker.group()},
          {"partners", worker.partners()},
          {"no_partner", worker.no_partner().empty() ? Json() : Json(worker.no_partner())},
          {"total_blocks", worker.total_blocks()},
          {"free_blocks", worker.free_blocks()},
          {"used_blocks", worker.used_blocks()},
          {"cached_blocks", worker.cached_blocks()},
          {"running", worker.running()},
          {"pending_prompt_tokens", worker.pending_prompt_tokens()},
          {"incarnation", worker.incarnation()},
          {"fingerprint", worker.fingerprint()}};
}

Json RefusedJson(const v1::RefusedWorker& worker) {
  return {{"pid", worker.pid()},     {"role", worker.role()}, {"address", worker.address()},
          {"model", worker.model()}, {"why", worker.why()},   {"age_ms", worker.age_ms()}};
}

Json StatusJson(const v1::GetStatusResponse& status) {
  Json json = {{"version", status.version()},
               {"model", status.model()},
               {"router",
                {{"pid", status.router().pid()},
                 {"address", status.router().address()},
                 {"admin", status.router().admin().empty() ? Json() : Json(status.router().admin())}}},
               {"serving", status.serving()},
               {"waits_for", status.waits_for().empty() ? Json() : Json(status.waits_for())},
               {"queued_jobs", status.queued_jobs()},
               {"running_jobs", status.running_jobs()},
               {"paused_jobs", status.paused_jobs()},
               {"workers", Json::array()},
               {"refused", Json::array()}};
  for (const v1::WorkerStatus& worker : status.workers()) json["workers"].push_back(WorkerJson(worker));
  for (const v1::RefusedWorker& worker : status.refused()) json["refused"].push_back(RefusedJson(worker));
  return json;
}

std::string StateText(const v1::WorkerStatus& worker) {
  return worker.trouble().empty() ? worker.state() : worker.state() + " (" + worker.trouble() + ")";
}

// Where hand-offs fail.
std::string BadPartnersText(const v1::WorkerStatus& worker) {
  if (worker.bad_partners().empty()) return "";
  return ", hand-offs fail with " + absl::StrJoin(worker.bad_partners(), " ");
}

std::string PartnerText(const v1::WorkerStatus& worker) {
  if (worker.partners() == 0) return "none: " + worker.no_partner();
  if (worker.role() == "mixed") return "itself";
  return absl::StrFormat("%d worker%s", worker.partners(), worker.partners() == 1 ? "" : "s");
}

void PrintWorkers(const v1::GetStatusResponse& status) {
  if (status.workers().empty()) return;
  std::cout << absl::StreamFormat("%-8s %8s %-22s %-9s %-5s %8s %8s %8s %8s  %s\n", "role", "pid", "address", "state",
                                  "group", "free", "used", "cached", "running", "partner");
  std::map<std::string, std::string> groups;
  for (const v1::WorkerStatus& worker : status.workers()) {
    groups[worker.group()] = worker.fingerprint();
    std::cout << absl::StreamFormat("%-8s %8d %-22s %-9s %-5s %8d %8d %8d %8d  %s\n", worker.role(), worker.pid(),
                                    worker.address(), StateText(worker), worker.group(), worker.free_blocks(),
                                    worker.used_blocks(), worker.cached_blocks(), worker.running(),
                                    PartnerText(worker) + BadPartnersText(worker));
  }
  for (const auto& [name, fingerprint] : groups) std::cout << "group " << name << ": " << fingerprint << '\n';
}

void PrintStatus(const v1::GetStatusResponse& status, const std::string& target) {
  std::cout << absl::StreamFormat(
      "router %s, version %s, serves %s: %d jobs queued, %d running%s\n", target, status.version(), status.model(),
      status.queued_jobs(), status.running_jobs(),
      status.paused_jobs() == 0 ? "" : absl::StrFormat(", %d paused until their clients read", status.paused_jobs()));
  if (!status.router().admin().empty()) std::cout << "dashboard: http://" << status.router().admin() << "/\n";
  if (!status.serving()) std::cout << "no request can be served until there is " << status.waits_for() << '\n';
  PrintWorkers(status);
  for (const v1::RefusedWorker& worker : status.refused()) {
    std::cout << absl::StreamFormat("refused %s worker %s (pid %d), asked %.1f s ago: %s\n", worker.role(),
                                    worker.address(), worker.pid(), static_cast<double>(worker.age_ms()) / 1000,
                                    worker.why());
  }
}

absl::StatusOr<v1::GetStatusResponse> GetStatus(const TargetFlags& router) {
  BATON_ASSIGN_OR_RETURN(const auto channel, OpenChannel(router));
  const auto stub = v1::AdminService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  v1::GetStatusResponse response;
  const grpc::Status status = stub->GetStatus(&context, {}, &response);
  if (!status.ok()) return rpc::ExplainRouterError(context, status, router.target);
  return response;
}

absl::Status Status(const StatusFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, GetStatus(flags.router));
  if (flags.json) {
    std::cout << StatusJson(status).dump() << std::endl;
  } else {
    PrintStatus(status, flags.router.target);
  }
  return absl::OkStatus();
}

}  // namespace

void AddStatusCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* command = app.add_subcommand("status", "shows the workers of a running router");
  AddTargetFlags(*command, flags->router);
  command->add_flag("--json", flags->json);
  command->callback([flags, &exit_code] { exit_code = Report(Status(*flags)); });
}

}  // namespace baton::cli
