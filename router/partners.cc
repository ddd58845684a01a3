#include "router/partners.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace baton::router {
namespace {

bool IsPartner(const Worker& worker, const Worker& other) {
  return (worker.can_prefill() && other.can_decode()) || (worker.can_decode() && other.can_prefill());
}

const char* MissingRole(const Worker& worker) { return worker.can_prefill() ? "decode" : "prefill"; }

// A part of a fingerprint, which is "exact-v2/kv:30x3x64-bf16-v1/weights:.../probe:...", and the flag that decides it.
std::string PartName(const std::string& part) {
  const size_t colon = part.find(':');
  if (colon == std::string::npos) return "numerics (--numerics, --device)";
  const std::string name = part.substr(0, colon);
  return name == "kv" ? "kv (--kv-dtype)" : name == "weights" ? "weights (--model, --weights)" : name;
}

// The names of the parts in which two fingerprints differ. A probe is the digest of what a small model computes, so it
// differs too where another part does, and is news only where none does.
std::string Difference(const std::string& a, const std::string& b) {
  const std::vector<std::string> parts_a = absl::StrSplit(a, '/');
  const std::vector<std::string> parts_b = absl::StrSplit(b, '/');
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(parts_a.size(), parts_b.size()); ++i) {
    if (parts_a[i] != parts_b[i]) names.push_back(PartName(parts_a[i]));
  }
  if (names.size() > 1 && names.back() == "probe") names.pop_back();
  return absl::StrJoin(names, ", ");
}

std::string WhyNone(const WorkerRegistry& registry, const Worker& worker) {
  std::string why = absl::StrCat("no ", MissingRole(worker), " worker with this fingerprint");
  std::set<std::string> told;
  for (const auto& [id, other] : registry.workers()) {
    if (!IsPartner(worker, other) || !told.insert(other.info.fingerprint).second) continue;
    if (other.info.fingerprint == worker.info.fingerprint) {
      absl::StrAppend(&why, "; ", other.info.target, " drains");
    } else {
      absl::StrAppend(&why, "; group ", registry.GroupName(other.info.fingerprint), "'s differs in ",
                      Difference(worker.info.fingerprint, other.info.fingerprint));
    }
  }
  return why;
}

}  // namespace

Partners PartnersOf(const WorkerRegistry& registry, const Worker& worker) {
  if (worker.load.state != WorkerState::kServing) return {.why_none = "it drains and gets no new requests"};
  Partners partners;
  const WorkerRegistry::Group& group = registry.serving_groups().at(worker.info.fingerprint);
  partners.count = static_cast<int32_t>(
      std::count_if(group.begin(), group.end(), [&](const Worker* other) { return IsPartner(worker, *other); }));
  if (partners.count == 0) partners.why_none = WhyNone(registry, worker);
  return partners;
}

std::string LastFor(const WorkerRegistry& registry, const Worker& worker) {
  bool prefills = worker.can_prefill();
  bool decodes = worker.can_decode();
  const auto group = registry.serving_groups().find(worker.info.fingerprint);
  if (group != registry.serving_groups().end()) {
    for (const Worker* other : group->second) {
      if (other == &worker) continue;
      prefills = prefills && !other->can_prefill();
      decodes = decodes && !other->can_decode();
    }
  }
  return prefills && decodes ? "prefill and decode" : prefills ? "prefill" : decodes ? "decode" : "";
}

std::string AwaitedWorkers(const WorkerRegistry& registry) {
  if (registry.CanServe()) return "";
  if (registry.serving_groups().empty()) return "a prefill and a decode worker, or a mixed one";
  std::vector<std::string> awaited;
  for (const auto& [fingerprint, group] : registry.serving_groups()) {
    awaited.push_back(
        absl::StrCat("a ", MissingRole(*group.front()), " worker of group ", registry.GroupName(fingerprint)));
  }
  std::sort(awaited.begin(), awaited.end());
  return absl::StrJoin(awaited, ", or ");
}

}  // namespace baton::router
