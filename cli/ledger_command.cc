#include "cli/ledger_command.h"

#include <chrono>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "baton/v1/admin.grpc.pb.h"
#include "cli/options.h"
#include "cli/process.h"
#include "cli/router_channel.h"
#include "common/rpc/client_error.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace baton::cli {
namespace {

constexpr std::chrono::seconds kLedgerTimeout{5};

using Json = nlohmann::ordered_json;

struct LedgerFlags {
  TargetFlags router;
  bool json = false;
};

double Seconds(int64_t ms) { return static_cast<double>(ms) / 1000; }

int32_t HeldBlocks(const v1::WorkerLedger& worker) {
  return worker.total_blocks() - worker.free_blocks() - worker.cached_blocks() - worker.other_routers_blocks();
}

Json HolderJson(const v1::LedgerHolder& holder) {
  return {{"job", holder.job()},         {"attempt", holder.attempt()}, {"choice", holder.choice()},
          {"hold", holder.hold()},       {"blocks", holder.blocks()},   {"own_blocks", holder.own_blocks()},
          {"held_ms", holder.held_ms()}, {"verdict", holder.verdict()}};
}

Json WorkerJson(const v1::WorkerLedger& worker) {
  Json json = {{"pid", worker.pid()},
               {"role", worker.role()},
               {"address", worker.address()},
               {"reported", worker.reported()},
               {"total_blocks", worker.total_blocks()},
               {"open_calls", worker.open_calls()}};
  if (!worker.reported()) return json;
  json["report_age_ms"] = worker.report_age_ms();
  json["free_blocks"] = worker.free_blocks();
  json["cached_blocks"] = worker.cached_blocks();
  json["held_blocks"] = HeldBlocks(worker);
  json["other_routers_blocks"] = worker.other_routers_blocks();
  json["unaccounted_blocks"] = worker.unaccounted_blocks();
  json["orphaned_blocks"] = worker.orphaned_blocks();
  json["holders"] = Json::array();
  for (const v1::LedgerHolder& holder : worker.holders()) json["holders"].push_back(HolderJson(holder));
  json["omitted_holders"] = worker.omitted_holders();
  return json;
}

Json LedgerJson(const v1::GetLedgerResponse& ledger) {
  Json json = {{"orphaned_blocks", ledger.orphaned_blocks()},
               {"workers_with_orphans", ledger.workers_with_orphans()},
               {"open_calls", ledger.open_calls()},
               {"orphan_after_ms", ledger.orphan_after_ms()},
               {"workers", Json::array()}};
  for (const v1::WorkerLedger& worker : ledger.workers()) json["workers"].push_back(WorkerJson(worker));
  return json;
}

void PrintHolders(const v1::WorkerLedger& worker) {
  if (worker.holders().empty()) return;
  std::cout << absl::StreamFormat("  %-32s %7s %6s %-11s %8s %8s %10s  %s\n", "job", "attempt", "choice", "hold",
                                  "blocks", "own", "held", "verdict");
  for (const v1::LedgerHolder& holder : worker.holders()) {
    std::cout << absl::StreamFormat("  %-32s %7d %6d %-11s %8d %8d %8.1f s  %s\n", holder.job(), holder.attempt(),
                                    holder.choice(), holder.hold(), holder.blocks(), holder.own_blocks(),
                                    Seconds(holder.held_ms()), holder.verdict());
  }
  if (worker.omitted_holders() > 0) std::cout << "  and " << worker.omitted_holders() << " more\n";
}

void PrintWorker(const v1::WorkerLedger& worker) {
  std::cout << absl::StreamFormat("%s worker %s (pid %d), %d open calls: ", worker.role(), worker.address(),
                                  worker.pid(), worker.open_calls());
  if (!worker.reported()) {
    std::cout << "no report yet; a worker of a former version sends none\n";
    return;
  }
  std::cout << absl::StreamFormat("%d blocks, %d free, %d cached, %d held; reported %.1f s ago\n",
                                  worker.total_blocks(), worker.free_blocks(), worker.cached_blocks(),
                                  HeldBlocks(worker), Seconds(worker.report_age_ms()));
  if (worker.other_routers_blocks() > 0) {
    std::cout << absl::StreamFormat("  %d blocks are held for other routers, whose ledgers say by whom\n",
                                    worker.other_routers_blocks());
  }
  PrintHolders(worker);
  if (worker.unaccounted_blocks() != 0) {
    std::cout << absl::StreamFormat("  %d blocks are not accounted for\n", worker.unaccounted_blocks());
  }
}

void PrintLedger(const v1::GetLedgerResponse& ledger) {
  int unheard = 0;
  for (const v1::WorkerLedger& worker : ledger.workers()) {
    PrintWorker(worker);
    unheard += worker.reported() ? 0 : 1;
  }
  if (ledger.workers_with_orphans() > 0) {
    std::cout << absl::StreamFormat(
        "orphans: %d blocks at %d workers, which nobody will give back. This is a bug: keep the logs, report it, and "
        "start these workers anew\n",
        ledger.orphaned_blocks(), ledger.workers_with_orphans());
  } else if (unheard > 0) {
    std::cout << absl::StreamFormat("no orphans at %d workers; %d have not reported\n", ledger.workers_size() - unheard,
                                    unheard);
  } else {
    std::cout << absl::StreamFormat("no orphans at %d workers\n", ledger.workers_size());
  }
}

absl::StatusOr<v1::GetLedgerResponse> GetLedger(const TargetFlags& router) {
  BATON_ASSIGN_OR_RETURN(const auto channel, OpenChannel(router));
  const auto stub = v1::AdminService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLedgerTimeout);
  v1::GetLedgerResponse response;
  const grpc::Status status = stub->GetLedger(&context, {}, &response);
  if (!status.ok()) return rpc::ExplainRouterError(context, status, router.target);
  return response;
}

absl::StatusOr<int> Ledger(const LedgerFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const v1::GetLedgerResponse ledger, GetLedger(flags.router));
  if (flags.json) {
    std::cout << LedgerJson(ledger).dump() << std::endl;
  } else {
    PrintLedger(ledger);
  }
  return ledger.workers_with_orphans() > 0 ? kExitFailed : kExitDone;
}

}  // namespace

void AddLedgerCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<LedgerFlags>();
  CLI::App* command = app.add_subcommand("ledger", "shows who holds the KV blocks of every worker, and finds leaks");
  AddTargetFlags(*command, flags->router);
  command->add_flag("--json", flags->json);
  command->callback([flags, &exit_code] {
    const absl::StatusOr<int> code = Ledger(*flags);
    exit_code = code.ok() ? *code : Report(code.status());
  });
}

}  // namespace baton::cli
