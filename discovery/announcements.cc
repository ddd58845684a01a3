#include "discovery/announcements.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/limits.h"

namespace baton::discovery {
namespace pb = internal::v1;
namespace {

constexpr char kRoutersFolder[] = "/routers/";
constexpr char kWorkersFolder[] = "/workers/";

std::string MessageToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  BATON_CHECK(google::protobuf::util::MessageToJsonString(message, &json, options).ok());
  return json;
}

// Fields that a later version has added are ignored.
template <typename Message>
bool AddFromJson(const std::string& json, std::vector<Message>& messages) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  Message message;
  if (!google::protobuf::util::JsonStringToMessage(json, &message, options).ok()) return false;
  messages.push_back(std::move(message));
  return true;
}

}  // namespace

std::string RouterKey(const std::string& prefix, const Incarnation& router) {
  return absl::StrCat(prefix, kRoutersFolder, router.ToHex());
}

std::string WorkerKey(const std::string& prefix, const Incarnation& worker) {
  return absl::StrCat(prefix, kWorkersFolder, worker.ToHex());
}

std::string ToJson(const pb::RouterAnnouncement& router) { return MessageToJson(router); }

std::string ToJson(const pb::WorkerAnnouncement& worker) { return MessageToJson(worker); }

std::vector<std::string> ClusterTargets(const Fleet& fleet, const std::string& model) {
  std::vector<std::string> targets;
  for (const pb::RouterAnnouncement& router : fleet.routers) {
    if (router.model() != model || router.cluster().empty() || targets.size() == kMaxRouters) continue;
    if (std::find(targets.begin(), targets.end(), router.cluster()) == targets.end()) {
      targets.push_back(router.cluster());
    }
  }
  return targets;
}

Fleet ReadFleet(const std::string& prefix, const Entries& entries) {
  Fleet fleet;
  const std::string routers = absl::StrCat(prefix, kRoutersFolder);
  const std::string workers = absl::StrCat(prefix, kWorkersFolder);
  for (const auto& [key, value] : entries) {
    const bool was_read = absl::StartsWith(key, routers)   ? AddFromJson(value, fleet.routers)
                          : absl::StartsWith(key, workers) ? AddFromJson(value, fleet.workers)
                                                           : true;
    if (!was_read) fleet.unreadable.push_back(key);
  }
  return fleet;
}

}  // namespace baton::discovery
