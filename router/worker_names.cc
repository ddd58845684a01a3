#include "router/worker_names.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/limits.h"
#include "common/status.h"

namespace baton::router {
namespace {

constexpr size_t kMaxListedNames = 4;

std::string Shown(std::string_view text) { return absl::CHexEscape(ToAbsl(text.substr(0, kMaxWorkerTextBytes))); }

}  // namespace

std::string WorkerName(const WorkerInfo& info) {
  return absl::StrCat(RoleName(info.role), " worker ", Shown(info.target), " (pid ", info.pid, ")");
}

absl::StatusOr<const Worker*> FindNamedWorker(const WorkerRegistry& registry, std::string_view name) {
  std::vector<const Worker*> named;
  for (const auto& [id, worker] : registry.workers()) {
    const WorkerInfo& info = worker.info;
    if (name == info.target || name == std::to_string(info.pid) || name == info.incarnation.ToHex()) {
      named.push_back(&worker);
    }
  }
  if (named.size() == 1) return named.front();
  if (named.empty()) {
    return absl::NotFoundError(absl::StrCat("the router has no worker \"", Shown(name), "\" among its ",
                                            registry.workers().size(),
                                            ": name one by its address or pid, as `baton status` prints them"));
  }
  std::vector<std::string> names;
  for (const Worker* worker : named) {
    if (names.size() < kMaxListedNames) names.push_back(WorkerName(worker->info));
  }
  if (named.size() > names.size()) names.push_back("...");
  return absl::InvalidArgumentError(
      absl::StrCat(named.size(), " workers are called ", Shown(name), " (", absl::StrJoin(names, ", "),
                   "): name one by its address, or by its incarnation, which ", "`baton status --json` has"));
}

}  // namespace baton::router
